"""Zigzag varints as record batches use them: seven bits a byte, low bits first, the sign in the lowest bit.

A varint carries an int32 in at most five bytes, a varlong an int64 in at most ten. More bytes, or bits beyond the
type, are refused; padding inside that size is accepted, because Kafka's own reader accepts it. The readers take an
``end`` that they never read past, and the name of the field for the error. Compact lengths of messages are another
encoding (unsigned) and live with the messages.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from seamark.errors import BadLength, Truncated

if TYPE_CHECKING:
    from seamark.wire.records.compression import Unfolded

VARINT_MAX_BYTES = 5
VARLONG_MAX_BYTES = 10


def _read(buffer: Unfolded, position: int, end: int, field: str, max_bytes: int, bits: int) -> tuple[int, int]:
    raw = 0
    limit = min(end, position + max_bytes)
    for index in range(position, limit):
        byte = buffer[index]
        raw |= (byte & 0x7F) << 7 * (index - position)
        if byte < 0x80:
            if raw >> bits:
                raise BadLength(field, position, f"the varint has more than {bits} bits")
            return (raw >> 1) ^ -(raw & 1), index + 1
    if limit == end and end - position < max_bytes:
        raise Truncated(field, position, "the bytes end inside a varint")
    raise BadLength(field, position, f"the varint is longer than {max_bytes} bytes")


def read_varint(buffer: Unfolded, position: int, end: int, field: str) -> tuple[int, int]:
    """Return the int32 at ``position`` and the position behind it."""
    return _read(buffer, position, end, field, VARINT_MAX_BYTES, 32)


def read_varlong(buffer: Unfolded, position: int, end: int, field: str) -> tuple[int, int]:
    """Return the int64 at ``position`` and the position behind it."""
    return _read(buffer, position, end, field, VARLONG_MAX_BYTES, 64)


def encode_varint(value: int) -> bytes:
    r"""Return ``value`` as the shortest varint; the caller has checked its range.

    >>> encode_varint(-1), encode_varint(300)
    (b'\x01', b'\xd8\x04')
    """
    raw = value << 1 if value >= 0 else (-value << 1) - 1
    if raw < 0x80:
        return bytes((raw,))
    encoded = bytearray()
    while raw > 0x7F:
        encoded.append(raw & 0x7F | 0x80)
        raw >>= 7
    encoded.append(raw)
    return bytes(encoded)


@cache
def small_varints() -> tuple[bytes, ...]:
    """The encodings of 0 to 2047: nearly every length and delta of a batch, looked up instead of computed."""
    return tuple(encode_varint(value) for value in range(2048))
