"""One configuration key: its type, default and limits, and the way between its text and its value.

Types carry Kafka's numbers, which DescribeConfigs answers. A value that cannot be is refused with a sentence; nothing
is clamped in silence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

from seamark.errors import ConfigError

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


class ConfigType(IntEnum):
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


_LARGEST = {ConfigType.INT: INT32_MAX, ConfigType.SHORT: 2**15 - 1, ConfigType.LONG: INT64_MAX}


class ConfigKey:
    """``choices`` limits a text, or each item of a list; ``synonyms`` are the broker's keys that a topic's key falls
    back to.
    """

    __slots__ = ("choices", "default", "is_dynamic", "kind", "least", "most", "name", "synonyms")

    def __init__(
        self,
        name: str,
        kind: ConfigType,
        default: Any,
        *,
        least: float | None = None,
        most: float | None = None,
        choices: Sequence[str] = (),
        synonyms: Sequence[str] = (),
        is_dynamic: bool = False,
    ) -> None:
        self.name = name
        self.kind = kind
        self.default = default
        self.least = least
        self.most = _LARGEST.get(kind) if most is None else most
        self.choices = tuple(choices)
        self.synonyms = tuple(synonyms)
        # May be changed by IncrementalAlterConfigs while the broker runs; only asked of the broker's keys.
        self.is_dynamic = is_dynamic

    @property
    def is_sensitive(self) -> bool:
        return self.kind is ConfigType.PASSWORD

    def parse(self, given: object) -> Any:
        """Return the value; texts are read as in a properties file.

        >>> ConfigKey("retention.ms", ConfigType.LONG, 0, least=-1).parse(" 500 ")
        500
        """
        text = _as_text(given)
        kind = self.kind
        if kind is ConfigType.BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise ConfigError(self.name, given, "it must be true or false")
            return text.lower() == "true"
        if kind in (ConfigType.INT, ConfigType.SHORT, ConfigType.LONG, ConfigType.DOUBLE):
            return self._parse_number(given, text)
        if kind is ConfigType.LIST:
            items = [item.strip() for item in text.split(",") if item.strip()]
            for item in items:
                self._check_choice(item, given)
            return items
        self._check_choice(text, given)
        return text

    def _parse_number(self, given: object, text: str) -> int | float:
        value: int | float
        try:
            value = float(text) if self.kind is ConfigType.DOUBLE else int(text)
        except ValueError:
            word = "number" if self.kind is ConfigType.DOUBLE else "whole number"
            raise ConfigError(self.name, given, f"it must be a {word}") from None
        if self.least is not None and not value >= self.least:
            raise ConfigError(self.name, given, f"it must be at least {self.least}")
        if self.most is not None and value > self.most:
            raise ConfigError(self.name, given, f"it must be at most {self.most}")
        return value

    def _check_choice(self, item: str, given: object) -> None:
        if self.choices and item not in self.choices:
            raise ConfigError(self.name, given, f"it must be one of {', '.join(self.choices)}")

    def show(self, value: Any) -> str | None:
        """Return the value as DescribeConfigs answers it.

        >>> ConfigKey("cleanup.policy", ConfigType.LIST, []).show(["compact", "delete"])
        'compact,delete'
        """
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, list):
            return ",".join(value)
        return str(value)


def _as_text(given: object) -> str:
    if isinstance(given, bool):
        return "true" if given else "false"
    if isinstance(given, list | tuple):
        return ",".join(map(str, given))
    return str(given).strip()


def table(*keys: ConfigKey) -> Mapping[str, ConfigKey]:
    return {key.name: key for key in keys}
