"""Frames: a four-byte length and that many bytes, however the network cuts them up; and whole requests and responses.

``FrameParser`` is fed with whatever arrived and gives the complete frames. The announced length is checked before a
byte of the body is kept, so a peer cannot make it reserve memory by announcing a large frame; and what it holds back is
never more than one incomplete frame.

In front of every request and response stands a header: which API, which version, whose answer this is (A12, A14). It
has versions of its own, fixed by the message behind it. Two rules are Kafka's exceptions: an ApiVersions response
always has header version 0, since the client cannot know yet what the broker speaks, and the client id is never
written compactly, so that any broker can log it. Header version 0 is ControlledShutdown 0 alone.
"""

from __future__ import annotations

import struct
from typing import TypeVar

from seamark.errors import BadLength, TrailingBytes
from seamark.wire.protocol.apis import api
from seamark.wire.schema.codec import MAX_ELEMENTS, decode_from, encode_into
from seamark.wire.schema.schema import Message, field, int16, int32, string

M = TypeVar("M", bound=Message)

# Kafka's socket.request.max.bytes: the largest frame a broker takes by default.
MAX_FRAME_BYTES = 104_857_600

_LENGTH = struct.Struct(">i")
# Copying frames up to here costs less than what a view costs whoever reads it.
_VIEW_ABOVE = 1 << 16

API_VERSIONS = 18
CONTROLLED_SHUTDOWN = 7


class RequestHeader(Message, versions="0-2", flexible="2+"):
    request_api_key: int = field(int16)
    request_api_version: int = field(int16)
    correlation_id: int = field(int32)
    client_id: str | None = field(string, versions="1+", nullable="1+", flexible="none", ignorable=True)


class ResponseHeader(Message, versions="0-1", flexible="1+"):
    correlation_id: int = field(int32)


def request_header_version(request: type[Message], version: int) -> int:
    if version in request.flexible:
        return 2
    return 0 if request.api_key == CONTROLLED_SHUTDOWN and version == 0 else 1


def response_header_version(response: type[Message], version: int) -> int:
    return 1 if version in response.flexible and response.api_key != API_VERSIONS else 0


class FrameParser:
    """Cuts a byte stream into frames (without their length prefix).

    >>> parser = FrameParser()
    >>> parser.feed(bytes.fromhex("00000003616263 000000"))
    [b'abc']
    >>> parser.feed(bytes.fromhex("01 7a"))
    [b'z']
    """

    __slots__ = ("_consumed", "_held", "_wanted", "max_frame_bytes")

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self.max_frame_bytes = max_frame_bytes
        # The frame that has begun and is not complete, with its length prefix. One growing buffer and no list of
        # pieces: a peer that sends single bytes must not cost an object for each.
        self._held = bytearray()
        # Size of the held frame with its prefix; 0 while that is not known.
        self._wanted = 0
        # How much of the stream was fed so far, for error messages.
        self._consumed = 0

    def feed(self, data: bytes | memoryview) -> list[bytes | memoryview]:
        """The frames that ``data`` completes; BadLength if one announces more than the limit or less than nothing.

        A large one that came in pieces is a writable view of bytes that are nobody else's.
        """
        frames: list[bytes | memoryview] = []
        position = self._complete_held(data, frames) if self._held else 0
        end = len(data)
        wanted = 0
        while end - position >= 4:
            wanted = self._size_at(data, position, self._consumed + position)
            if end - position < wanted:
                break
            frames.append(bytes(data[position + 4 : position + wanted]))
            position += wanted
            wanted = 0
        if position < end:
            self._held += data[position:]
            self._wanted = wanted
        self._consumed += end
        return frames

    def _complete_held(self, data: bytes | memoryview, frames: list[bytes | memoryview]) -> int:
        """Give the held frame what it lacks; the answer is the position in ``data`` behind that."""
        held = self._held
        position = 0
        if not self._wanted:
            position = min(4 - len(held), len(data))
            held += data[:position]
            if len(held) < 4:
                return position
            self._wanted = self._size_at(held, 0, self._consumed + position - 4)
        lacking = min(self._wanted - len(held), len(data) - position)
        held += data[position : position + lacking]
        position += lacking
        if len(held) == self._wanted:
            frames.append(memoryview(held)[4:] if self._wanted > _VIEW_ABOVE else bytes(held[4:]))
            self._held = bytearray()
            self._wanted = 0
        return position

    def _size_at(self, data: bytes | bytearray | memoryview, position: int, stream_position: int) -> int:
        (length,) = _LENGTH.unpack_from(data, position)
        if not 0 <= length <= self.max_frame_bytes:
            reason = f"has a length of {length} bytes, allowed are 0 to {self.max_frame_bytes}"
            raise BadLength("frame", stream_position, reason)
        return 4 + int(length)

    @property
    def is_idle(self) -> bool:
        """Whether the stream may end here: no frame has begun."""
        return not self._held


def encode_request(message: Message, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """A request as it goes onto the wire, length prefix included."""
    header = RequestHeader(
        request_api_key=message.api_key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    return _frame(header, request_header_version(type(message), version), message, version)


def encode_response(message: Message, version: int, correlation_id: int) -> bytes:
    """A response as it goes onto the wire, length prefix included."""
    header = ResponseHeader(correlation_id=correlation_id)
    return _frame(header, response_header_version(type(message), version), message, version)


def _frame(header: Message, header_version: int, message: Message, version: int) -> bytes:
    pieces: list[bytes] = [b""]
    encode_into(header, header_version, pieces.append)
    encode_into(message, version, pieces.append)
    pieces[0] = _LENGTH.pack(sum(map(len, pieces)))
    return b"".join(pieces)


def decode_request_header(frame: bytes | memoryview) -> tuple[RequestHeader, int]:
    """The header of a request frame and where its body starts.

    Key and version come first in every header version; they decide how the rest is read.
    """
    header, position = decode_from(RequestHeader, frame, 0, 0)
    wanted = request_header_version(api(header.request_api_key).request, header.request_api_version)
    if wanted > 0:
        header, position = decode_from(RequestHeader, frame, 0, wanted)
    return header, position


def decode_request(frame: bytes | memoryview, max_elements: int = MAX_ELEMENTS) -> tuple[RequestHeader, Message]:
    """A whole request frame; BadValue for an unknown API, UnknownVersion for a version this build does not read."""
    header, position = decode_request_header(frame)
    cls = api(header.request_api_key).request
    message, position = decode_from(cls, frame, position, header.request_api_version, max_elements)
    _must_end(frame, position, cls)
    return header, message


def decode_response(
    cls: type[M], frame: bytes | memoryview, version: int, max_elements: int = MAX_ELEMENTS
) -> tuple[int, M]:
    """The correlation id and the message of a response frame."""
    header, position = decode_from(ResponseHeader, frame, 0, response_header_version(cls, version))
    message, position = decode_from(cls, frame, position, version, max_elements)
    _must_end(frame, position, cls)
    return header.correlation_id, message


def _must_end(frame: bytes | memoryview, position: int, cls: type[Message]) -> None:
    if position != len(frame):
        raise TrailingBytes(cls.__name__, position, f"{len(frame) - position} extra bytes after the message")
