"""The options and columns of a write, checked as a whole before a row is looked at.

Options of Spark's Kafka sink keep their names: ``topic`` and the producer's settings with ``kafka.`` before them.
``partitioner`` is ours: it names how rows without a partition are spread, as ``kafka.partitioner.class`` does.

Columns are found by name: ``value`` is needed; ``key``, ``headers``, ``partition`` and ``topic`` are optional; others
are not written. The option ``topic`` wins over the column, as in Spark's sink.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from seamark.client.config.config import ProducerConfig
from seamark.errors import HIDDEN, ConfigError, UsageError
from seamark.spark.option_names import TAKEN as READ_OPTIONS
from seamark.suggest import did_you_mean

HEADERS_TYPE = "array<struct<key:string,value:binary>>"
COLUMN_TYPES = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": (HEADERS_TYPE,),
    "partition": ("int",),
    "topic": ("string",),
}
TAKEN = ("topic", "partitioner")
# What a streaming query is given as options beside those of its sink.
_OF_THE_QUERY = (
    "checkpointlocation",
    "asyncprogresstrackingenabled",
    "asyncprogresstrackingcheckpointintervalms",
)
_REFUSED = {"path": "nothing is written to files: call save() or start() without a path"}
_REFUSED_KAFKA = {
    "key.serializer": "keys are written unchanged: cast the column to string or binary",
    "value.serializer": "values are written unchanged: cast the column to string or binary",
    "interceptor.classes": "interceptors are Java classes and are not supported",
}


class BadColumns(UsageError):
    """The rows cannot be written as records: a column is missing or has the wrong type."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Where to write; ``settings`` are the producer's keys as texts, which may hold secrets and are never shown."""

    topic: str | None
    settings: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, given: Mapping[str, str]) -> WriteOptions:
        options = {name.lower(): value for name, value in given.items()}
        for name in options:
            _check_name(name)
        topic = options.get("topic")
        if topic is not None and not topic.strip():
            raise ConfigError("topic", topic, "is empty")
        settings = {name[len("kafka.") :]: value for name, value in options.items() if name.startswith("kafka.")}
        for key, reason in _REFUSED_KAFKA.items():
            if key in settings:
                raise ConfigError(f"kafka.{key}", HIDDEN, f"not supported: {reason}")
        if not settings.get("bootstrap.servers"):
            raise ConfigError("kafka.bootstrap.servers", "", "is required: host:port of at least one broker")
        if "partitioner" in options:
            if "partitioner.class" in settings:
                raise ConfigError("partitioner", options["partitioner"], "kafka.partitioner.class is given as well")
            settings["partitioner.class"] = options["partitioner"]
        settings.setdefault("client.id", "seamark-spark")
        made = cls(topic, tuple(sorted(settings.items())))
        made.client()
        return made

    def client(self) -> ProducerConfig:
        """The producer's settings, checked."""
        try:
            return ProducerConfig.from_options(dict(self.settings))
        except ConfigError as error:
            raise ConfigError(f"kafka.{error.option}", error.value, error.reason) from None

    def __repr__(self) -> str:
        return f"WriteOptions(topic={self.topic!r}, {self.client()!r})"


def _check_name(name: str) -> None:
    if name.startswith("kafka.") or name in TAKEN or name in _OF_THE_QUERY:
        return
    if name in _REFUSED:
        raise ConfigError(name, HIDDEN, f"not supported: {_REFUSED[name]}")
    proper = {option.lower(): option for option in READ_OPTIONS}.get(name)
    if proper is not None:
        raise ConfigError(proper, HIDDEN, "is an option for reading, not for writing")
    hint = did_you_mean(name, [*TAKEN, "kafka.bootstrap.servers", "checkpointLocation"])
    raise ConfigError(name, HIDDEN, f"is not an option of this sink{hint}")


def check_columns(columns: Iterable[tuple[str, str]], topic: str | None) -> None:
    """Check names and types (as Spark writes them); BadColumns says what is missing or wrong."""
    types: dict[str, str] = {}
    for name, kind in columns:
        if name in COLUMN_TYPES and name in types:
            raise BadColumns(f"column {name!r} appears twice: keep only one")
        if name not in COLUMN_TYPES and name.lower() in COLUMN_TYPES:
            raise BadColumns(f"the column {name!r} would not be written: rename it to {name.lower()!r}, or drop it")
        types[name] = kind
    if "value" not in types:
        raise BadColumns(f"a column 'value' is required, the rows have {_listed(types)}")
    if topic is None and "topic" not in types:
        raise BadColumns("no topic given: set the option 'topic', or add a column 'topic'")
    for name, allowed in COLUMN_TYPES.items():
        kind = types.get(name, allowed[0])
        if name == "topic" and topic is not None:
            continue
        # A string with a collation is a string.
        if kind.partition(" collate ")[0] not in allowed:
            raise BadColumns(f"the column {name!r} must be {' or '.join(allowed)}, got {kind}: cast it")


def _listed(types: Mapping[str, str]) -> str:
    return ", ".join(map(repr, types)) or "no columns"
