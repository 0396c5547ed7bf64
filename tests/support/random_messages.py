"""Random values for any message class, driven by its schema: cheap enough for a million of them, unlike hypothesis."""

import random
from typing import Any

from seamark.wire.schema.schema import Array, Fixed, Kind, Message, Struct, Variable

_TEXTS = ("", "a", "orders", "группа", "x" * 200, "consumer-1-5fcb0a6c", "emoji \U0001f40c")


def random_message(cls: type[Message], version: int, rng: random.Random) -> Message:
    message = _random_struct(cls, version, rng, flexible=version in cls.flexible)
    assert isinstance(message, Message)
    return message


def _random_struct(cls: type[Struct], version: int, rng: random.Random, *, flexible: bool) -> Struct:
    values: dict[str, Any] = {}
    for f in cls.fields:
        if version not in f.versions:
            continue
        if version in f.nullable and rng.random() < 0.2:
            values[f.name] = None
        else:
            values[f.name] = _random_value(f.kind, version, rng, flexible=flexible)
    unknown = ()
    if flexible and rng.random() < 0.1:
        unknown = ((9000 + rng.randrange(3), rng.randbytes(rng.randrange(5))),)
    return cls(**values, unknown_tags=unknown)


def _random_value(kind: Kind, version: int, rng: random.Random, *, flexible: bool) -> Any:
    if isinstance(kind, Fixed):
        if kind.code == "?":
            return rng.random() < 0.5
        if kind.code == "16s":
            return rng.randbytes(16)
        if kind.code == "d":
            return rng.random()
        return rng.choice((0, 1, kind.lowest, kind.highest, rng.randint(kind.lowest, kind.highest)))
    if isinstance(kind, Variable):
        return rng.choice(_TEXTS) if kind.name == "string" else rng.randbytes(rng.choice((0, 1, 30, 200)))
    if isinstance(kind, Array):
        return [
            _random_value(kind.element, version, rng, flexible=flexible) for _ in range(rng.choice((0, 1, 1, 2, 3)))
        ]
    return _random_struct(kind, version, rng, flexible=flexible)
