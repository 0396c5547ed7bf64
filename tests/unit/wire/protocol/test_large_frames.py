"""Large frames that arrive in pieces are handed over without being copied once more."""

import pytest

from seamark.wire.protocol.frames import FrameParser


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4) + body


@pytest.mark.parametrize("size", [10, (1 << 16) - 4, (1 << 16) - 3, 300_000])
@pytest.mark.parametrize("piece", [5_000, 70_000])
def test_a_frame_is_the_same_however_large_it_is_and_however_it_is_cut(size, piece):
    body = bytes(range(256)) * (size // 256 + 1)
    sent = framed(body[:size]) + framed(b"next")
    parser = FrameParser()
    frames = []
    for start in range(0, len(sent), piece):
        frames += parser.feed(sent[start : start + piece])
    assert frames == [body[:size], b"next"]


def test_a_large_frame_in_pieces_belongs_to_whoever_gets_it():
    body = bytes(200_000)
    sent = framed(body)
    parser = FrameParser()
    assert parser.feed(sent[:100_000]) == []
    [frame] = parser.feed(sent[100_000:])
    assert isinstance(frame, memoryview)
    frame[:3] = b"abc"
    [other] = parser.feed(framed(b"xyz"))
    assert (bytes(frame[:4]), other) == (b"abc\x00", b"xyz")
