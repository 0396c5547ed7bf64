"""Between our messages and those of kio, an independent implementation of Kafka's protocol.

kio has one frozen dataclass per message and version, and richer types than the wire: an all-zero topic id is None,
durations are ``timedelta``, one timestamp is a ``datetime`` or None, error codes are an enumeration, arrays are tuples.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import importlib.util
import io
import re
import types
import typing
import uuid
from typing import Any

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32Timedelta, i64Timedelta

from seamark.wire.schema.schema import ZERO_UUID, Array, Field, Message, Struct

MILLISECOND = datetime.timedelta(milliseconds=1)
ERROR_CODES = st.sampled_from([int(code) for code in ErrorCode])
# kio's durations and timestamps pass through floating point: beyond these they are not exact.
LONG_DURATIONS = st.integers(-(1 << 40), 1 << 40)
TIMESTAMPS = st.just(-1) | st.integers(0, (1 << 32) - 1).map(lambda seconds: seconds * 1000)


def kio_class(cls: type[Message], version: int) -> Any:
    """kio's class for the same message, or None where kio does not have that version."""
    api, direction = re.fullmatch(r"(\w+)(Request|Response)", cls.__name__).groups()  # type: ignore[union-attr]
    package = "kio.schema." + re.sub(r"(?<!^)([A-Z])", r"_\1", api).lower()
    if importlib.util.find_spec(package) is None or importlib.util.find_spec(f"{package}.v{version}") is None:
        return None
    return getattr(importlib.import_module(f"{package}.v{version}.{direction.lower()}"), cls.__name__)


def write_with_kio(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def read_with_kio(kio_cls: Any, encoded: bytes) -> Any:
    entity, size = entity_reader(kio_cls)(encoded, 0)
    assert size == len(encoded)
    return entity


def kio_name(f: Field, names: set[str]) -> str:
    """kio leaves the unit out of the names of durations and timestamps."""
    return f.name if f.name in names else f.name.removesuffix("_ms")


def from_kio(cls: type[Struct], version: int, entity: Any) -> Any:
    """Our struct with the values of kio's."""
    names = {each.name for each in dataclasses.fields(entity)}
    ours = [f for f in cls.fields if version in f.versions]
    assert {kio_name(f, names) for f in ours} == names
    return cls(**{f.name: _plain(f.kind, version, getattr(entity, kio_name(f, names))) for f in ours})


def _plain(kind: Any, version: int, value: Any) -> Any:
    if getattr(kind, "code", None) == "16s":
        return ZERO_UUID if value is None else value.bytes
    if getattr(kind, "code", None) == "q" and (value is None or isinstance(value, datetime.datetime)):
        return -1 if value is None else round(value.timestamp() * 1000)
    if value is None:
        return None
    if isinstance(value, datetime.timedelta):
        return value // MILLISECOND
    if isinstance(kind, Array):
        return [_plain(kind.element, version, each) for each in value]
    if isinstance(kind, type):
        return from_kio(kind, version, value)
    if isinstance(value, ErrorCode):
        return int(value)
    return value


def narrow_to_kio(f: Field) -> st.SearchStrategy[Any] | None:
    """kio cannot hold error codes it does not know, nor all durations and timestamps of 64 bits."""
    if f.name.endswith("error_code"):
        return ERROR_CODES
    if f.name in ("session_lifetime_ms", "retention_time_ms"):
        return LONG_DURATIONS
    if f.name == "log_append_time_ms":
        return TIMESTAMPS
    return None


def kio_entities(kio_cls: Any) -> st.SearchStrategy[Any]:
    """Instances of a kio class, made from kio's own declarations and from nothing of ours."""
    hints = typing.get_type_hints(kio_cls)
    by_name = {}
    for each in dataclasses.fields(kio_cls):
        strategy = _of_kio_type(hints[each.name], each.metadata.get("kafka_type"))
        if each.default is not dataclasses.MISSING:
            strategy = st.just(each.default) | strategy
        by_name[each.name] = strategy
    names = tuple(by_name)
    return st.tuples(*by_name.values()).map(lambda values: kio_cls(**dict(zip(names, values, strict=True))))


_INTEGERS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}


def _of_kio_type(hint: Any, kafka_type: str | None) -> st.SearchStrategy[Any]:
    arguments = typing.get_args(hint)
    if isinstance(hint, types.UnionType):
        (inner,) = (each for each in arguments if each is not types.NoneType)
        return st.none() | _of_kio_type(inner, kafka_type)
    if typing.get_origin(hint) is tuple:
        return st.lists(_of_kio_type(arguments[0], kafka_type), max_size=2).map(tuple)
    if dataclasses.is_dataclass(hint):
        return kio_entities(hint)
    if kafka_type in _INTEGERS:
        bits = _INTEGERS[kafka_type]
        return st.integers(-(1 << bits), (1 << bits) - 1).map(hint)
    return {
        "bool": st.booleans(),
        "bytes": st.binary(max_size=8),
        "datetime_i64": st.integers(0, (1 << 32) - 1).map(
            lambda seconds: datetime.datetime.fromtimestamp(seconds, datetime.UTC)
        ),
        "error_code": st.sampled_from(list(ErrorCode)),
        "records": st.binary(max_size=8),
        "string": st.text(max_size=8),
        # The zero id means "none" and is made by that.
        "uuid": st.binary(min_size=16, max_size=16).filter(any).map(lambda raw: uuid.UUID(bytes=raw)),
        "timedelta_i32": st.integers(-(1 << 31), (1 << 31) - 1).map(lambda ms: i32Timedelta.parse(ms * MILLISECOND)),
        "timedelta_i64": LONG_DURATIONS.map(lambda ms: i64Timedelta.parse(ms * MILLISECOND)),
    }[str(kafka_type)]
