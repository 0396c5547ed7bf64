"""The options of a query, read and checked as a whole before anything is asked of a broker.

``ReadOptions.of`` takes the mapping that Spark hands over (names in any case, values as texts) and gives one frozen
object, or a ConfigError that names the option. Options of Spark's Kafka source keep their names and meaning. The
``kafka.`` settings become a ``ConsumerConfig``; secrets live in there only and never in offsets.

Where a query begins or ends is a ``Point``: one word, offsets per partition, or times. Finding the offsets that a word
or a time stands for is ``resolution``'s work. As in Spark's source -2 is the earliest offset and -1 the latest, and a
JSON object has to name every partition of the query.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from seamark.client.config.config import ConsumerConfig
from seamark.errors import HIDDEN, ConfigError
from seamark.spark.option_names import REFUSED_KAFKA, check_names
from seamark.topic_partition import TopicPartition

T = TypeVar("T")

# About 70,000 records of 100 bytes: as large as Spark's Arrow batches should be, small enough to hold a few.
DEFAULT_FETCH_BYTES = 8 << 20
# What Spark's source waits for minOffsetsPerTrigger at most.
DEFAULT_TRIGGER_DELAY_MS = 15 * 60 * 1000
_DELAY_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


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


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which partitions a query reads: of named topics, of topics that match, or exactly these."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: Mapping[str, tuple[int, ...]] | None = None

    @property
    def names(self) -> tuple[str, ...] | None:
        """The topics as far as they are named; None for a pattern."""
        if self.pattern is not None:
            return None
        return self.topics if self.partitions is None else tuple(sorted(self.partitions))

    def includes(self, topic: str) -> bool:
        """Whether the topic is one of the query's. A pattern has to match the whole name, as Java's does."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, topic) is not None
        return topic in (self.names or ())


@dataclass(frozen=True, slots=True)
class ReadOptions:
    client: ConsumerConfig
    subscription: Subscription
    starting: Point
    ending: Point
    fail_on_loss: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    max_per_trigger: int | None
    min_per_trigger: int | None
    max_trigger_delay_ms: int
    include_headers: bool
    group: str | None
    group_fallback: str
    on_active_group: str
    on_topic_recreated: str
    fetch_bytes: int

    @classmethod
    def of(cls, given: Mapping[str, str], *, is_stream: bool) -> ReadOptions:
        """Check and read; Spark gives the names in lower case."""
        check_names(given, is_stream=is_stream)
        take = _Taker({name.lower(): value for name, value in given.items()})
        group = take("groupId", _text, None)
        minimum, maximum = take("minOffsetsPerTrigger", _count, None), take("maxOffsetsPerTrigger", _count, None)
        if minimum is not None and maximum is not None and minimum > maximum:
            raise ConfigError("minOffsetsPerTrigger", minimum, f"is above maxOffsetsPerTrigger={maximum}")
        starting = _starting(take, group, is_stream=is_stream)
        if take.has("groupFallback") and starting != AtWord("group"):
            raise ConfigError("groupFallback", HIDDEN, "needs startingOffsets=group")
        if take.has("onActiveGroup") and group is None:
            raise ConfigError("onActiveGroup", HIDDEN, "needs a groupId to commit to")
        return cls(
            client=client_config(take.given),
            subscription=_subscription(take),
            starting=starting,
            ending=_ending(take),
            fail_on_loss=take("failOnDataLoss", _flag, True),
            min_partitions=take("minPartitions", _count, None),
            max_records_per_partition=take("maxRecordsPerPartition", _count, None),
            max_per_trigger=maximum,
            min_per_trigger=minimum,
            max_trigger_delay_ms=take("maxTriggerDelay", _delay, DEFAULT_TRIGGER_DELAY_MS),
            include_headers=take("includeHeaders", _flag, False),
            group=group,
            group_fallback=take("groupFallback", _one_of("earliest", "latest", "fail"), "earliest"),
            on_active_group=take("onActiveGroup", _one_of("fail", "warn"), "fail"),
            on_topic_recreated=take("onTopicRecreated", _one_of("fail", "restart"), "fail"),
            fetch_bytes=take("fetchBytes", _size, DEFAULT_FETCH_BYTES),
        )

    @property
    def is_read_committed(self) -> bool:
        return self.client.isolation_level == "read_committed"


class _Taker:
    """Reads one option by its proper name."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self.given = given

    def has(self, name: str) -> bool:
        return name.lower() in self.given

    def text(self, name: str) -> str | None:
        text = self.given.get(name.lower())
        if text is None and self.has(name):
            raise ConfigError(name, None, "has no value")
        return text

    def __call__(self, name: str, read: Callable[[str, str], T], default: T | None) -> T:
        text = self.text(name)
        return default if text is None else read(name, text)  # type: ignore[return-value]


def client_config(given: Mapping[str, str]) -> ConsumerConfig:
    """The ``kafka.`` settings among options whose names are in lower case."""
    settings = {name[len("kafka.") :]: value for name, value in given.items() if name.startswith("kafka.")}
    for key, reason in REFUSED_KAFKA.items():
        if key in settings:
            raise ConfigError(f"kafka.{key}", HIDDEN, f"not supported: {reason}")
    if not settings.get("bootstrap.servers"):
        raise ConfigError("kafka.bootstrap.servers", "", "is required: host:port of at least one broker")
    # Brokers may allow reading by the group's name only; it is not joined and nothing is committed to it.
    settings.pop("group.id", None)
    settings.setdefault("client.id", "seamark-spark")
    try:
        return ConsumerConfig.from_options({**settings, "allow.auto.create.topics": "false"})
    except ConfigError as error:
        raise ConfigError(f"kafka.{error.option}", error.value, error.reason) from None


def _subscription(take: _Taker) -> Subscription:
    chosen = [name for name in ("subscribe", "subscribePattern", "assign") if take.has(name)]
    if len(chosen) != 1:
        told = f"both {' and '.join(chosen)} are given" if chosen else "none is given"
        raise ConfigError(
            "subscribe", HIDDEN, f"exactly one of subscribe, subscribePattern and assign is required; {told}"
        )
    text = take(chosen[0], _text, "")
    if chosen[0] == "assign":
        return Subscription(partitions={t: tuple(p) for t, p in partitions_object("assign", text).items()})
    if chosen[0] == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise ConfigError("subscribePattern", text, f"is not a regular expression ({error})") from None
        return Subscription(pattern=text)
    topics = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not topics:
        raise ConfigError("subscribe", text, "contains no topic")
    return Subscription(topics=topics)


def _starting(take: _Taker, group: str | None, *, is_stream: bool) -> Point:
    # Spark's source lets the more general option win: one time, then times, then offsets.
    or_latest = take("startingOffsetsByTimestampStrategy", _one_of("error", "latest"), "error") == "latest"
    point: Point
    if (text := take.text("startingTimestamp")) is not None:
        point = time_point("startingTimestamp", text, or_latest=or_latest)
    elif (text := take.text("startingOffsetsByTimestamp")) is not None:
        point = times_point("startingOffsetsByTimestamp", text, or_latest=or_latest)
    elif (text := take.text("startingOffsets")) is not None:
        words: tuple[Word, ...] = ("earliest", "latest", "group")
        point = offsets_point("startingOffsets", text, words, forbidden=NOTHING if is_stream else LATEST)
    else:
        point = AtWord("latest" if is_stream else "earliest")
    if point == AtWord("group") and group is None:
        raise ConfigError("startingOffsets", "group", "needs a groupId whose offsets to start from")
    if point == AtWord("latest") and not is_stream:
        raise ConfigError("startingOffsets", "latest", "a batch query from the latest offset would read nothing")
    return point


def _ending(take: _Taker) -> Point:
    if (text := take.text("endingTimestamp")) is not None:
        return time_point("endingTimestamp", text, or_latest=True)
    if (text := take.text("endingOffsetsByTimestamp")) is not None:
        return times_point("endingOffsetsByTimestamp", text, or_latest=True)
    if (text := take.text("endingOffsets")) is not None:
        return offsets_point("endingOffsets", text, ("latest",), forbidden=EARLIEST)
    return AtWord("latest")


def partitions_object(option: str, text: str) -> dict[str, list[int]]:
    """``{"topic": [0, 1]}`` of the option assign."""
    content = _object(option, text)
    for topic, indexes in content.items():
        if not isinstance(indexes, list) or not indexes or not all(_is_number(index, 0) for index in indexes):
            raise ConfigError(option, text, f'{topic!r} needs a list of partition numbers: {{"{topic}": [0, 1]}}')
    if not content:
        raise ConfigError(option, text, "contains no partition")
    return {topic: sorted(set(indexes)) for topic, indexes in content.items()}


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
    numbers: dict[TopicPartition, int] = {}
    for topic, entries in _object(option, text).items():
        if not isinstance(entries, dict):
            raise ConfigError(option, text, f'{topic!r} needs an object of partitions: {{"{topic}": {{"0": 5}}}}')
        for key, number in entries.items():
            if not (key.isascii() and key.isdecimal() and len(key) <= 10):
                raise ConfigError(option, text, f"{key!r} of {topic!r} is not a partition number")
            if not _is_number(number, least):
                raise ConfigError(option, text, f"partition {key} of {topic!r} must have a number, got {number!r}")
            numbers[TopicPartition(topic, int(key))] = number
    if not numbers:
        raise ConfigError(option, text, "contains no partition")
    return numbers


def _object(option: str, text: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ConfigError(option, text, f"is not JSON ({error})") from None
    if not isinstance(content, dict):
        raise ConfigError(option, text, "is not a JSON object of topics")
    return content


def _is_number(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**63


def _text(name: str, text: str) -> str:
    if not text.strip():
        raise ConfigError(name, text, "is empty")
    return text


def _flag(name: str, text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise ConfigError(name, text, "must be true or false")
    return word == "true"


def _count(name: str, text: str) -> int:
    word = text.strip()
    if not (word.isascii() and word.isdecimal() and len(word) <= 19) or not 0 < int(word) < 2**63:
        raise ConfigError(name, text, "must be an integer > 0")
    return int(word)


def _size(name: str, text: str) -> int:
    size = _count(name, text)
    if not 1024 <= size <= 512 << 20:
        raise ConfigError(name, text, "must be a number of bytes from 1024 to 536870912")
    return size


def _delay(name: str, text: str) -> int:
    match = re.fullmatch(r"\s*(\d{1,12})\s*([a-z]+)?\s*", text.lower())
    unit = None if match is None else _DELAY_UNITS_MS.get(match[2] or "ms")
    if match is None or unit is None:
        raise ConfigError(name, text, f"must be a number with one of the units {', '.join(_DELAY_UNITS_MS)}")
    return int(match[1]) * unit


def _one_of(*words: str) -> Callable[[str, str], str]:
    def read(name: str, text: str) -> str:
        word = text.strip().lower()
        if word not in words:
            raise ConfigError(name, text, f"must be one of {', '.join(words)}")
        return word

    return read
