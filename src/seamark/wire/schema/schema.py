"""How a message is described: one class for all its versions, with the version facts on the fields.

A message class reads like Kafka's own protocol tables::

    class Topic(Struct):
        name: str = field(string)
        partitions: list[int] = field(array(int32))

    class ExampleRequest(Message, api_key=99, versions="0-3", flexible="2+"):
        group_id: str = field(string)
        instance_id: str | None = field(string, versions="1+", nullable="1+", default=None)
        topics: list[Topic] = field(array(Topic))

Declaring a class compiles nothing. ``codec`` turns a (class, version) pair into straight-line Python on
first use, and so does the constructor. Instances are plain slotted objects.

Rules, as Kafka's: a field that a version does not have decodes to its default; writing a version that lacks a field
whose value is not the default is an error unless the field is ``ignorable``; a tagged field at its default is not
written; unknown tagged fields are kept in ``unknown_tags`` and written back.
"""

from __future__ import annotations

from typing import Self

from seamark.wire.schema.codec import decode, encode
from seamark.wire.schema.structs import (
    ZERO_UUID,
    Array,
    Field,
    Fixed,
    Kind,
    Struct,
    Variable,
    VersionedStruct,
    Versions,
    array,
    boolean,
    bytes_,
    field,
    float64,
    int8,
    int16,
    int32,
    int64,
    records,
    string,
    uint16,
    uint32,
    uuid,
)

__all__ = [
    "ZERO_UUID",
    "Array",
    "Field",
    "Fixed",
    "Kind",
    "Message",
    "Struct",
    "Variable",
    "Versions",
    "array",
    "boolean",
    "bytes_",
    "field",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "records",
    "string",
    "uint16",
    "uint32",
    "uuid",
]


class Message(VersionedStruct):
    """A request, a response, a header, or a stored key or value."""

    def encode(self, version: int) -> bytes:
        """These values as the bytes of that version; EncodeError names the field that does not fit."""
        return encode(self, version)

    @classmethod
    def decode(cls, buffer: bytes | memoryview, version: int) -> Self:
        """The message that fills ``buffer`` exactly; DecodeError says which field is wrong, and where."""
        return decode(cls, buffer, version)
