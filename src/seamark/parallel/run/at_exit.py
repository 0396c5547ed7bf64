"""A program that ends while consumers run in threads of their own: they drain, commit and leave their groups first.

Their threads are daemons, which Python stops in the middle of anything. So whoever still runs when the main thread has
ended is stopped before that, and the log says so: how much was unfinished is in the consumer's last line.

This is done before the interpreter shuts executors and ends child processes: dead letters are still written, and
handler processes get the drain time and no more. If the program goes on in other threads, consumers go on with it and
are stopped when those have ended. No thread can be started by then, so a first dead letter may be refused.
"""

from __future__ import annotations

import atexit

# What these two do at the end comes after what is done here, because they are imported first.
import concurrent.futures.thread
import contextlib
import multiprocessing.util  # noqa: F401 - for its function at the end
import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from seamark.readable_log import readable_logger

Consumer = TypeVar("Consumer")

_log = readable_logger("seamark.parallel")

_lock = threading.Lock()
# By consumer, what ends it and the process that started it: a fork copies this dictionary, but not the threads.
_running: WeakKeyDictionary[Any, tuple[Callable[[Any], object], int]] = WeakKeyDictionary()
_is_registered = False


def started(consumer: Consumer, end: Callable[[Consumer], object]) -> None:
    """``end`` the consumer, which runs in the calling thread, when the program ends, unless it has ``ended`` by then.

    Python itself waits for threads that are no daemons.
    """
    if not threading.current_thread().daemon:
        return
    with _lock:
        _running[consumer] = end, os.getpid()
        _register()


def ended(consumer: object) -> None:
    with _lock:
        _running.pop(consumer, None)


def _register() -> None:
    """At the first start, when the client is imported: producers deliver after consumers have drained."""
    global _is_registered
    if _is_registered:
        return
    _is_registered = True
    # Not there in other makes of Python; refused when the program is ending already.
    before_threads = getattr(threading, "_register_atexit", None)
    if before_threads is not None:
        with contextlib.suppress(RuntimeError):
            before_threads(_end_with_main_thread)
    atexit.register(_end_all)


def _end_with_main_thread() -> None:
    if not _program_goes_on():
        _end_all()


def _program_goes_on() -> bool:
    """Whether threads run that Python waits for; those of executors do not count, as Python tells them to end."""
    of_executors = set(getattr(concurrent.futures.thread, "_threads_queues", ()))
    mine = {threading.main_thread(), threading.current_thread()}
    return any(not thread.daemon for thread in set(threading.enumerate()) - of_executors - mine)


def _end_all() -> None:
    with _lock:
        left = [(consumer, end) for consumer, (end, process) in _running.items() if process == os.getpid()]
    try:
        for consumer, end in left:
            end(consumer)
    except KeyboardInterrupt:
        # Raised further, it would keep others from their own work at the end of the program.
        _log.warning("The exit of the program was interrupted: parallel consumers are not drained.")
