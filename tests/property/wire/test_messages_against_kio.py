"""Every message and version that kio has, compared with kio: the facts, kio reading our bytes, we reading kio's bytes.

The versions kio lacks are listed here and have hand-made bytes in tests/unit/wire/protocol/test_messages_golden.py.
kio refuses tagged fields that it does not know, so those are left to our own round trips.
SEAMARK_SOAK=1 raises the examples per message and version from twenty to two hundred.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from kio.serial._introspect import classify_field, get_field_tag, is_optional

from seamark.wire.schema.schema import Array, Fixed, Message, Struct, Variable
from tests.support.kio_messages import (
    from_kio,
    kio_class,
    kio_entities,
    kio_name,
    narrow_to_kio,
    read_with_kio,
    write_with_kio,
)
from tests.support.message_strategies import EVERY_MESSAGE, label, messages

EXAMPLES = 200 if os.environ.get("SEAMARK_SOAK") == "1" else 20
WITH_KIO = [(cls, version) for cls, version in EVERY_MESSAGE if kio_class(cls, version) is not None]
PAIRS = pytest.mark.parametrize(("cls", "version"), WITH_KIO, ids=[label(*pair) for pair in WITH_KIO])
BOUNDED = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)

# What kio's names for types mean on the wire.
WIRE_TYPES = {
    "bool": "boolean",
    "datetime_i64": "int64",
    "error_code": "int16",
    "timedelta_i32": "int32",
    "timedelta_i64": "int64",
}


def test_kio_lacks_only_the_versions_that_golden_bytes_cover() -> None:
    missing = {label(cls, version) for cls, version in EVERY_MESSAGE} - {label(*pair) for pair in WITH_KIO}
    expected = {"ControlledShutdown": range(4), "OffsetCommit": range(2), "OffsetFetch": range(1), "Produce": range(3)}
    assert missing == {
        f"{name}{direction}-v{version}"
        for name, versions in expected.items()
        for version in versions
        for direction in ("Request", "Response")
    }


# covers: A15, A16, A21, L6
@PAIRS
def test_fields_types_tags_nulls_and_defaults_agree_with_kio(cls: type[Message], version: int) -> None:
    kio_cls = kio_class(cls, version)
    assert kio_cls.__api_key__ == cls.api_key
    assert kio_cls.__flexible__ == (version in cls.flexible)
    compare_facts(cls, version, kio_cls, cls.__name__)


def compare_facts(cls: type[Struct], version: int, kio_cls: Any, path: str) -> None:
    theirs = {each.name: each for each in dataclasses.fields(kio_cls)}
    ours = [f for f in cls.fields if version in f.versions]
    assert [kio_name(f, set(theirs)) for f in ours] == list(theirs), path
    for f, their in zip(ours, theirs.values(), strict=True):
        where = f"{path}.{f.name}"
        assert get_field_tag(their) == (f.tag if f.is_tagged(version) else None), where
        kind = f.kind.element if isinstance(f.kind, Array) else f.kind
        their_class = classify_field(their)
        assert their_class.is_array == isinstance(f.kind, Array), where
        if isinstance(kind, Fixed | Variable):
            their_type = their.metadata["kafka_type"]
            assert kind.name == WIRE_TYPES.get(their_type, their_type), where
        else:
            compare_facts(kind, version, their_class.type_, where)
        if not isinstance(kind, Fixed):
            # kio uses None for a zero id and for a missing timestamp, which are no nulls on the wire.
            assert is_optional(their) == (version in f.nullable), where
        if their.default is not dataclasses.MISSING and their.default is not None and not isinstance(kind, type):
            default = list(their.default) if isinstance(f.kind, Array) else their.default
            if hasattr(default, "total_seconds"):
                default = round(default.total_seconds() * 1000)
            assert default == f.default, where
        if their.default is None and not isinstance(kind, Fixed):
            assert f.default is None, where


@PAIRS
def test_kio_reads_our_bytes_and_writes_the_same_again(cls: type[Message], version: int) -> None:
    kio_cls = kio_class(cls, version)

    @BOUNDED
    @given(messages(cls, version, flexible=version in cls.flexible, narrow=narrow_to_kio))
    def check(message: Any) -> None:
        encoded = message.encode(version)
        entity = read_with_kio(kio_cls, encoded)
        assert from_kio(cls, version, entity) == message
        assert write_with_kio(entity) == encoded

    check()


@PAIRS
def test_we_read_kios_bytes_and_write_the_same_again(cls: type[Message], version: int) -> None:
    @BOUNDED
    @given(kio_entities(kio_class(cls, version)))
    def check(entity: Any) -> None:
        encoded = write_with_kio(entity)
        message = cls.decode(encoded, version)
        assert message == from_kio(cls, version, entity)
        assert message.encode(version) == encoded

    check()
