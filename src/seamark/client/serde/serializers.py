r"""How keys and values become bytes: ``Producer(key=…, value=…)``, the counterpart of ``deserializers``.

>>> load_serializer("value", "json")({"a": 1}), load_serializer("key", int)(42)
(b'{"a":1}', b'\x00\x00\x00\x00\x00\x00\x00*')
"""

from __future__ import annotations

import json
from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple

from seamark.client.callback_kinds import refuse_coroutine, refuse_generator
from seamark.client.errors import ClientError
from seamark.errors import UsageError


class ByTopic(NamedTuple):
    """A serializer that must know the topic, such as one whose schemas are registered by topic."""

    write: Callable[[str, Any], bytes]


Serializer = Callable[[Any], bytes] | ByTopic

_LONG = Struct(">q")
_DOUBLE = Struct(">d")


def load_serializer(part: str, wanted: object) -> Serializer | None:
    """The function for what the user wrote, or None for bytes as they are."""
    if wanted is None or wanted is bytes or wanted == "bytes":
        return None
    named = _NAMED.get(wanted) if isinstance(wanted, type | str) else None
    if named is not None:
        return named
    if callable(by_topic := getattr(wanted, "serializer", None)):
        made: ByTopic = by_topic(part)
        return made
    if callable(wanted):
        refuse_generator(f"the {part} serializer", wanted)
        refuse_coroutine(f"the {part} serializer", wanted, "it must be a plain function, its result is not awaited")
        return wanted
    raise UsageError(
        f'{part}={wanted!r}: a serializer must be bytes, str, int, float, "json", Avro(…) or a function that '
        "returns bytes"
    )


def to_bytes(part: str, content: Any, serializer: Serializer | None, topic: str) -> bytes | None:
    """The bytes of a key or value; None stays None. UsageError names the part and topic."""
    if content is None:
        return None
    if serializer is not None:
        try:
            content = serializer.write(topic, content) if isinstance(serializer, ByTopic) else serializer(content)
        except ClientError:
            # Not the content's fault: a schema registry that does not answer.
            raise
        except Exception as error:
            raise UsageError(
                f"the {part} of a record for topic {topic!r} cannot be serialized: {type(error).__name__}: {error}"
            ) from error
    if type(content) is bytes:
        return content
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    raise UsageError(
        f"the {part} of a record for topic {topic!r} is {type(content).__name__}, not bytes: pass a serializer as "
        f"Producer({part}=…)"
    )


def _write_json(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


_NAMED: dict[object, Serializer] = {
    str: str.encode,
    "str": str.encode,
    int: _LONG.pack,
    "int": _LONG.pack,
    float: _DOUBLE.pack,
    "float": _DOUBLE.pack,
    "json": _write_json,
    dict: _write_json,
}
