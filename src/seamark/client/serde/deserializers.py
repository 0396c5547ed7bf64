"""How keys and values become what users want: ``Consumer(key=…, value=…)``.

A deserializer is named by type (``bytes``, ``str``, ``int``, ``float``), by the word "json", or is any function from
bytes to something. A null key or value stays None and is never handed to it. Whatever it raises becomes
``DeserializationFailed``, which names the record; the position stays on it.

    >>> load_deserializer("value", "json")(b'{"a": 1}'), load_deserializer("key", int)(bytes(7) + b"*")
    ({'a': 1}, 42)
"""

from __future__ import annotations

import json
from collections.abc import Callable
from struct import Struct
from typing import Any

from seamark.client.callback_kinds import refuse_coroutine, refuse_generator
from seamark.errors import UsageError

Deserializer = Callable[[bytes], Any]

_INTEGER_BYTES = (1, 2, 4, 8)
_FLOATS = {4: Struct(">f"), 8: Struct(">d")}


def load_deserializer(part: str, wanted: object) -> Deserializer | None:
    """The function for what the user wrote, or None for bytes as they are; UsageError names the ``part``."""
    if wanted is None or wanted is bytes or wanted == "bytes":
        return None
    named = _NAMED.get(wanted) if isinstance(wanted, type | str) else None
    if named is not None:
        return named
    if callable(wanted):
        refuse_generator(f"the {part} deserializer", wanted)
        refuse_coroutine(f"the {part} deserializer", wanted, "it must be a plain function, its result is not awaited")
        return wanted
    raise UsageError(
        f'{part}={wanted!r}: a deserializer must be bytes, str, int, float, "json", Avro(…) or a function of bytes'
    )


def read_text(content: bytes) -> str:
    return content.decode()


def read_integer(content: bytes) -> int:
    """As Kafka's Short-, Integer- and LongSerializer write it: big-endian in 1, 2, 4 or 8 bytes."""
    if len(content) not in _INTEGER_BYTES:
        raise ValueError(f"an integer must have 1, 2, 4 or 8 bytes, got {len(content)}")
    return int.from_bytes(content, "big", signed=True)


def read_float(content: bytes) -> float:
    form = _FLOATS.get(len(content))
    if form is None:
        raise ValueError(f"a floating-point number must have 4 or 8 bytes, got {len(content)}")
    number: float = form.unpack(content)[0]
    return number


def read_json(content: bytes) -> Any:
    return json.loads(content)


_NAMED: dict[object, Deserializer] = {
    str: read_text,
    "str": read_text,
    int: read_integer,
    "int": read_integer,
    float: read_float,
    "float": read_float,
    "json": read_json,
    dict: read_json,
}
