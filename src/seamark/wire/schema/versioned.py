"""Stored keys and values: a message with its 16-bit version in front, filling its bytes exactly."""

from __future__ import annotations

import struct
from typing import TypeVar

from seamark.errors import TrailingBytes, Truncated, UnknownVersion
from seamark.wire.schema.codec import decode_from, encode_into
from seamark.wire.schema.schema import Message

_VERSION = struct.Struct(">h")
VERSION_BYTES = _VERSION.size

M = TypeVar("M", bound=Message)


def encode_versioned(message: Message, version: int) -> bytes:
    pieces: list[bytes] = []
    # The encoder knows the allowed versions, so it runs before the version is packed.
    encode_into(message, version, pieces.append)
    return _VERSION.pack(version) + b"".join(pieces)


def decode_versioned(cls: type[M], stored: bytes | memoryview) -> tuple[M, int]:
    """The message in ``stored``, and the version it has."""
    version = version_of(stored, cls.__name__)
    if version not in cls.versions:
        raise UnknownVersion(f"{cls.__name__}.version", 0, f"version {version} is not one of {cls.versions!r}")
    message, position = decode_from(cls, stored, VERSION_BYTES, version)
    if position != len(stored):
        raise TrailingBytes(cls.__name__, position, f"{len(stored) - position} bytes are left over behind the message")
    return message, version


def version_of(stored: bytes | memoryview, name: str) -> int:
    """The number in front; ``name`` says in the error what is too short to have one."""
    if len(stored) < VERSION_BYTES:
        raise Truncated(f"{name}.version", 0, f"needs {VERSION_BYTES} bytes, {len(stored)} are left")
    version: int = _VERSION.unpack_from(stored)[0]
    return version
