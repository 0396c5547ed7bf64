"""Cuts what a socket delivers into frames with as few copies as the size of the frame deserves.

Small frames are cut out of one scratch buffer that the socket writes into. The rest of a frame that does not fit is
received straight into a buffer of the frame's own, which is handed over without another copy: fetched records, the bulk
of all bytes, are copied once, by the system.

Invariant: no more memory is taken than ``_STEP`` bytes or four times what has really arrived, so an announced length
alone reserves nothing much.
"""

from __future__ import annotations

import struct

from seamark.errors import BadLength

_SCRATCH_BYTES = 16_384
# What is reserved for a frame on the strength of its announced length: a full fetch of four partitions, with what
# stands around their records. A little less would copy each of them into a larger buffer at its very end.
_STEP = 5 << 20
# Answers larger than this are taken for something else than Kafka's protocol: an HTTP or TLS greeting read as a length
# is above it, and fetch.max.bytes is 50 MB by default.
MAX_RESPONSE_BYTES = 256 << 20

_LENGTH = struct.Struct(">i")


class FrameReceiver:
    """Give the socket ``buffer()`` to write into, then say with ``received`` how much it wrote."""

    __slots__ = ("_end", "_filled", "_frame", "_frame_bytes", "_scratch", "_view", "max_frame_bytes")

    def __init__(self, max_frame_bytes: int = MAX_RESPONSE_BYTES) -> None:
        self.max_frame_bytes = max_frame_bytes
        self._scratch = bytearray(_SCRATCH_BYTES)
        self._view = memoryview(self._scratch)
        # How much of the scratch buffer is filled; always begins with a length prefix.
        self._end = 0
        # The frame under way that has a buffer of its own, how much of it has arrived, and its announced size.
        self._frame: bytearray | None = None
        self._filled = 0
        self._frame_bytes = 0

    @property
    def is_idle(self) -> bool:
        """Whether the stream may end here."""
        return self._frame is None and not self._end

    @property
    def first_bytes(self) -> bytes:
        """What has arrived of a frame that is not complete: tells another protocol from a broken one."""
        return bytes(self._scratch[: min(self._end, 16)])

    def buffer(self) -> memoryview:
        if self._frame is not None:
            return memoryview(self._frame)[self._filled :]
        return self._view[self._end :]

    def received(self, count: int) -> list[bytes | memoryview]:
        """The frames completed by ``count`` more bytes; BadLength if one announces an impossible size."""
        if self._frame is not None:
            self._filled += count
            if self._filled == self._frame_bytes:
                done = memoryview(self._frame)[: self._filled].toreadonly()
                self._frame = None
                return [done]
            if self._filled == len(self._frame):
                self._grow()
            return []
        self._end += count
        return self._cut()

    def _cut(self) -> list[bytes | memoryview]:
        frames: list[bytes | memoryview] = []
        position, end = 0, self._end
        while end - position >= 4:
            (length,) = _LENGTH.unpack_from(self._scratch, position)
            if not 0 <= length <= self.max_frame_bytes:
                reason = f"has a length of {length} bytes, allowed are 0 to {self.max_frame_bytes}"
                raise BadLength("frame", position, reason)
            if end - position - 4 < length:
                if length > _SCRATCH_BYTES - 4:
                    self._begin_frame(length, position + 4)
                    position = end
                break
            frames.append(bytes(self._view[position + 4 : position + 4 + length]))
            position += 4 + length
        if position:
            self._scratch[: end - position] = self._scratch[position:end]
        self._end = end - position
        return frames

    def _begin_frame(self, length: int, position: int) -> None:
        frame = bytearray(min(length, _STEP))
        self._filled = self._end - position
        frame[: self._filled] = self._view[position : self._end]
        self._frame = frame
        self._frame_bytes = length

    def _grow(self) -> None:
        assert self._frame is not None
        larger = bytearray(min(self._frame_bytes, 4 * self._filled))
        larger[: self._filled] = self._frame
        self._frame = larger
