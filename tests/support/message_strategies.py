"""Values for Kafka messages, made from the facts that our own schema states.

``messages`` gives hypothesis strategies that fill every field a version has; ``filled`` gives one fixed value per
message in which every field differs from its default and no array is empty, for tests that walk messages byte by byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st

from seamark.wire.protocol.apis import all_apis
from seamark.wire.schema.schema import Array, Field, Fixed, Kind, Message, Struct, Variable

# Chooses another strategy for a field, or None to leave it as it is.
Narrow = Callable[[Field], "st.SearchStrategy[Any] | None"]

_TAGS = st.dictionaries(st.integers(64, (1 << 32) - 1), st.binary(max_size=6), max_size=3)
UNKNOWN_TAGS = st.just(()) | _TAGS.map(lambda tags: tuple(sorted(tags.items())))


def every_message() -> Iterator[tuple[type[Message], int]]:
    """Every request and response class with each of its versions."""
    for api in all_apis().values():
        for cls in (api.request, api.response):
            for version in cls.versions:
                yield cls, version


def label(cls: type[Message], version: int) -> str:
    return f"{cls.__name__}-v{version}"


EVERY_MESSAGE = [(cls, version) for cls, version in every_message()]
EVERY_LABEL = [label(cls, version) for cls, version in EVERY_MESSAGE]


def messages(
    cls: type[Struct],
    version: int,
    *,
    flexible: bool,
    narrow: Narrow = lambda _: None,
    unknown_tags: bool = False,
) -> st.SearchStrategy[Any]:
    """Instances of ``cls`` that ``version`` can carry; fields it lacks keep their defaults."""
    names = []
    strategies = []
    for f in cls.fields:
        if version not in f.versions:
            continue
        narrowed = narrow(f)
        if narrowed is None:
            narrowed = _of_kind(f.kind, version, flexible=flexible, narrow=narrow, unknown_tags=unknown_tags)
            if version in f.nullable:
                narrowed = st.none() | narrowed
        if f.is_tagged(version) and not isinstance(f.default, type):
            # A tagged field at its default must be left out, so that has to happen often.
            narrowed = st.builds(_default_of, st.just(f)) | narrowed
        names.append(f.name)
        strategies.append(narrowed)
    if flexible and unknown_tags:
        names.append("unknown_tags")
        strategies.append(UNKNOWN_TAGS)
    return st.tuples(*strategies).map(lambda values: cls(**dict(zip(names, values, strict=True))))


def _default_of(f: Field) -> Any:
    return [] if isinstance(f.default, list) else f.default


def _of_kind(kind: Kind, version: int, *, flexible: bool, narrow: Narrow, unknown_tags: bool) -> st.SearchStrategy[Any]:
    if isinstance(kind, Fixed):
        if kind.code == "?":
            return st.booleans()
        if kind.code == "16s":
            return st.binary(min_size=16, max_size=16)
        return st.integers(kind.lowest, kind.highest)
    if isinstance(kind, Variable):
        return st.text(max_size=8) if kind.name == "string" else st.binary(max_size=8)
    if isinstance(kind, Array):
        element = _of_kind(kind.element, version, flexible=flexible, narrow=narrow, unknown_tags=unknown_tags)
        return st.lists(element, max_size=2)
    return messages(kind, version, flexible=flexible, narrow=narrow, unknown_tags=unknown_tags)


def filled(cls: type[Struct], version: int) -> Any:
    """The same value each time, with nothing null, empty or at its default."""
    return cls(**{f.name: _filled_kind(f.kind, version, f) for f in cls.fields if version in f.versions})


def _filled_kind(kind: Kind, version: int, f: Field) -> Any:
    if isinstance(kind, Fixed):
        return {"?": not f.default, "16s": bytes(range(1, 17))}.get(kind.code, 101)
    if isinstance(kind, Variable):
        return f"{f.name} ☃" if kind.name == "string" else b"\x01bytes\xff"
    if isinstance(kind, Array):
        return [_filled_kind(kind.element, version, f)] * 2
    return filled(kind, version)
