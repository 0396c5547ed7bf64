"""How a client writes into the log: each line says whose it is, in its text and as fields of the log record.

A process has many clients, and all of them log under ``seamark.client``. The text begins with the group and the client
id where there are any; ``event``, ``group`` and ``client_id`` are fields that a log pipeline can search.

What a peer does can be the reason of a line, and so can names that it sent. So a line is one line, however long the
name; and of one event at most ``MOST_PER_MINUTE`` lines are written in a minute, the next one says how many were not.
"""

from __future__ import annotations

import time

from seamark.client.config.config import ClientConfig, ConsumerConfig
from seamark.counts import shortened
from seamark.readable_log import readable_logger

log = readable_logger("seamark.client")

# What is said once is remembered; whoever makes up names must not fill the memory or the log with them.
_SAID_ONCE = 1000

MOST_PER_MINUTE = 50
_MOST_CHARACTERS = 4_000
_MINUTE_S = 60.0


class _Minute:
    """What was said of one event in the minute that began at ``since``."""

    __slots__ = ("count", "since")

    def __init__(self, since: float) -> None:
        self.since = since
        self.count = 0


class ClientLog:
    """Of one Consumer, Producer or Admin; may be used on any thread."""

    __slots__ = ("_fields", "_minutes", "_said", "_whose")

    def __init__(self, config: ClientConfig) -> None:
        group = config.group_id if isinstance(config, ConsumerConfig) else None
        self._fields = {"group": group, "client_id": config.client_id}
        names = [f"group {group!r}"] if group else []
        if config.client_id:
            names.append(f"client {config.client_id!r}")
        self._whose = f"{', '.join(names)}: " if names else ""
        self._said: set[tuple[str, str]] = set()
        # By event. Two threads may both take the last line of a minute: a line more or less does no harm.
        self._minutes: dict[str, _Minute] = {}

    def say(self, level: int, event: str, text: str, **fields: object) -> None:
        """One line, unless there were too many of this event."""
        if not log.isEnabledFor(level):
            return
        now = time.monotonic()
        minute = self._minutes.get(event)
        if minute is None or now - minute.since >= _MINUTE_S:
            left_out = 0 if minute is None else minute.count - MOST_PER_MINUTE
            minute = self._minutes[event] = _Minute(now)
            if left_out > 0:
                text += f" ({left_out} similar lines were suppressed)"
        minute.count += 1
        if minute.count <= MOST_PER_MINUTE:
            shown = shortened(text, _MOST_CHARACTERS)
            log.log(level, "%s%s", self._whose, shown, extra={"event": event, **self._fields, **fields})

    def say_once(self, level: int, event: str, subject: str, text: str) -> None:
        """One line about a subject in the client's life; beyond many subjects nothing more is said."""
        if (event, subject) not in self._said and len(self._said) < _SAID_ONCE:
            self._said.add((event, subject))
            self.say(level, event, text)

    def fault(self, text: str, error: BaseException) -> None:
        """What must not happen has happened: with the traceback."""
        log.error("%s%s", self._whose, text, extra={"event": "fault", **self._fields}, exc_info=error)
