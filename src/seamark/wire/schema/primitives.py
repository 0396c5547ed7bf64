"""Variable-length integers as Kafka's flexible versions use them, and the faults that generated decoders report.

The generated code handles one-byte lengths itself; what is longer, and everything that goes wrong, comes here.
"""

from __future__ import annotations

from collections.abc import Sequence

from seamark.errors import BadLength, DecodeError, Truncated

# Lengths below this are written by table look-up.
SMALL = 2048
# A string's length is a signed 16-bit number in the classic encoding; Kafka keeps that limit in the compact one.
MAX_STRING = 0x7FFF
MAX_VARINT = 0xFFFFFFFF


def encode_unsigned_varint(value: int) -> bytes:
    """Seven bits a byte, lowest first.

    >>> encode_unsigned_varint(300).hex()
    'ac02'
    """
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


SMALL_VARINTS = tuple(encode_unsigned_varint(value) for value in range(SMALL))


def read_unsigned_varint(buffer: bytes | memoryview, position: int, end: int, name: str) -> tuple[int, int]:
    """The number at ``position`` and the position behind it; at most five bytes and 32 bits."""
    start = position
    value = 0
    for shift in (0, 7, 14, 21, 28):
        if position >= end:
            raise Truncated(name, start, "the buffer ends inside a variable-length number")
        byte = buffer[position]
        position += 1
        if shift == 28 and byte > 15:
            break
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
    raise BadLength(name, start, "the variable-length number is longer than five bytes or 32 bits")


def truncated_fixed(names: Sequence[str], widths: Sequence[int], position: int, end: int) -> DecodeError:
    """Which of these adjacent fixed-width fields is the first that does not fit."""
    for name, width in zip(names, widths, strict=True):
        if position + width > end:
            return Truncated(name, position, f"needs {width} bytes, {end - position} are left")
        position += width
    raise AssertionError("all fields fit")


def truncated_value(name: str, position: int, length: int, end: int) -> DecodeError:
    return Truncated(name, position, f"needs {length} bytes, {end - position} are left")


def bad_length(name: str, position: int, length: int) -> DecodeError:
    if length == -1:
        return BadLength(name, position, "must not be null")
    return BadLength(name, position, f"has the invalid length {length}")


def too_many(name: str, position: int, count: int, width: int, end: int) -> DecodeError:
    """An array whose elements cannot be there."""
    if count < 0:
        return bad_length(name, position, count)
    return Truncated(
        name, position, f"{count} elements of at least {width} bytes do not fit into the remaining {end - position}"
    )


def over_budget(name: str, position: int, count: int) -> DecodeError:
    return BadLength(name, position, f"{count} elements exceed the limit per message")
