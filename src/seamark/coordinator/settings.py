"""The coordinator's settings under Kafka's own keys, checked when they are read.

Each field names its key; a key that is not the coordinator's is not looked at, so a whole broker configuration can be
handed over. Values that Kafka refuses are refused with a sentence; nothing is clamped in silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from seamark.errors import ConfigError

_MAX_INT32 = 2**31 - 1
_MAX_INT64 = 2**63 - 1


def _setting(key: str, default: int, least: int, most: int = _MAX_INT32) -> int:
    value: int = field(default=default, metadata={"key": key, "least": least, "most": most})
    return value


@dataclass(frozen=True, slots=True)
class Settings:
    """Defaults are those of Apache Kafka 4.3.

    >>> Settings.from_keys({"group.max.size": "10", "log.dirs": "ignored"}).max_group_size
    10
    """

    min_session_timeout_ms: int = _setting("group.min.session.timeout.ms", 6000, 1)
    max_session_timeout_ms: int = _setting("group.max.session.timeout.ms", 1_800_000, 1)
    max_group_size: int = _setting("group.max.size", _MAX_INT32, 1)
    initial_rebalance_delay_ms: int = _setting("group.initial.rebalance.delay.ms", 3000, 0)
    commit_timeout_ms: int = _setting("offsets.commit.timeout.ms", 5000, 1)
    retention_minutes: int = _setting("offsets.retention.minutes", 10_080, 1)
    retention_check_interval_ms: int = _setting("offsets.retention.check.interval.ms", 600_000, 1, _MAX_INT64)
    metadata_max_bytes: int = _setting("offset.metadata.max.bytes", 4096, 0)
    # Not a Kafka key: a joiner that has no id yet cannot send heartbeats, so it is given this long (D31).
    new_member_timeout_ms: int = 300_000
    # Nor is this one: how many offsets a removal of many looks at and removes before others have their turn.
    sweep_size: int = 1000

    def __post_init__(self) -> None:
        for setting in fields(self):
            key = setting.metadata.get("key")
            value = getattr(self, setting.name)
            if key is not None and not setting.metadata["least"] <= value <= setting.metadata["most"]:
                raise ConfigError(
                    key, value, f"must be between {setting.metadata['least']} and {setting.metadata['most']}"
                )
        if self.max_session_timeout_ms < self.min_session_timeout_ms:
            raise ConfigError(
                "group.max.session.timeout.ms",
                self.max_session_timeout_ms,
                f"must not be below group.min.session.timeout.ms={self.min_session_timeout_ms}",
            )

    @property
    def retention_ms(self) -> int:
        return self.retention_minutes * 60_000

    @classmethod
    def from_keys(cls, configuration: Mapping[str, object]) -> Settings:
        """Read the coordinator's keys out of a broker configuration; numbers may be texts."""
        values: dict[str, int] = {}
        for setting in fields(cls):
            key = setting.metadata.get("key")
            if key is not None and key in configuration:
                values[setting.name] = _whole_number(key, configuration[key])
        return cls(**values)


def setting_keys() -> tuple[str, ...]:
    """Kafka's keys that the coordinator reads, for documents and for rejecting unknown ones."""
    return tuple(setting.metadata["key"] for setting in fields(Settings) if "key" in setting.metadata)


def _whole_number(key: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ConfigError(key, value, "must be a whole number")
    try:
        return int(value)
    except ValueError:
        raise ConfigError(key, value, "must be a whole number") from None
