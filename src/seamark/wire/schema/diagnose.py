"""Finds the field that made an encoder fail.

Only runs when an encoding has failed already: it walks the message by its schema, in the order of the encoding, and
names the first value that the version cannot carry.
"""

from __future__ import annotations

from typing import Any

from seamark.errors import EncodeError, NotNullable, OutOfRange
from seamark.wire.schema.structs import Array, Field, Fixed, Kind, Variable, VersionedStruct


def explain(message: VersionedStruct, version: int, error: Exception) -> EncodeError:
    """The error for the first bad field; ``error`` is what the encoder stumbled over."""
    fault = _in_struct(message, version, type(message).__name__)
    return fault or EncodeError(type(message).__name__, message, f"cannot be encoded: {error}")


def _in_struct(item: Any, version: int, path: str) -> EncodeError | None:
    for f in item.fields:
        if version not in f.versions:
            continue
        try:
            value = getattr(item, f.name)
        except AttributeError:
            return OutOfRange(f"{path}.{f.name}", None, "was never set")
        if fault := _in_field(f, value, version, f"{path}.{f.name}"):
            return fault
    return None


def _in_field(f: Field, value: Any, version: int, path: str) -> EncodeError | None:
    if value is None:
        return (
            None if version in f.nullable else NotNullable(path, value, f"version {version} does not allow null here")
        )
    return _in_value(f.kind, value, version, path)


def _in_value(kind: Kind, value: Any, version: int, path: str) -> EncodeError | None:
    if isinstance(kind, Fixed):
        return _in_fixed(kind, value, path)
    if isinstance(kind, Variable):
        return _in_variable(kind, value, path)
    if isinstance(kind, Array):
        if not isinstance(value, list | tuple):
            return OutOfRange(path, value, "must be a list")
        for position, element in enumerate(value):
            if element is None:
                return NotNullable(f"{path}[{position}]", element, "an element must not be null")
            if fault := _in_value(kind.element, element, version, f"{path}[{position}]"):
                return fault
        return None
    if not isinstance(value, kind):
        return OutOfRange(path, value, f"is not a {kind.__name__}")
    return _in_struct(value, version, path)


def _in_fixed(kind: Fixed, value: Any, path: str) -> EncodeError | None:
    if kind.code == "16s":
        good = isinstance(value, bytes | bytearray) and len(value) == 16
        return None if good else OutOfRange(path, value, "an id must have 16 bytes")
    if kind.code == "d":
        return None if isinstance(value, float | int) else OutOfRange(path, value, "must be a number")
    if kind.code == "?":
        return None if isinstance(value, bool) else OutOfRange(path, value, "must be true or false")
    if not hasattr(value, "__index__"):
        return OutOfRange(path, value, "must be an integer")
    if not kind.lowest <= value <= kind.highest:
        return OutOfRange(path, value, f"does not fit into {kind.name} ({kind.lowest} to {kind.highest})")
    return None


def _in_variable(kind: Variable, value: Any, path: str) -> EncodeError | None:
    if kind.name != "string":
        good = isinstance(value, bytes | bytearray | memoryview)
        return None if good else OutOfRange(path, value, "must be bytes")
    if not isinstance(value, str):
        return OutOfRange(path, value, "must be a string")
    try:
        value.encode()
    except UnicodeEncodeError:
        return OutOfRange(path, value, "cannot be encoded as UTF-8")
    return None
