"""Where the broker's log lines go when it is told a format: one JSON object per line, or one line of text for people.

``seamark.log.format`` (json or text) writes to stderr; without it nothing is set up, and whoever embeds the broker
has its lines by ``logging``, under ``seamark``. What a line is about is in fields of its own: ``event`` and ``group``
for groups (M8).
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

from seamark.errors import ConfigError
from seamark.readable_log import ReadableFormatter
from seamark.readable_text import readable_json

SETTING = "seamark.log.format"
FIELDS = ("event", "group")


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for field in FIELDS:
            value = getattr(record, field, None)
            if value is not None:
                line[field] = value
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return readable_json(line)


_FORMATTERS: dict[str, logging.Formatter] = {
    "json": JsonFormatter(),
    "text": ReadableFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"),
}


class LogLines:
    """Writes the lines of ``seamark`` from ``start`` to ``stop``; without a format it does nothing."""

    def __init__(self, form: object = None, stream: TextIO | None = None) -> None:
        if form is not None and form not in _FORMATTERS:
            raise ConfigError(SETTING, form, f"it must be one of {', '.join(_FORMATTERS)}")
        self._form = None if form is None else str(form)
        self._stream = stream
        self._handler: logging.Handler | None = None
        self._level_before = logging.NOTSET

    def start(self) -> None:
        if self._form is None or self._handler is not None:
            return
        logger = logging.getLogger("seamark")
        self._handler = logging.StreamHandler(self._stream or sys.stderr)
        self._handler.setFormatter(_FORMATTERS[self._form])
        logger.addHandler(self._handler)
        self._level_before = logger.level
        if not logger.isEnabledFor(logging.INFO):
            logger.setLevel(logging.INFO)

    def stop(self) -> None:
        if self._handler is not None:
            logger = logging.getLogger("seamark")
            logger.removeHandler(self._handler)
            logger.setLevel(self._level_before)
            self._handler = None
