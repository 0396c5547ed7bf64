"""What a command shows of the log while it works: warnings, on standard error, each once.

A command may use several clients, each of which says that it cannot reach the same address; a person wants to read it
once.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_CLIENT = "seamark.client"


class _OnStandardError(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        # Addresses that were named and have not been reached since.
        self._unreachable: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if self._is_news(record):
                # What has no words of its own for a person is written as Python would write it without this handler.
                prefix = "seamark: " if record.name == _CLIENT else ""
                sys.stderr.write(f"{prefix}{self.format(record)}\n")
                sys.stderr.flush()
        except Exception:  # noqa: BLE001 - as every handler: a line that cannot be written stops no command
            self.handleError(record)

    def _is_news(self, record: logging.LogRecord) -> bool:
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
    root, handler = logging.getLogger(), _OnStandardError()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
