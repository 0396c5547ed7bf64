"""Frames: any cut of the stream gives the same frames, and a length that cannot be is refused at once."""

import random
import tracemalloc

import pytest

from seamark.errors import BadLength, BadValue, TrailingBytes, Truncated, UnknownVersion
from seamark.wire.protocol.frames import (
    FrameParser,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from seamark.wire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from seamark.wire.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from seamark.wire.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


def test_any_cut_of_the_stream_gives_the_same_frames():
    bodies = [b"", b"a", b"bc" * 40, b"", b"d" * 1000, b"\0\0\0\1"]
    stream = framed(*bodies)
    for seed in range(300):
        rng = random.Random(seed)
        parser, frames, position = FrameParser(), [], 0
        while position < len(stream):
            step = rng.choice((1, 2, 3, 4, 5, 17, 300))
            frames += parser.feed(stream[position : position + step])
            position += step
        assert frames == bodies
        assert parser.is_idle


def test_a_memoryview_is_fed_like_bytes():
    assert FrameParser().feed(memoryview(framed(b"abc"))) == [b"abc"]


def test_a_stream_that_ends_inside_a_frame_is_not_idle():
    parser = FrameParser()
    assert parser.feed(framed(b"abc")[:5]) == []
    assert not parser.is_idle


@pytest.mark.parametrize("length", [-1, -(2**31), 2**31 - 1, 1001])
def test_an_impossible_length_is_refused_before_the_body_arrives(length):
    with pytest.raises(BadLength) as caught:
        FrameParser(max_frame_bytes=1000).feed(length.to_bytes(4, "big", signed=True))
    assert (caught.value.field, caught.value.position) == ("frame", 0)


@pytest.mark.parametrize("cut", [0, 1, 2, 3])
def test_the_position_of_a_bad_length_counts_from_the_start_of_the_stream(cut):
    parser = FrameParser(max_frame_bytes=1000)
    stream = framed(b"abc") + (5000).to_bytes(4, "big")
    assert parser.feed(stream[: 7 + cut]) == [b"abc"]
    with pytest.raises(BadLength) as caught:
        parser.feed(stream[7 + cut :])
    assert caught.value.position == 7


def test_a_frame_fed_byte_by_byte_costs_its_size_and_no_object_per_byte():
    parser = FrameParser()
    parser.feed((200_000).to_bytes(4, "big"))
    tracemalloc.start()
    try:
        for _ in range(199_999):
            parser.feed(b"x")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_a_request_carries_key_version_correlation_id_and_client_id():  # covers: A12, A14
    frame = encode_request(OffsetCommitRequest(group_id="demoGroup"), 7, 0, "demoClientId")
    assert frame[:4] == (len(frame) - 4).to_bytes(4, "big")
    header, message = decode_request(frame[4:])
    assert (header.request_api_key, header.request_api_version, header.correlation_id) == (8, 7, 0)
    assert header.client_id == "demoClientId"
    assert message == OffsetCommitRequest(group_id="demoGroup")
    assert frame[4:26].hex() == "0008000700000000000c64656d6f436c69656e744964"


def test_a_flexible_request_header_keeps_the_client_id_in_the_classic_form():
    frame = encode_request(OffsetCommitRequest(group_id="g"), 8, 3, "me")
    assert frame[4:17].hex() == "000800080000000300026d6500"


def test_the_first_controlled_shutdown_has_no_client_id():
    frame = encode_request(ControlledShutdownRequest(broker_id=5), 0, 9, "unsaid")
    assert frame[4:].hex() == "000700000000000900000005"
    assert decode_request(frame[4:])[1] == ControlledShutdownRequest(broker_id=5)


def test_an_api_versions_response_has_the_oldest_header_in_every_version():
    frame = encode_response(ApiVersionsResponse(), 3, 77)
    assert frame[4:8] == (77).to_bytes(4, "big")
    assert decode_response(ApiVersionsResponse, frame[4:], 3) == (77, ApiVersionsResponse())
    assert len(encode_response(OffsetCommitResponse(), 8, 77)) == len(OffsetCommitResponse().encode(8)) + 4 + 5


def test_an_unknown_api_an_unknown_version_and_a_short_header_are_told_apart():
    with pytest.raises(BadValue, match="no API with key 999"):
        decode_request((999).to_bytes(2, "big") + bytes(6))
    good = encode_request(ApiVersionsRequest(), 3, 1, None)[4:]
    with pytest.raises(UnknownVersion):
        decode_request(good[:2] + (99).to_bytes(2, "big") + good[4:])
    with pytest.raises(Truncated):
        decode_request_header(good[:5])
    with pytest.raises(TrailingBytes):
        decode_request(good + b"\0")
