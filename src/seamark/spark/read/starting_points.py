"""Where a query begins or ends, as its options say it: one word, offsets per partition, or times.

Purely the meaning of texts; finding the offsets that a word or a time stands for is ``resolution``'s work. As in
Spark's source -2 is the earliest offset and -1 the latest, and a JSON object has to name every partition of the query.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from seamark.errors import ConfigError
from seamark.topic_partition import TopicPartition

EARLIEST = -2
LATEST = -1
# No offset is written like this: for places where both of the special ones may stand.
NOTHING = -3

Word = Literal["earliest", "latest", "group"]


@dataclass(frozen=True, slots=True)
class AtWord:
    """Every partition at the same kind of place."""

    word: Word


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """Each partition at its offset; -2 and -1 as in ``EARLIEST`` and ``LATEST``."""

    offsets: Mapping[TopicPartition, int]
    option: str


@dataclass(frozen=True, slots=True)
class AtTimes:
    """Each partition at its first record that is not older; ``every`` is for all partitions of the query.

    ``or_latest`` says what holds where no record is that young: the end of the log, or an error.
    """

    times_ms: Mapping[TopicPartition, int]
    every_ms: int | None
    option: str
    or_latest: bool


Point = AtWord | AtOffsets | AtTimes


def partitions_object(option: str, text: str) -> dict[str, list[int]]:
    """``{"topic": [0, 1]}`` of the option assign."""
    found = _object(option, text)
    for topic, indexes in found.items():
        if not isinstance(indexes, list) or not indexes or not all(_is_number(index, 0) for index in indexes):
            raise ConfigError(option, text, f'{topic!r} needs a list of partition numbers: {{"{topic}": [0, 1]}}')
    if not found:
        raise ConfigError(option, text, "contains no partition")
    return {topic: sorted(set(indexes)) for topic, indexes in found.items()}


def offsets_point(option: str, text: str, words: tuple[Word, ...], *, forbidden: int) -> Point:
    """A word, or ``{"topic": {"0": 5, "1": -2}}``; ``forbidden`` is the special offset that makes no sense here."""
    word = text.strip().lower()
    for known in words:
        if word == known:
            return AtWord(known)
    if not text.strip().startswith("{"):
        raise ConfigError(option, text, f"must be {', '.join(words)} or a JSON object of offsets")
    offsets = _numbers(option, text, least=EARLIEST)
    for partition, offset in offsets.items():
        if offset == forbidden:
            kind = "latest (-1)" if forbidden == LATEST else "earliest (-2)"
            raise ConfigError(option, text, f"{partition} cannot be at {kind} here")
    return AtOffsets(offsets, option)


def times_point(option: str, text: str, *, or_latest: bool) -> AtTimes:
    """``{"topic": {"0": 1700000000000}}``, milliseconds since 1970."""
    return AtTimes(_numbers(option, text, least=0), None, option, or_latest)


def time_point(option: str, text: str, *, or_latest: bool) -> AtTimes:
    """One time in milliseconds since 1970 for all partitions."""
    word = text.strip()
    if not (word.isascii() and word.isdecimal() and len(word) <= 18):
        raise ConfigError(option, text, "must be a number of milliseconds since 1970")
    return AtTimes({}, int(word), option, or_latest)


def _numbers(option: str, text: str, *, least: int) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for topic, entries in _object(option, text).items():
        if not isinstance(entries, dict):
            raise ConfigError(option, text, f'{topic!r} needs an object of partitions: {{"{topic}": {{"0": 5}}}}')
        for key, number in entries.items():
            if not (key.isascii() and key.isdecimal() and len(key) <= 10):
                raise ConfigError(option, text, f"{key!r} of {topic!r} is not a partition number")
            if not _is_number(number, least):
                raise ConfigError(option, text, f"partition {key} of {topic!r} must have a number, got {number!r}")
            found[TopicPartition(topic, int(key))] = number
    if not found:
        raise ConfigError(option, text, "contains no partition")
    return found


def _object(option: str, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ConfigError(option, text, f"is not JSON ({error})") from None
    if not isinstance(found, dict):
        raise ConfigError(option, text, "is not a JSON object of topics")
    return found


def _is_number(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**63
