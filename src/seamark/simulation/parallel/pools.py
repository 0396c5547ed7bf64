"""The pools of a simulated member: handlers in virtual time, or the real pool of processes over simulated ones.

A call that ends is a fact of the world at once; the owner hears of it a moment later, together with others or alone,
and by then its partition may be gone. A report may also come just when the owner has looked for mail and is about to
wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from seamark.parallel.core.engine import Engine
from seamark.parallel.core.work import InFlightRecord, StartCall
from seamark.parallel.pools.pool import WORTH_WAKING, Mailbox, Pool, taken_back
from seamark.simulation.parallel.books import Books, Call
from seamark.simulation.parallel.threads import WakeQueue
from seamark.simulation.parallel.world import HandlerOwner
from seamark.simulation.world.violations import InvariantViolated

# So often may the owner find mail before it has read all.
_MOST_LOOKS = 1_000


class WatchedMailbox(Mailbox):
    """Nobody waits beside mail that was announced. ``on_look`` is called when the owner found none and may wait."""

    def __init__(self, books: Books) -> None:
        self._is_announced = False
        # How often mail was found since there was none.
        self._looks = 0
        self._books = books
        self.on_look: Callable[[], None] = lambda: None
        super().__init__(lambda: WakeQueue(books.world.loop, self.wait_ended))

    def __bool__(self) -> bool:
        if super().__bool__():
            self._check_reading()
            return True
        self._looks = 0
        self._is_announced = False
        self.on_look()
        return False

    def _check_reading(self) -> None:
        self._looks += 1
        if self._looks > _MOST_LOOKS:
            self._books.world.loop.fail(InvariantViolated("time goes on", "the owner looks at its mail and reads none"))

    def notify(self) -> None:
        self._is_announced = True
        super().notify()

    def wait_ended(self, is_woken: bool) -> None:
        """The owner's wait is over."""
        self._books.owner_free_ms = self._books.world.loop.now_ms
        if self._is_announced and not is_woken and super().__bool__():
            self._books.world.loop.fail(InvariantViolated("mail ends the owner's wait", "it waited while it had mail"))


class WatchedPool:
    """Enters into the books what the owner wants of a pool."""

    def __init__(self, pool: Pool, books: Books, engine: Callable[[], Engine]) -> None:
        self._pool = pool
        self._books = books
        self._engine = engine

    def start(self, calls: Sequence[StartCall]) -> None:
        terms = self._engine().assignments.terms()
        try:
            for call in calls:
                self._books.started(call, terms)
        except InvariantViolated as violated:
            self._books.world.loop.fail(violated)
        self._pool.start(calls)

    def withdraw(self) -> list[StartCall]:
        calls = self._pool.withdraw()
        self._books.taken_back(calls)
        return calls

    def stands_at(self, work: InFlightRecord) -> str | None:
        return self._pool.stands_at(work)

    def close(self, timeout: float) -> None:
        self._pool.close(timeout)


class HandlerPool:
    """As many calls at a time as the settings say; others wait for a free handler."""

    def __init__(self, books: Books, mailbox: WatchedMailbox, member: HandlerOwner) -> None:
        self._books = books
        self._world = books.world
        self._mailbox = mailbox
        self._member = member
        self._low = self._world.ahead // 2
        self._queue: deque[StartCall] = deque()
        self._running: list[Call] = []
        self._finished: list[Call] = []
        mailbox.on_look = self._report_early

    def start(self, calls: Sequence[StartCall]) -> None:
        self._queue.extend(calls)
        self._world.loop.call_later(int(self._world.rng.random() ** 4 * 30), self._begin_waiting)

    def withdraw(self) -> list[StartCall]:
        return taken_back(self._queue)

    def stands_at(self, work: InFlightRecord) -> str | None:
        return self._member.name if any(work in call.call.works for call in self._running) else None

    def close(self, timeout: float) -> None:  # noqa: ARG002 - what does not end is left behind
        self._queue.clear()

    def _begin_waiting(self) -> None:
        if not self._member.is_alive:
            return
        while self._queue and len(self._running) < self._books.settings.concurrency:
            self._begin(self._books.known(self._queue.popleft()))

    def _begin(self, call: Call) -> None:
        self._running.append(call)
        self._books.begin(call)

        def report(error: BaseException | None) -> None:
            if self._member.is_alive:
                self._ended(call, error)

        self._world.handlers.start(self._member, call.records, report)

    def _ended(self, call: Call, error: BaseException | None) -> None:
        self._running.remove(call)
        if error is not None:
            self._mailbox.failed.append((call.call, error))
            self._mailbox.notify()
        else:
            self._books.returned(call)
            self._finished.append(call)
            if len(self._finished) == 1:
                self._world.loop.call_later(int(self._world.rng.random() ** 3 * 30), self._report)
        self._begin_waiting()

    def _report(self) -> None:
        if not self._finished or not self._member.is_alive:
            return
        for call in self._finished:
            call.reported_ms = self._world.loop.now_ms
            self._mailbox.succeeded.append(call.call)
        self._finished.clear()
        if len(self._queue) <= self._low or len(self._mailbox.succeeded) >= WORTH_WAKING:
            self._mailbox.notify()

    def _report_early(self) -> None:
        if self._finished and self._world.rng.random() < 0.3:
            self._report()
