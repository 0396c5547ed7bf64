"""The parallel consumer that users make.

    def handle(record): ...

    ParallelConsumer({"bootstrap.servers": "localhost:9092", "group.id": "billing"}, ["orders"], handle).run()

``run`` works in the calling thread until a signal, ``stop`` or a record that cannot be processed ends it; ``start``
works in a thread of its own. All other calls may come from any thread: they are handed to the owner, which answers.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from seamark.errors import UsageError
from seamark.parallel.handle import (
    LOOK_S,
    WAITS_FOR_ITSELF,
    WAITS_FOR_OWNER,
    ConsumerHandle,
    Place,
    answer_of,
    check_condition,
    check_drain,
    read_partition,
)
from seamark.parallel.observe.status import Status, Summary
from seamark.parallel.pools.call import Handler, where_to_run
from seamark.parallel.pools.pool import Mailbox, Pool
from seamark.parallel.pools.whereabouts import running_in
from seamark.parallel.run.process import DrainOnSignal
from seamark.readable_log import readable_logger
from seamark.topic_partition import TopicPartition

_log = readable_logger("seamark.parallel")

# Whoever starts a consumer owns it before this has passed.
_UNOWNED_S = 5.0


class ParallelConsumer(ConsumerHandle):
    """Runs ``handler`` on the records of ``topics``, many at once, and commits no further than what is done.

    It is started once, by ``run``, ``start`` or ``with``. Settings that cannot be are a ConfigError when it is made.

    If it ends by itself, ``run``, ``wait`` and ``wait_until`` raise ConsumerStopped, each time. ``stop`` and the end of
    a ``with`` block raise it if nobody has been told yet.
    """

    def _where_to_run(self, handler: Handler, run_in: str) -> Place:
        return where_to_run(handler, run_in)

    def _make_pool(self, mailbox: Mailbox, ahead: int) -> Pool:
        concurrency = self.settings.concurrency
        if self._place == "threads":
            from seamark.parallel.pools.threads import ThreadPool

            return ThreadPool(self._handler, self._argument, mailbox, concurrency, ahead)
        if self._place == "loop":
            from seamark.parallel.pools.loop import LoopPool

            return LoopPool(self._handler, self._argument, mailbox, concurrency, ahead)
        from seamark.parallel.pools.processes import ProcessPool

        return ProcessPool(self._handler, self._argument, mailbox, concurrency, self._cannot_go_on)

    # -- running

    def run(self) -> Summary:
        """Work until the end; SIGTERM and SIGINT drain. ConsumerStopped if it was not asked to end."""
        runtime = self._begin()
        with DrainOnSignal(self._ask_to_stop):
            self._own(runtime)
        self._raise_failure()
        assert self._summary is not None
        return self._summary

    def start(self) -> Self:
        """Work in a thread of its own. A program that ends without ``stop`` drains it first, and says so in the log."""
        self._own_thread().start()
        return self

    def _own_thread(self) -> threading.Thread:
        runtime = self._begin()
        return threading.Thread(target=self._own, args=(runtime,), name="seamark-parallel", daemon=True)

    def wait(self, timeout: float | None = None) -> Summary | None:
        """The summary once it has ended, None if it has not in ``timeout`` seconds; raises as ``run`` does.

        UsageError if a handler or ``on_commit`` calls it: the end waits for them.
        """
        self._home.check()
        if self._is_waited_for():
            raise UsageError(WAITS_FOR_ITSELF)
        if not self._ended.wait(timeout):
            return None
        self._raise_failure()
        return self._summary

    def wait_until(self, condition: Callable[[], object], timeout: float | None = None) -> bool:
        """Wait until ``condition()`` is true; False if it is not in ``timeout`` seconds, or the consumer is stopped.

        ``condition`` is called about fifty times a second, by the calling thread. If the consumer ends by itself before
        it is true, ConsumerStopped is raised. UsageError if ``on_commit`` calls it, for which all else waits.
        """
        self._home.check()
        check_condition(condition)
        if self._is_owner():
            raise UsageError(WAITS_FOR_OWNER)
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while not condition():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            if self._ended.wait(min(LOOK_S, left)):
                if condition():
                    break
                self._raise_failure()
                return False
        return True

    def stop(self, drain: float | None = None) -> Summary | None:
        """Start nothing more, let handlers end for at most ``drain`` seconds, commit, leave the group.

        Waits for the end, but not if it is called by a handler or by ``on_commit``, for which the end waits: then it
        asks for the stop and returns None at once. Raises ConsumerStopped if the consumer has ended by itself and
        nothing has raised that before, and UsageError in a handler process, which has no consumer to stop.
        """
        summary = self._stop(drain)
        if not self._is_told:
            self._raise_failure()
        return summary

    def _stop(self, drain: float | None = None) -> Summary | None:
        check_drain(drain)
        if not self._has_begun():
            return self._summary
        if not self._ended.is_set():
            self._ask_to_stop(drain)
            if not self._is_waited_for():
                # A start that was interrupted (Ctrl-C) has a runtime and nobody who runs it.
                while not self._ended.wait(_UNOWNED_S) and self._owner is not None:
                    pass
        return self._summary

    def _is_waited_for(self) -> bool:
        """Whether the end waits for the caller: for a handler of this consumer, or the owner inside a callback."""
        runtime = self._runtime
        is_handler = runtime is not None and running_in.get() is runtime.pool
        return is_handler or self._is_owner()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._home.is_here:
            return
        self._stop()
        self._raise_at_end_of_block(error)

    def _end_with_program(self) -> None:
        """By the interpreter, when the program ends and nobody has stopped it."""
        _log.warning(
            "The program exits while the parallel consumer of group %r is running. It drains for up to %g s, "
            "commits and leaves its group; Ctrl-C aborts this. Call stop() or use a with block to get its summary.",
            self._group,
            self.settings.drain,
        )
        try:
            self._stop()
        except KeyboardInterrupt:
            self._stop(0.0)

    # -- questions and orders

    def status(self) -> Status:
        """What is going on; may be called from any thread, also before the start and after the end.

        A signal handler of the thread in ``run``, which interrupts its work, gets the last one that was asked for.
        """
        return self.blocking_status()

    def skip(self, partition: TopicPartition | tuple[str, int], offset: int) -> None:
        """Give up a record that is running, waits for a retry or is parked; the frontier passes it."""
        answer_of(self._ask_to_skip(read_partition(partition), offset))

    def dead_letter(self, partition: TopicPartition | tuple[str, int], offset: int, topic: str | None = None) -> None:
        """Write a record that is running, waits for a retry or is parked to the dead-letter topic and pass it."""
        answer_of(self._ask_to_dead_letter(read_partition(partition), offset, topic))
