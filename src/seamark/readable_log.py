"""Loggers whose lines can be read by a person, whoever's handler writes them.

Every logger of this package is made here, which ``tests/architecture`` checks. Lines hold names that strangers chose,
and most programs write the log with a handler of their own; so the text is made safe before any handler sees it. A
line without such characters is handed on untouched, with its template and arguments, as log collectors want it.
"""

from __future__ import annotations

import logging
import traceback

from seamark.readable_text import readable, readable_lines

# A name may be 32 kB long, and a line can name several. What an operator needs is in the first part.
LONGEST_LINE = 16_384


def readable_logger(name: str) -> logging.Logger:
    """The logger of that name; asking again gives the same one."""
    logger = logging.getLogger(name)
    if _READABLE not in logger.filters:
        logger.addFilter(_READABLE)
    return logger


class ReadableFormatter(logging.Formatter):
    """For handlers of our own, which write the lines of other packages too; a traceback keeps its lines."""

    def format(self, record: logging.LogRecord) -> str:
        return readable_lines(super().format(record))


class _Readable(logging.Filter):
    """Changes what must not be shown as it is; every record passes."""

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            message = record.getMessage()
        except Exception:  # noqa: BLE001 - a template that does not fit its arguments is for the handlers to report
            return True
        if len(message) > LONGEST_LINE:
            left_out = len(message) - LONGEST_LINE
            record.msg, record.args = f"{readable(message[:LONGEST_LINE])}… (and {left_out} more characters)", ()
        elif not message.isprintable():
            record.msg, record.args = readable(message), ()
        if record.exc_info and record.exc_info[1] is not None:
            pieces = traceback.format_exception(*record.exc_info)
            shown = "\n".join(line for piece in pieces for line in _lines_of(piece))
            if shown != "".join(pieces).removesuffix("\n"):
                # A formatter takes the text that is there already in place of making its own.
                record.exc_text = shown
        return True


_READABLE = _Readable()


def _lines_of(piece: str) -> list[str]:
    """A piece of a traceback; further lines of the error's own text are indented, so that none passes for a log line.

    A piece that begins with an empty line says how two errors belong together; one with an indent is a stack frame.
    """
    first, *rest = piece.removesuffix("\n").split("\n")
    is_ours = first == "" or first.startswith(" ")
    return [readable(line if is_ours or not at else f"    {line}") for at, line in enumerate([first, *rest])]
