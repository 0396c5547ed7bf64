"""Frames on the pipe between a handler process and its owner: how one message ends and the next begins.

A handler has the descriptor of the pipe, as it has all others of its process, and may write to it or read from it; and
a process may die in the middle of a message. So a header carries a checksum of itself and one of its content: what
another hand put into the stream is found out before it is believed, and what was cut off is never a message.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from seamark.errors import SeamarkError

# The length and checksum of the content; then the checksum of these two, so that a length is never made up.
_HEADER = struct.Struct("!QI")
_CHECKSUM = struct.Struct("!I")
_HEADER_BYTES = _HEADER.size + _CHECKSUM.size
_FOREIGN = "other code has used the pipe of a handler process"


class BrokenFrame(SeamarkError):
    """What came over the pipe was not written by the other side."""


def framed(content: bytes) -> bytes:
    header = _HEADER.pack(len(content), zlib.crc32(content))
    return b"".join((header, _CHECKSUM.pack(zlib.crc32(header)), content))


class FrameReader:
    """Takes bytes as they come and gives whole messages; bytes behind the last whole one wait for the rest."""

    def __init__(self) -> None:
        self._waiting = bytearray()

    def read(self, received: bytes) -> Iterator[bytes]:
        """The messages that are complete now, then BrokenFrame if nothing behind them can be believed."""
        self._waiting += received
        while (content := self._next()) is not None:
            yield content

    def _next(self) -> bytes | None:
        waiting = self._waiting
        if len(waiting) < _HEADER_BYTES:
            return None
        length, checksum = _HEADER.unpack_from(waiting)
        if _CHECKSUM.unpack_from(waiting, _HEADER.size) != (zlib.crc32(waiting[: _HEADER.size]),):
            raise BrokenFrame(_FOREIGN)
        if len(waiting) < _HEADER_BYTES + length:
            return None
        content = bytes(waiting[_HEADER_BYTES : _HEADER_BYTES + length])
        if zlib.crc32(content) != checksum:
            raise BrokenFrame(_FOREIGN)
        del waiting[: _HEADER_BYTES + length]
        return content
