"""Topics that a consumer subscribes to by name and that the cluster does not have, or cannot speak of: for the log.

A pure core. ``saw`` is told which of them are missing in each new view of the cluster; ``look`` gives the lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from seamark.client.core.effects import LogLine
from seamark.client.core.lasting_failures import LastingFailures
from seamark.wire.protocol.error_codes import ErrorCode


class TopicWaits:
    def __init__(self) -> None:
        self._missing: dict[str, ErrorCode] = {}
        self._back: list[str] = []
        self._lasting: LastingFailures[str] = LastingFailures("has been unavailable", "is available")

    def saw(self, missing: Mapping[str, ErrorCode], wanted: frozenset[str]) -> None:
        for gone in self._missing.keys() - missing.keys():
            if gone in wanted:
                self._back.append(gone)
            else:
                self._lasting.forget(_named(gone))
        self._missing = dict(missing)

    def look(self, now_ms: int) -> Iterator[LogLine]:
        while self._back:
            topic = self._back.pop()
            if (line := self._lasting.succeeded(_named(topic), now_ms)) is not None:
                yield LogLine("warning", "topic_goes_on", line, (("topic", topic),))
        for topic, code in sorted(self._missing.items()):
            if (line := self._lasting.failed(_named(topic), f"the brokers return {code.name}", now_ms)) is not None:
                yield LogLine("warning", "topic_waits", line, (("topic", topic), ("reason", code.name)))

    def next_ms(self) -> int | None:
        times = (self._lasting.due_ms(_named(topic)) for topic in self._missing)
        return min((at for at in times if at is not None), default=None)


def _named(topic: str) -> str:
    return f"topic {topic!r}"
