"""A timer that is one named thread: the shell for a committer that runs by itself (H27)."""

from __future__ import annotations

import threading
from collections.abc import Callable

from seamark.errors import UsageError
from seamark.readable_log import readable_logger

_log = readable_logger(__name__)


class ThreadTimer:
    """Calls a function again, ``delay`` seconds after the end of the call before, until it raises or ``stop``.

    The thread is a daemon: a program that ends does not wait for it, and ends in order by calling ``stop``.
    """

    def __init__(self) -> None:
        self._is_stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, delay: float, function: Callable[[], object], name: str) -> None:
        if self._thread is not None:
            raise UsageError("the timer was started before")
        self._thread = threading.Thread(target=self._call_again, args=(delay, function), name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Return when no call is under way and none will follow; from inside a call, none will follow."""
        self._is_stopping.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _call_again(self, delay: float, function: Callable[[], object]) -> None:
        while not self._is_stopping.wait(delay):
            try:
                function()
            except Exception:  # noqa: BLE001 - the edge of the thread: logged, and the calls end
                # Whoever is to know was told by the function; the log says why the calls end.
                _log.exception("%s ends.", threading.current_thread().name)
                return
