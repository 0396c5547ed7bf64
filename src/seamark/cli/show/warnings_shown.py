"""What a command shows of the log of its clients and its monitor while it works: warnings, on standard error.

A command may use several clients, each of which says that it cannot reach the same address; a person wants to read it
once. What other parts log is left to Python's own rules.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from seamark.cli.show.terminal_text import one_line
from seamark.readable_log import ReadableFormatter

_LOGGERS = ("seamark.client", "seamark.monitor")


class _OnStandardError(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.setFormatter(ReadableFormatter())
        # Addresses that were named and have not been reached since.
        self._unreachable: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if self._is_news(record):
                text = self.format(record)
                sys.stderr.write(f"seamark: {text if record.exc_info else one_line(text)}\n")
                sys.stderr.flush()
        except Exception:  # noqa: BLE001 - as every handler: a line that cannot be written stops no command
            self.handleError(record)

    def _is_news(self, record: logging.LogRecord) -> bool:
        if not logging.getLogger("seamark").propagate:
            # The quickstart keeps the whole log in a file, off its screen.
            return False
        event, address = getattr(record, "event", None), getattr(record, "address", "")
        if event == "unreachable":
            is_news = address not in self._unreachable
            self._unreachable.add(address)
            return is_news
        if event == "reached":
            is_news = address in self._unreachable
            self._unreachable.discard(address)
            return is_news
        return True


@contextmanager
def warnings_shown() -> Iterator[None]:
    loggers, handler = [logging.getLogger(name) for name in _LOGGERS], _OnStandardError()
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
