"""Producers that are not closed when the program ends: what they hold is delivered first, and what is lost is told.

The end of a program is met twice. First before the interpreter waits for the program's other threads: threads and
executors can still be used then, by callbacks and by looking up hosts, and it is the only time that a forked child of
multiprocessing has. Then, by ``atexit``, for what those other threads sent afterwards. The I/O thread runs through
both. A program that was killed, or that calls ``os._exit``, gets neither. Threads may go on sending meanwhile: only
what was there when the waiting began is waited for, and given up. What daemon threads add during the last wait is
counted in the log.

The exit code is left alone: Python has no way for this code to change it that does not cut short what others do at the
end. Who wants a failing program calls ``flush`` or ``close``, which raise.
"""

from __future__ import annotations

import atexit

# Its own end comes after ours, because it is imported first: the I/O loop looks up hosts in an executor.
import concurrent.futures.thread
import contextlib
import os
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from seamark.client.errors import OperationTimedOut
from seamark.client.net.io_thread import IoThread
from seamark.client.producer.batches import ProducerBatch
from seamark.client.producer.delivery import DeliveryThread
from seamark.client.producer.delivery_failures import UntoldFailures
from seamark.client.timing import Deadline
from seamark.counts import counted
from seamark.readable_log import readable_logger

log = readable_logger("seamark.client")

# Every record has its own delivery.timeout.ms; the loop that watches it may be a little late.
_GRACE_S = 1.0
# Who ends a program and sees it hang is told why.
_TOLD_AFTER_S = 3.0
# For letting go of what could not be delivered.
_SHUT_S = 5.0


class Sender(Protocol):
    """What has to be delivered before the program ends; ``ProducerSender`` says what each of these does."""

    io: IoThread
    delivery_thread: DeliveryThread
    failures: UntoldFailures
    delivery_timeout_s: float

    def unfinished(self) -> Sequence[ProducerBatch]: ...

    def hurry(self) -> None: ...

    def disown(self) -> None: ...

    def shut(self, reason: OperationTimedOut) -> Coroutine[Any, Any, None]: ...


# Senders whose producer was not closed. Also keeps those alive whose producer was dropped, until they have delivered.
unclosed: set[Sender] = set()


def deliver_before_exit() -> None:
    """Wait until everything is acknowledged or has failed, at most delivery.timeout.ms; then tell what failed."""
    senders = list(unclosed)
    try:
        _deliver(senders)
    except KeyboardInterrupt:
        _give_up(senders, "delivering records before the program ends, which was interrupted,")
    if not _other_threads_run():
        # Else they may still look at their deliveries; this is done again when they are through.
        for sender in senders:
            sender.failures.log_rest()


def _deliver(senders: list[Sender]) -> None:
    for sender in senders:
        sender.hurry()
    waited_for = {sender: sender.unfinished() for sender in senders}
    batches = [batch for unfinished in waited_for.values() for batch in unfinished]
    if not batches:
        return
    longest_s = max(sender.delivery_timeout_s for sender in senders)
    deadline = Deadline(longest_s + _GRACE_S)
    is_told = False
    for batch in batches:
        if not is_told and not batch.outcome.wait(max(0.0, _TOLD_AFTER_S - (deadline.seconds - deadline.remaining))):
            left = sum(other.count for other in batches if not other.outcome.is_done)
            log.warning(
                "delivering %d records before the program ends, for at most delivery.timeout.ms (%g s); Ctrl-C "
                "gives up",
                left,
                longest_s,
            )
            is_told = True
        batch.outcome.wait(deadline.remaining)
    for sender in senders:
        sender.delivery_thread.drain(deadline.remaining)
    stuck = [
        sender for sender, unfinished in waited_for.items() if any(not batch.outcome.is_done for batch in unfinished)
    ]
    _give_up(stuck, "delivering records before the program ends")


def _give_up(senders: list[Sender], operation: str) -> None:
    for sender in senders:
        if any(not batch.outcome.is_done for batch in sender.unfinished()):
            with contextlib.suppress(TimeoutError, concurrent.futures.TimeoutError):
                sender.io.submit(sender.shut(OperationTimedOut(operation, sender.delivery_timeout_s))).result(_SHUT_S)
            # Until what it lost is told: by closing the producer, or when the other threads are through.
            unclosed.add(sender)


def _deliver_last() -> None:
    """Nobody waits after this one."""
    deliver_before_exit()
    late = sum(batch.count for sender in unclosed for batch in sender.unfinished() if not batch.outcome.is_done)
    if late:
        log.error(
            "the program ends with %s in flight, which were sent during shutdown and not waited for",
            counted(late, "record"),
        )


def _other_threads_run() -> bool:
    mine = (threading.main_thread(), threading.current_thread())
    return any(thread not in mine and not thread.daemon for thread in threading.enumerate())


def _disown_in_child() -> None:
    """After a fork: the parent delivers; whoever waits in the child is told at once."""
    for sender in unclosed:
        sender.disown()
    unclosed.clear()


def _watch() -> None:
    # Not there in other makes of Python; refused when the program is ending already.
    before_threads = getattr(threading, "_register_atexit", None)
    if before_threads is not None:
        with contextlib.suppress(RuntimeError):
            before_threads(deliver_before_exit)
    atexit.register(_deliver_last)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_disown_in_child)


_watch()
