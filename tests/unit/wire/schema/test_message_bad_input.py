"""Values that a version cannot carry and bytes that are no message: one error that names the field, and bounded work.

Hand-made bytes use few messages whose layout is easy to see: MetadataRequest v1 (an int32 count of classic strings),
its flexible v9, and FindCoordinatorRequest.
"""

from __future__ import annotations

import time
import tracemalloc

import pytest

from seamark.errors import (
    BadLength,
    BadText,
    DecodeError,
    EncodeError,
    NotNullable,
    OutOfRange,
    TrailingBytes,
    Truncated,
    UnknownVersion,
)
from seamark.wire.protocol.messages.api_versions import ApiVersionsRequest
from seamark.wire.protocol.messages.create_topics import CreateTopicsRequest
from seamark.wire.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestReplicaState,
)
from seamark.wire.protocol.messages.find_coordinator import FindCoordinatorRequest
from seamark.wire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from seamark.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from seamark.wire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from seamark.wire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from seamark.wire.schema import codec
from seamark.wire.schema.schema import Message
from tests.support.message_strategies import EVERY_LABEL, EVERY_MESSAGE, filled

ALL = pytest.mark.parametrize(("cls", "version"), EVERY_MESSAGE, ids=EVERY_LABEL)


# --- values that a version cannot carry ------------------------------------------------------------------------------


def every_absent_field(ignorable: bool) -> list[tuple[type[Message], int, str]]:
    """Fields at the top of a message that one of its versions lacks."""
    return [
        (cls, version, f.name)
        for cls, version in EVERY_MESSAGE
        for f in cls.fields
        if version not in f.versions and f.ignorable is ignorable
    ]


@pytest.mark.parametrize(("cls", "version", "name"), every_absent_field(ignorable=False))
def test_a_field_the_version_lacks_is_refused_by_name_unless_it_has_its_default(
    cls: type[Message], version: int, name: str
) -> None:
    cls().encode(version)
    other = next(v for v in cls.versions if any(f.name == name and v in f.versions for f in cls.fields))
    message = cls(**{name: getattr(filled(cls, other), name)})
    with pytest.raises(OutOfRange, match=f"version {version} does not have this field") as caught:
        message.encode(version)
    assert caught.value.field == f"{cls.__name__}.{name}"


@pytest.mark.parametrize(("cls", "version", "name"), every_absent_field(ignorable=True))
def test_an_ignorable_field_the_version_lacks_is_left_out(cls: type[Message], version: int, name: str) -> None:
    other = next(v for v in cls.versions if any(f.name == name and v in f.versions for f in cls.fields))
    message = cls(**{name: getattr(filled(cls, other), name)})
    assert message.encode(version) == cls().encode(version)


def test_null_is_not_an_empty_list_for_a_version_without_the_field() -> None:
    group = OffsetFetchRequestGroup(group_id="g", topics=None)
    OffsetFetchRequest(groups=[group]).encode(8)
    with pytest.raises(OutOfRange, match=r"^OffsetFetchRequest\.topics=None: version 8"):
        OffsetFetchRequest(groups=[group], topics=None).encode(8)


@ALL
def test_null_is_written_where_allowed_and_refused_by_name_elsewhere(cls: type[Message], version: int) -> None:
    for f in cls.fields:
        if version not in f.versions:
            continue
        message = filled(cls, version)
        setattr(message, f.name, None)
        if version in f.nullable:
            assert getattr(cls.decode(message.encode(version), version), f.name) is None
        else:
            with pytest.raises(NotNullable) as caught:
                message.encode(version)
            assert caught.value.field == f"{cls.__name__}.{f.name}"


@pytest.mark.parametrize(
    ("message", "version", "field"),
    [
        (HeartbeatRequest(generation_id=1 << 31), 0, "HeartbeatRequest.generation_id"),
        (HeartbeatRequest(generation_id=1.5), 0, "HeartbeatRequest.generation_id"),
        (HeartbeatRequest(generation_id="1"), 4, "HeartbeatRequest.generation_id"),
        (HeartbeatRequest(member_id=b"m"), 0, "HeartbeatRequest.member_id"),
        (HeartbeatRequest(member_id="\ud800"), 0, "HeartbeatRequest.member_id"),
        (HeartbeatRequest(member_id="m" * 32768), 0, "HeartbeatRequest.member_id"),
        (HeartbeatRequest(member_id="é" * 16384), 4, "HeartbeatRequest.member_id"),
        (HeartbeatResponse(error_code=32768), 1, "HeartbeatResponse.error_code"),
        (MetadataRequest(topics=5), 1, "MetadataRequest.topics"),
        (MetadataRequest(topics=["t"]), 1, "MetadataRequest.topics[0]"),
        (MetadataRequest(topics=[OffsetFetchRequestGroup()]), 1, "MetadataRequest.topics[0]"),
        (MetadataRequest(topics=[MetadataRequestTopic(name=7)]), 1, "MetadataRequest.topics[0].name"),
        (MetadataRequest(topics=[MetadataRequestTopic(topic_id=b"short")]), 12, "MetadataRequest.topics[].topic_id"),
        (MetadataRequest(allow_auto_topic_creation="yes"), 4, "MetadataRequest.allow_auto_topic_creation"),
        (CreateTopicsRequest(topics=[None]), 2, "CreateTopicsRequest.topics[0]"),
        (SaslAuthenticateRequest(auth_bytes="text"), 0, "SaslAuthenticateRequest.auth_bytes"),
        (SaslAuthenticateRequest(auth_bytes=[1, 2]), 2, "SaslAuthenticateRequest.auth_bytes"),
        (
            OffsetFetchRequest(topics=[OffsetFetchRequestTopic(partition_indexes=[0, "1"])]),
            1,
            "OffsetFetchRequest.topics[0].partition_indexes[1]",
        ),
        (
            FetchRequest(replica_state=FetchRequestReplicaState(replica_id=1 << 40)),
            15,
            "FetchRequest.replica_state.replica_id",
        ),
    ],
)
def test_a_value_that_does_not_fit_is_named(message: Message, version: int, field: str) -> None:
    with pytest.raises(EncodeError) as caught:
        message.encode(version)
    assert caught.value.field == field


def test_versions_outside_the_range_are_refused_both_ways() -> None:
    with pytest.raises(UnknownVersion, match="version 5 is not one of 0-4"):
        ApiVersionsRequest.decode(b"", 5)
    with pytest.raises(OutOfRange, match="is not one of 0-4"):
        ApiVersionsRequest().encode(-1)


# --- bad bytes -------------------------------------------------------------------------------------------------------


@ALL
def test_every_truncation_is_reported_and_nothing_else_happens(cls: type[Message], version: int) -> None:
    encoded = filled(cls, version).encode(version)
    for length in range(len(encoded)):
        with pytest.raises((Truncated, BadLength)) as caught:
            cls.decode(encoded[:length], version)
        assert caught.value.field.startswith(f"{cls.__name__}.")
        assert 0 <= caught.value.position <= length


@ALL
def test_bytes_behind_the_message_are_reported(cls: type[Message], version: int) -> None:
    encoded = filled(cls, version).encode(version)
    with pytest.raises(TrailingBytes, match="1 extra bytes") as caught:
        cls.decode(encoded + b"\0", version)
    assert caught.value.position == len(encoded)


@ALL
def test_a_changed_byte_gives_a_message_or_a_decode_error(cls: type[Message], version: int) -> None:
    encoded = filled(cls, version).encode(version)
    for position in range(len(encoded)):
        for value in (0x00, 0x80, 0xFF):
            changed = bytearray(encoded)
            changed[position] = value
            try:
                cls.decode(bytes(changed), version)
            except DecodeError as error:
                assert error.field.startswith(cls.__name__)  # noqa: PT017
                assert 0 <= error.position <= len(encoded)  # noqa: PT017


@pytest.mark.parametrize(
    ("cls", "version", "text", "error", "field", "position"),
    [
        # classic: an int16 in front of text, an int32 in front of bytes and arrays
        (FindCoordinatorRequest, 0, "ffff", BadLength, "FindCoordinatorRequest.key", 2),
        (FindCoordinatorRequest, 0, "fffe", BadLength, "FindCoordinatorRequest.key", 2),
        (FindCoordinatorRequest, 0, "8000", BadLength, "FindCoordinatorRequest.key", 2),
        (FindCoordinatorRequest, 0, "0002 61", Truncated, "FindCoordinatorRequest.key", 2),
        (FindCoordinatorRequest, 0, "0002 61ff", BadText, "FindCoordinatorRequest.key", 3),
        (SaslAuthenticateRequest, 0, "ffffffff", BadLength, "SaslAuthenticateRequest.auth_bytes", 4),
        (SaslAuthenticateRequest, 0, "80000000", BadLength, "SaslAuthenticateRequest.auth_bytes", 4),
        (MetadataRequest, 0, "ffffffff", BadLength, "MetadataRequest.topics", 4),
        (MetadataRequest, 1, "fffffffe", BadLength, "MetadataRequest.topics", 4),
        (MetadataRequest, 1, "00000001 fffd", BadLength, "MetadataRequest.topics[].name", 6),
        # compact: a varint one larger than the length, 0 for null
        (FindCoordinatorRequest, 3, "00 00 00", BadLength, "FindCoordinatorRequest.key", 1),
        (FindCoordinatorRequest, 3, "818002" + "61" * 32768 + "0000", BadLength, "FindCoordinatorRequest.key", 3),
        (FindCoordinatorRequest, 3, "8080808080 01", BadLength, "FindCoordinatorRequest.key", 0),
        (FindCoordinatorRequest, 3, "80808080 10", BadLength, "FindCoordinatorRequest.key", 0),
        (FindCoordinatorRequest, 3, "80", Truncated, "FindCoordinatorRequest.key", 0),
        (FindCoordinatorRequest, 3, "0261 00 80808080 7f", BadLength, "FindCoordinatorRequest.tags", 3),
        (FindCoordinatorRequest, 4, "00 00 00", BadLength, "FindCoordinatorRequest.coordinator_keys", 2),
        (FindCoordinatorRequest, 4, "00 ffffffff0f", Truncated, "FindCoordinatorRequest.coordinator_keys", 6),
        # tags: how many, then tag, size, content
        (FindCoordinatorRequest, 3, "0261 00 01 40 02 00", Truncated, "FindCoordinatorRequest.tags", 6),
        (FindCoordinatorRequest, 3, "0261 00 ffffffff0f", Truncated, "FindCoordinatorRequest.tags", 8),
    ],
)
def test_bad_lengths_are_named_with_their_position(
    cls: type[Message], version: int, text: str, error: type[DecodeError], field: str, position: int
) -> None:
    with pytest.raises(error) as caught:
        cls.decode(bytes.fromhex(text), version)
    assert type(caught.value) is error
    assert (caught.value.field, caught.value.position) == (field, position)


def test_a_length_may_be_written_with_padding_as_kafka_accepts_it() -> None:
    assert FindCoordinatorRequest.decode(bytes.fromhex("8280808000 61 00 00"), 3).key == "a"


@pytest.mark.parametrize(
    ("cls", "version", "head"),
    [
        (MetadataRequest, 1, "7fffffff"),
        (MetadataRequest, 9, "ffffffff0f"),
        (FindCoordinatorRequest, 4, "00 ffffffff07"),
        (OffsetFetchRequest, 1, "0000 00000001 0000 7fffffff"),
        (FindCoordinatorRequest, 3, "0100 ffffffff0f"),
        (SaslAuthenticateRequest, 0, "7fffffff"),
        (SaslAuthenticateRequest, 2, "ffffffff0f"),
    ],
)
def test_huge_counts_and_lengths_are_refused_before_memory_is_taken(
    cls: type[Message], version: int, head: str
) -> None:
    encoded = bytes.fromhex(head) + bytes(1000)
    with pytest.raises(Truncated):
        cls.decode(encoded, version)
    tracemalloc.start()
    try:
        with pytest.raises(Truncated):
            cls.decode(encoded, version)
        assert tracemalloc.get_traced_memory()[1] < 64 * 1024
    finally:
        tracemalloc.stop()


def test_elements_of_all_arrays_together_are_limited() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")] * 10)
    encoded = request.encode(1)
    assert codec.decode(MetadataRequest, encoded, 1, max_elements=10) == request
    with pytest.raises(BadLength, match=r"^MetadataRequest\.topics at byte 4: 10 elements exceed"):
        codec.decode(MetadataRequest, encoded, 1, max_elements=9)


def test_nested_arrays_and_tags_count_towards_the_limit() -> None:
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(topics=[OffsetFetchRequestTopic(partition_indexes=[1, 2, 3])] * 2)],
        unknown_tags=((9, b""),),
    )
    encoded = request.encode(8)
    total = 1 + 2 + 2 * 3 + 1
    assert codec.decode(OffsetFetchRequest, encoded, 8, max_elements=total) == request
    with pytest.raises(BadLength, match="limit"):
        codec.decode(OffsetFetchRequest, encoded, 8, max_elements=total - 1)


def test_a_frame_full_of_empty_structs_is_refused_by_the_default_limit() -> None:
    count = codec.MAX_ELEMENTS + 1
    encoded = count.to_bytes(4, "big") + bytes(2 * count)
    tracemalloc.start()
    try:
        with pytest.raises(BadLength, match="limit"):
            MetadataRequest.decode(encoded, 1)
        assert tracemalloc.get_traced_memory()[1] < 64 * 1024
    finally:
        tracemalloc.stop()


def test_time_for_many_unknown_tags_grows_with_their_number_only() -> None:
    def seconds(count: int) -> float:
        request = FindCoordinatorRequest(key="k", unknown_tags=tuple((100 + n, b"") for n in range(count)))
        best = float("inf")
        for _ in range(3):
            started = time.perf_counter()
            encoded = request.encode(3)
            assert FindCoordinatorRequest.decode(encoded, 3) == request
            best = min(best, time.perf_counter() - started)
        return best

    # Sixteen times the tags: about 16 times the time, where quadratic work would take 256 times.
    assert seconds(64_000) < 80 * seconds(4_000)
