"""A program that ends while consumers run in threads of their own: they drain, commit and leave their groups first.

Their threads are daemons, which Python stops in the middle of anything. So whoever still runs when the main thread has
ended is stopped before that, and the log says so: how much was unfinished is in the consumer's last line.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

Consumer = TypeVar("Consumer")

_lock = threading.Lock()
# By consumer, what ends it and the process that started it: a fork copies this dictionary, but not the threads.
_running: WeakKeyDictionary[Any, tuple[Callable[[Any], object], int]] = WeakKeyDictionary()
_is_registered = False


def started(consumer: Consumer, end: Callable[[Consumer], object]) -> None:
    """``end`` the consumer when the program ends, unless it has ``ended`` by then."""
    global _is_registered
    with _lock:
        _running[consumer] = end, os.getpid()
        if not _is_registered:
            _is_registered = True
            atexit.register(_end_all)


def ended(consumer: object) -> None:
    with _lock:
        _running.pop(consumer, None)


def _end_all() -> None:
    with _lock:
        left = [(consumer, end) for consumer, (end, process) in _running.items() if process == os.getpid()]
    for consumer, end in left:
        end(consumer)
