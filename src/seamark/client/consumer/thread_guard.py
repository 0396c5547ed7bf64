"""A consumer belongs to one thread at a time (I16 to I18): owner and re-entry count, checked by each public method.

The owner may enter again, from a callback that it runs. ``wakeup`` and ``metrics`` are the calls meant for other
threads; they do not pass the guard. An ``AsyncConsumer`` is guarded by task in place of thread. In a forked child
nobody may enter: ``check_owner`` refuses before the lock, which a thread of the parent may have held.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock, get_ident
from types import TracebackType

from seamark.client.errors import ConcurrentUse


class ThreadGuard:
    """Use as a context manager around the body of a public method."""

    __slots__ = ("_check_owner", "_depth", "_lock", "_owner", "_what", "_who")

    def __init__(
        self,
        what: str,
        who: Callable[[], int] = get_ident,
        check_owner: Callable[[str], object] = lambda what: None,  # noqa: ARG005
    ) -> None:
        self._what = what
        self._check_owner = check_owner
        self._who = who
        self._owner: int | None = None
        self._depth = 0
        # Held for two assignments: entering is a test and a set.
        self._lock = Lock()

    def __enter__(self) -> None:
        self._check_owner(self._what)
        me = self._who()
        with self._lock:
            if self._owner is None:
                self._owner = me
            elif self._owner != me:
                raise ConcurrentUse(
                    f"this {self._what} is in use by another thread or task: use it from one at a time, and "
                    "interrupt a waiting call with wakeup()"
                )
            self._depth += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._owner = None
