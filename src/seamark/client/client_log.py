"""How a client writes into the log: each line says whose it is, in its text and as fields of the log record.

A process has many clients, and all of them log under ``seamark.client``. The text begins with the group and the client
id where there are any; ``event``, ``group`` and ``client_id`` are fields that a log pipeline can search.
"""

from __future__ import annotations

from seamark.client.config import ClientConfig, ConsumerConfig
from seamark.readable_log import readable_logger

log = readable_logger("seamark.client")

# What is said once is remembered; whoever makes up names must not fill the memory or the log with them.
_SAID_ONCE = 1000


class ClientLog:
    """Of one Consumer, Producer or Admin; may be used on any thread."""

    __slots__ = ("_fields", "_said", "_whose")

    def __init__(self, config: ClientConfig) -> None:
        group = config.group_id if isinstance(config, ConsumerConfig) else None
        self._fields = {"group": group, "client_id": config.client_id}
        names = [f"group {group!r}"] if group else []
        if config.client_id:
            names.append(f"client {config.client_id!r}")
        self._whose = f"{', '.join(names)}: " if names else ""
        self._said: set[tuple[str, str]] = set()

    def say(self, level: int, event: str, text: str, **fields: object) -> None:
        """One line."""
        log.log(level, "%s%s", self._whose, text, extra={"event": event, **self._fields, **fields})

    def say_once(self, level: int, event: str, subject: str, text: str) -> None:
        """One line about a subject in the client's life; beyond many subjects nothing more is said."""
        if (event, subject) not in self._said and len(self._said) < _SAID_ONCE:
            self._said.add((event, subject))
            self.say(level, event, text)

    def fault(self, text: str, error: BaseException) -> None:
        """What must not happen has happened: with the traceback."""
        log.error("%s%s", self._whose, text, extra={"event": "fault", **self._fields}, exc_info=error)
