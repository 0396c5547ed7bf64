"""The event loop's time, shared fairly among those who use it.

Everybody has a ``Share``: a principal that is logged in, the strangers of one address together, a single connection
where nobody has to log in, and the broker for work of its own. A share that has used little lately is served at once.
All other work waits in its share's line. Work is a generator whose steps are short; each turn of the loop takes steps
for a moment, of one share after another, however many connections and requests a share has.

A step cannot be cut. A share has a small allowance of steps longer than ``LONG_STEP_SECONDS``; after one beyond it the
share rests for two hundred times as long if other parties are being served too: so one of them makes the others wait
for less than a hundredth of the time, whatever it asks for. While a share rests its large requests, and those of the
API that took so long, wait (``Rest``); heartbeats and other small requests do not.

A generator yields None where it may be interrupted, or a ``Wait`` for something that is done elsewhere.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Generator
from typing import Protocol

from seamark.readable_log import readable_logger

_log = readable_logger("seamark.broker")

# What a share that has used little may take of one turn before the rest of its work waits in line.
FIRST_SECONDS = 0.001
# What all lines together take of one turn: while several shares are being served, and while there is only one.
TURN_SECONDS = 0.0005
LONE_TURN_SECONDS = 0.004
# A share is served at once while it uses less than this part of the loop's time, not counting a short while.
LIGHT_PART = 0.1
CREDIT_SECONDS = 0.02
LONG_STEP_SECONDS = 0.003
REST_FACTOR = 200
# Below the session timeout of Kafka's clients, so that a member stays in its group.
MOST_REST_SECONDS = 30.0
# What long steps of a share may come to in a while, in sum.
ALLOWED_SECONDS = 0.03
# The first use of an API does not count if it is not longer.
FIRST_USE_SECONDS = 0.1
# What a short request is charged.
_SHORT_SECONDS = 0.00002
# For so long after another share was served nobody is alone.
_COMPANY_SECONDS = 1.0
# The while in which long steps are added up.
_LONG_STEPS_SECONDS = 60.0
# How old the last look at the thread's processor time may be; it takes longer than one at the clock.
_SAMPLE_SECONDS = 0.002
# Shares of principals and addresses that are remembered; beyond them those go that have used nothing lately.
_MOST_SHARES = 10_000


class Wait(Protocol):
    def begin(self, work: Work) -> bool:
        """Have it done, and then the work resumed in a turn to come; False if there is nothing to wait for."""


Steps = Generator[Wait | None]


class Work(Protocol):
    """A generator under way, as what it waits for sees it."""

    # Whether it holds something that others wait for.
    is_holding: bool

    @property
    def share(self) -> Share: ...

    def resume(self) -> None:
        """Let it go on in a turn to come."""


class Share:
    """One user of the loop; ``name`` is for the log.

    Connections of one host and client id on which nobody logs in are one ``party``: a client has several. The broker is
    none.
    """

    __slots__ = (
        "_refilled_at",
        "credit",
        "held",
        "is_ready",
        "is_resting",
        "line",
        "long_seconds",
        "long_until",
        "name",
        "party",
        "resting_api",
    )

    def __init__(self, name: str, party: str | None = None) -> None:
        self.name = name
        self.party = name if party is None else party
        self.credit = CREDIT_SECONDS
        self._refilled_at = 0.0
        self.line: deque[_Work] = deque()
        # Whether it is among those whose turn comes.
        self.is_ready = False
        self.is_resting = False
        # What its long steps come to, and until when they are added up.
        self.long_seconds = 0.0
        self.long_until = 0.0
        # The key of the API that made it rest, and the work that waits until it may go on.
        self.resting_api = -1
        self.held: list[_Work] = []

    def refill(self, now: float) -> None:
        """Give it what it may take at once for the time since this was done last."""
        self.credit = min(self.credit + (now - self._refilled_at) * LIGHT_PART, CREDIT_SECONDS)
        self._refilled_at = now

    @property
    def is_idle(self) -> bool:
        return not self.line and not self.is_resting and time.monotonic() >= self.long_until


class _Work:
    __slots__ = ("_turns", "failed", "is_holding", "share", "steps")

    def __init__(self, turns: Turns, share: Share, steps: Steps, failed: Callable[[], None] | None) -> None:
        self._turns = turns
        self.share = share
        self.steps = steps
        self.failed = failed
        self.is_holding = False

    def resume(self) -> None:
        self._turns.stand_in_line(self)


def _one(step: Callable[[], None]) -> Generator[None]:
    step()
    yield


class Rest:
    """The ``Wait`` for the end of a share's rest."""

    __slots__ = ("_share",)

    def __init__(self, share: Share) -> None:
        self._share = share

    def begin(self, work: Work) -> bool:
        if not self._share.is_resting:
            return False
        self._share.held.append(work)  # type: ignore[arg-type]
        return True


class Turns:
    """Owned by the event loop's thread. ``rested`` is told of a share, how long its step was and how long it rests."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, rested: Callable[[Share, float, float], None] = lambda *_: None
    ) -> None:
        self._loop = loop
        self._rested = rested
        self._shares: dict[str, Share] = {}
        # Those that have a line and do not rest, the next first.
        self._ready: deque[Share] = deque()
        self._is_planned = False
        # When the slice under way is over; 0 when there is none.
        self._slice_ends = 0.0
        self._resting: set[Share] = set()
        self._latest: Share | None = None
        self._latest_at = 0.0
        self._other_at = float("-inf")
        # The party that was served last, and when another one was.
        self._party = ""
        self._party_at = self._other_party_at = float("-inf")
        self._is_first_use = False
        # The key of the API that is being served.
        self.api = -1
        # The processor time of the loop's thread, and when that was.
        self._sample = 0.0
        self._sampled_at = float("-inf")
        self._is_stopped = False
        self.rests = 0
        # For what the broker does by itself.
        self.own = Share("the broker", "")
        # For work that holds something, whoever it is for.
        self._holding = Share("the broker", "")

    def __len__(self) -> int:
        """How many pieces of work are in line."""
        return sum(len(share.line) + len(share.held) for share in {*self._ready, *self._resting})

    def share(self, name: str, party: str | None = None) -> Share:
        """The share of that name."""
        named = self._shares.get(name)
        if named is None:
            if len(self._shares) >= _MOST_SHARES:
                now = time.monotonic()
                for share in list(self._shares.values()):
                    share.refill(now)
                    if share.is_idle and share.credit >= CREDIT_SECONDS:
                        del self._shares[share.name]
            named = self._shares[name] = Share(name, party)
        return named

    # -- being served at once

    def begin(self, share: Share, now: float) -> float | None:
        """May the share be served at once? Then what this returns is handed to ``end``.

        It may if it has used little lately, or if nobody else is there to be served.
        """
        if share.credit <= 0 and not self._may_begin(share, now):
            return None
        if now - self._sampled_at > _SAMPLE_SECONDS:
            self._sampled_at = now
            self._sample = time.thread_time()
        mark = self._slice_ends
        self._slice_ends = now + FIRST_SECONDS
        self._is_first_use = False
        return mark

    def admit_short(self, share: Share, now: float) -> bool:
        """As ``begin`` and ``end`` in one, for a request that is known to be short: it is not timed."""
        if share.credit <= 0 and not self._may_begin(share, now):
            return False
        share.credit -= _SHORT_SECONDS
        self._note_served(share, now)
        return True

    def _may_begin(self, share: Share, now: float) -> bool:
        """Whether one that had used up its credit may begin: by now it has some, or nobody else is there."""
        share.refill(now)
        return share.credit > 0 or not self._is_with_others(share, now)

    def end(self, share: Share, began: float, mark: float) -> None:
        """The share has been served since ``began``."""
        self._slice_ends = mark
        now = time.monotonic()
        took = now - began
        share.credit -= took
        self._note_served(share, now)
        if took > LONG_STEP_SECONDS + FIRST_SECONDS:
            # It may have been the machine that was slow: so much processor time it was at least.
            self._look_at(share, began, time.thread_time() - self._sample - (began - self._sampled_at) - FIRST_SECONDS)

    def _note_served(self, share: Share, now: float) -> None:
        """Take note of who was served last, and when somebody else was."""
        if share is not self._latest:
            self._other_at = self._latest_at
            self._latest = share
            if share.party and share.party != self._party:
                self._other_party_at = self._party_at
                self._party = share.party
        self._latest_at = now
        if share.party:
            self._party_at = now

    def note_first_use(self) -> None:
        """What is being served has not been used before: some of the time goes into getting it ready."""
        self._is_first_use = True

    @property
    def is_over(self) -> bool:
        """Whether the slice under way has had its time."""
        return time.monotonic() >= self._slice_ends

    # -- work in steps

    def run(self, share: Share, steps: Steps, failed: Callable[[], None] | None = None) -> None:
        """Begin at once if the share may, and let the rest wait in line; ``failed`` is called if a step raises."""
        work = _Work(self, share, steps, failed)
        if self._slice_ends:
            # In the time of whoever is being served.
            self._go_on(work)
            return
        now = time.monotonic()
        mark = self.begin(share, now)
        if mark is None:
            self.stand_in_line(work)
            return
        try:
            self._go_on(work)
        finally:
            self.end(share, now, mark)

    def add(self, share: Share, steps: Steps, failed: Callable[[], None] | None = None) -> None:
        """Let the work wait in line."""
        self.stand_in_line(_Work(self, share, steps, failed))

    def later(self, share: Share, step: Callable[[], None]) -> None:
        """Let a single step wait in line."""
        self.add(share, _one(step))

    def stop(self) -> None:
        """Drop what waits: nobody is answered any more."""
        self._is_stopped = True
        for share in {self.own, self._holding, *self._ready, *self._shares.values(), *self._resting}:
            for work in (*share.line, *share.held):
                work.steps.close()
            share.line.clear()
            share.held.clear()
        self._ready.clear()

    def stand_in_line(self, work: _Work) -> None:
        """Let it go on when it is its share's turn, and its own."""
        if self._is_stopped:
            work.steps.close()
            return
        share = self._holding if work.is_holding else work.share
        share.line.append(work)
        self._make_ready(share)

    def _make_ready(self, share: Share) -> None:
        """Put it behind the others whose turn comes, if it has work."""
        if share.line and not share.is_ready:
            share.is_ready = True
            self._ready.append(share)
            self._plan()

    def _go_on(self, work: _Work) -> None:
        """Take steps until the slice is over, and put what is left in line."""
        steps, now = work.steps, time.monotonic
        try:
            for wait in steps:
                if wait is not None and wait.begin(work):
                    return
                if now() >= self._slice_ends:
                    self.stand_in_line(work)
                    return
        except Exception:  # the edge where a bug becomes an answer, as in dispatch
            if work.failed is None:
                raise
            _log.exception("a request failed while it was processed in steps")
            work.failed()

    def _plan(self) -> None:
        if not self._is_planned:
            self._is_planned = True
            # Not in the loop's next turn: what has just arrived, and what it leads to at once, comes first.
            self._loop.call_soon(self._loop.call_soon, self._turn)

    def _turn(self) -> None:
        self._is_planned = False
        ready = self._ready
        now = time.monotonic()
        is_alone = len(ready) == 1 and not self._has_company(ready[0], now)
        ends = now + (LONE_TURN_SECONDS if is_alone else TURN_SECONDS)
        try:
            while ready and now < ends:
                share = ready.popleft()
                share.is_ready = False
                self._slice_ends = ends
                self._is_first_use = False
                began, processor_began = now, time.thread_time()
                try:
                    self._go_on(share.line.popleft())
                finally:
                    now = time.monotonic()
                    share.credit -= now - began
                    self._note_served(share, now)
                    if now - ends > LONG_STEP_SECONDS:
                        self._look_at(share, began, time.thread_time() - processor_began - (ends - began))
                    self._make_ready(share)
        finally:
            self._slice_ends = 0.0
            if ready:
                self._plan()

    # -- long steps

    def _is_with_others(self, share: Share, now: float) -> bool:
        """Whether another party was served of late."""
        at = self._other_party_at if share.party == self._party else self._party_at
        return now - at < _COMPANY_SECONDS

    def _has_company(self, share: Share, now: float) -> bool:
        """Whether another share was, if only of the same party."""
        return now - (self._other_at if share is self._latest else self._latest_at) < _COMPANY_SECONDS

    def _look_at(self, share: Share, began: float, step_seconds: float) -> None:
        """A step is over that took that much longer than a slice may."""
        if step_seconds <= LONG_STEP_SECONDS or (self._is_first_use and step_seconds <= FIRST_USE_SECONDS):
            return
        now = time.monotonic()
        if now >= share.long_until:
            share.long_seconds = 0.0
            share.long_until = now + _LONG_STEPS_SECONDS
        share.long_seconds += step_seconds
        may_rest = share.party and not share.is_resting and self._is_with_others(share, began)
        if share.long_seconds > ALLOWED_SECONDS and may_rest:
            self._let_rest(share, step_seconds)

    def _let_rest(self, share: Share, step_seconds: float) -> None:
        # All that rest together make the others wait no longer than one of them would.
        rest = min(step_seconds * REST_FACTOR * (1 + len(self._resting)), MOST_REST_SECONDS)
        self.rests += 1
        share.is_resting = True
        share.resting_api = self.api
        self._resting.add(share)
        self._loop.call_later(rest, self._rest_is_over, share)
        self._rested(share, step_seconds, rest)

    def _rest_is_over(self, share: Share) -> None:
        share.is_resting = False
        self._resting.discard(share)
        held, share.held = share.held, []
        for work in held:
            work.resume()
