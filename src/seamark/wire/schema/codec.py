"""The doors to the compiled codecs: one decoder and one encoder per (message class, version), made on first use.

A decoder never reads past its buffer, never takes memory for more elements than the bytes at hand can hold, and raises
nothing but DecodeError. An encoder raises nothing but EncodeError. Both are pure functions and may be used from any
thread; two threads that meet at a first use compile twice and keep one result.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeVar

from seamark.errors import EncodeError, OutOfRange, TrailingBytes, Truncated, UnknownVersion
from seamark.wire.schema.compile_decoder import decoder_source
from seamark.wire.schema.compile_encoder import encoder_source
from seamark.wire.schema.diagnose import explain
from seamark.wire.schema.structs import VersionedStruct

# What one message may hold in all its arrays together. Kafka has no such limit; without one a 100 MB frame of empty
# structs becomes gigabytes of objects. The largest clusters' metadata stays well below.
MAX_ELEMENTS = 1 << 22

# (buffer, position, end, elements allowed) -> (message, position behind it)
Decoder = Callable[[bytes | memoryview, int, int, int], tuple[Any, int]]
# The same as a generator, which stops behind each element of an array
DecoderInSteps = Callable[[bytes | memoryview, int, int, int], Generator[None, None, tuple[Any, int]]]
# (message, append) -> None: hands the pieces of the encoding to append, in order
Encoder = Callable[[Any, Callable[[bytes], None]], None]
# The same as a generator, which stops behind each element of an array
EncoderInSteps = Callable[[Any, Callable[[bytes], None]], Iterator[None]]

_decoders: dict[tuple[type[VersionedStruct], int], Decoder] = {}
_decoders_in_steps: dict[tuple[type[VersionedStruct], int], DecoderInSteps] = {}
_encoders: dict[tuple[type[VersionedStruct], int], Encoder] = {}
_encoders_in_steps: dict[tuple[type[VersionedStruct], int], EncoderInSteps] = {}

# Stored keys and values have their version in front.
_VERSION = struct.Struct(">h")
VERSION_BYTES = _VERSION.size

M = TypeVar("M", bound=VersionedStruct)


def decode(cls: type[M], buffer: bytes | memoryview, version: int, max_elements: int = MAX_ELEMENTS) -> M:
    """The message that fills ``buffer`` exactly."""
    end = len(buffer)
    message: M
    message, position = decoder(cls, version)(buffer, 0, end, max_elements)
    if position != end:
        raise TrailingBytes(cls.__name__, position, f"{end - position} extra bytes after the message")
    return message


def decode_from(
    cls: type[M], buffer: bytes | memoryview, position: int, version: int, max_elements: int = MAX_ELEMENTS
) -> tuple[M, int]:
    """The message that starts at ``position``, and the position behind it."""
    result: tuple[M, int] = decoder(cls, version)(buffer, position, len(buffer), max_elements)
    return result


def encode(message: VersionedStruct, version: int) -> bytes:
    pieces: list[bytes] = []
    encode_into(message, version, pieces.append)
    return b"".join(pieces)


def encode_into(message: VersionedStruct, version: int, append: Callable[[bytes], None]) -> None:
    """Hand the encoding to ``append`` piece by piece, so that a frame is joined once and not once per layer."""
    cls = type(message)
    run = _encoders.get((cls, version)) or encoder(cls, version)
    try:
        run(message, append)
    except EncodeError:
        raise
    except (struct.error, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise explain(message, version, error) from None


def encode_in_steps(message: VersionedStruct, version: int, append: Callable[[bytes], None]) -> Iterator[None]:
    """As ``encode_into``, a little with each step, for a message that is too long to be written at one go.

    An array may be anything that has a length and gives as many elements, such as ``lazily`` makes.
    """
    cls = type(message)
    run = _encoders_in_steps.get((cls, version))
    if run is None:
        if version not in cls.versions:
            raise OutOfRange(f"{cls.__name__}.version", version, f"is not one of {cls.versions!r}")
        source = encoder_source(cls, version, in_steps=True)
        run = _encoders_in_steps[cls, version] = _build(f"encode_{cls.__name__}_v{version}_in_steps", *source)
    try:
        yield from run(message, append)
    except (struct.error, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise explain(message, version, error) from error


def decoder(cls: type[VersionedStruct], version: int) -> Decoder:
    """The compiled decoder; hot paths keep it instead of asking each time."""
    compiled = _decoders.get((cls, version))
    if compiled is None:
        if version not in cls.versions:
            raise UnknownVersion(cls.__name__, 0, f"version {version} is not one of {cls.versions!r}")
        compiled = _decoders[cls, version] = _build(f"decode_{cls.__name__}_v{version}", *decoder_source(cls, version))
    return compiled


def decode_in_steps(
    cls: type[M], buffer: bytes | memoryview, position: int, version: int, max_elements: int = MAX_ELEMENTS
) -> Generator[None, None, M]:
    """As ``decode_from``, a little with each step, for a message that is too long to be read at one go."""
    compiled = _decoders_in_steps.get((cls, version))
    if compiled is None:
        source = decoder_source(cls, version, in_steps=True)
        compiled = _decoders_in_steps[cls, version] = _build(f"decode_{cls.__name__}_v{version}_in_steps", *source)
    message: M
    message, _ = yield from compiled(buffer, position, len(buffer), max_elements)
    return message


def encoder(cls: type[VersionedStruct], version: int) -> Encoder:
    compiled = _encoders.get((cls, version))
    if compiled is None:
        if version not in cls.versions:
            raise OutOfRange(f"{cls.__name__}.version", version, f"is not one of {cls.versions!r}")
        compiled = _encoders[cls, version] = _build(f"encode_{cls.__name__}_v{version}", *encoder_source(cls, version))
    return compiled


def encode_versioned(message: VersionedStruct, version: int) -> bytes:
    """A stored key or value: the message with its 16-bit version in front."""
    pieces: list[bytes] = []
    # The encoder knows the allowed versions, so it runs before the version is packed.
    encode_into(message, version, pieces.append)
    return _VERSION.pack(version) + b"".join(pieces)


def decode_versioned(cls: type[M], stored: bytes | memoryview) -> tuple[M, int]:
    """The message that fills ``stored`` exactly behind its version, and that version."""
    version = version_of(stored, cls.__name__)
    if version not in cls.versions:
        raise UnknownVersion(f"{cls.__name__}.version", 0, f"version {version} is not one of {cls.versions!r}")
    message, position = decode_from(cls, stored, VERSION_BYTES, version)
    if position != len(stored):
        raise TrailingBytes(cls.__name__, position, f"{len(stored) - position} extra bytes after the message")
    return message, version


def version_of(stored: bytes | memoryview, name: str) -> int:
    """The number in front; ``name`` says in the error what is too short to have one."""
    if len(stored) < VERSION_BYTES:
        raise Truncated(f"{name}.version", 0, f"needs {VERSION_BYTES} bytes, {len(stored)} are left")
    version: int = _VERSION.unpack_from(stored)[0]
    return version


def _build(name: str, source: str, names: dict[str, Any]) -> Any:
    """Run generated source that defines one function; nothing in it comes from outside this package."""
    exec(compile(source, f"<seamark {name}>", "exec"), names)  # noqa: S102
    return names.get("decode") or names["encode"]
