"""Why a kazoo client has no connection: its last complaint, and the error that ended its thread.

Kazoo tells its log and goes on trying; an answer that it does not expect while it signs in ends its thread with a
traceback on stderr, and whoever waits for a connection waits in vain. Here both are kept for who has to say it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from seamark.readable_log import readable_logger

if TYPE_CHECKING:
    from kazoo.handlers.threading import SequentialThreadingHandler

# Where kazoo tells of every attempt to connect; without a handler of its own Python would print that on stderr.
_log = readable_logger("seamark.zookeeper")
_log.addHandler(logging.NullHandler())


class Trouble(logging.Handler):
    """Listens to one client, through the logger and the handler of threads that the client is given."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = ""
        self.end: BaseException | None = None
        self.logger = logging.Logger(_log.name)
        self.logger.parent = _log
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        said = record.getMessage()
        # Told after the complaint, and says less.
        if said != "Transition to CONNECTING":
            self.last = said

    def threads(self) -> SequentialThreadingHandler:
        from kazoo.handlers.threading import SequentialThreadingHandler

        trouble = self

        class NotingThreads(SequentialThreadingHandler):  # type: ignore[misc]
            def spawn(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
                return super().spawn(trouble.noting, func, *args, **kwargs)

        return NotingThreads()

    def noting(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        try:
            func(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - whatever ends the thread is what has to be told
            self.end = error
