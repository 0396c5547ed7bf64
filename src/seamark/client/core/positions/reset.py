"""``auto.offset.reset``: where to read when there is no committed offset, or the position is outside the log (I30).

``earliest``, ``latest``, ``none``, or ``by_duration:`` with an ISO 8601 duration: so far back from now. Lower case
only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from seamark.errors import ConfigError

OPTION = "auto.offset.reset"
# The special timestamps of ListOffsets.
LATEST = -1
EARLIEST = -2

_BY_DURATION = "by_duration:"
# Days and smaller: months and years have no fixed length. Kafka's own parser takes the same forms.
_DURATION = re.compile(
    r"P(?=.)(?:(?P<days>\d+)D)?"
    r"(?:T(?=.)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d{1,9})?)S)?)?",
    re.IGNORECASE,
)
_MS = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1000}


@dataclass(frozen=True, slots=True)
class ResetPolicy:
    """``name`` is what was configured; ``back_ms`` is set for by_duration only."""

    name: str
    back_ms: int | None = None

    @classmethod
    def parse(cls, text: str) -> ResetPolicy:
        """Read the option's value.

        >>> ResetPolicy.parse("by_duration:PT1H30M").back_ms
        5400000
        """
        if text in ("earliest", "latest", "none"):
            return cls(text)
        if text.startswith(_BY_DURATION):
            return cls(text, _duration_ms(text))
        raise ConfigError(
            OPTION, text, "must be earliest, latest, none or by_duration:<ISO 8601 duration>, in lower case"
        )

    @property
    def is_none(self) -> bool:
        return self.name == "none"

    def timestamp(self, wall_ms: int) -> int:
        """What to ask ListOffsets for."""
        if self.back_ms is not None:
            return max(wall_ms - self.back_ms, 0)
        return EARLIEST if self.name == "earliest" else LATEST


def _duration_ms(text: str) -> int:
    duration = text.removeprefix(_BY_DURATION)
    if duration.startswith("-") or "-" in duration:
        raise ConfigError(OPTION, text, "the duration must not be negative")
    parts = _DURATION.fullmatch(duration)
    if parts is None:
        raise ConfigError(OPTION, text, "not an ISO 8601 duration such as PT1H, P7D or PT90S")
    return int(sum(float(parts[unit] or 0) * factor for unit, factor in _MS.items()))
