"""What a schema and a datum may ask of a reader, since both come from strangers.

fastavro reads what it is told to, and its compiled reader has no limit of depth: a few thousand levels down the stack
ends, and with it the process. A datum of a schema that refers to itself can be nested as deeply as it has bytes. Values
that take no bytes can be there in any number: an array announces how many, and records that hold each other twice
double them with every level. Schemas that make this possible without data are refused; data of schemas that refer to
themselves are walked through once before they are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

# Levels of JSON in a schema's text: parsing it goes as deep as the text does.
DEEPEST_SCHEMA = 200
# Levels of unions, records, arrays and maps in a datum: each takes a reader about a kilobyte of stack.
DEEPEST_DATUM = 1000
# Values in a record, with the records in it, that take no bytes of the datum.
MOST_FREE_VALUES = 100
_RECORDS = ("record", "error", "request")
_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_DONE = object()


class UnsafeSchema(ValueError):
    """By this schema a few bytes could become any number of values, or end the process."""


class TooDeep(ValueError):
    """The datum is nested more deeply than a reader can follow."""


class _Facts(NamedTuple):
    """The least bytes of a datum, its values that take none, and how deep it goes where no schema refers to itself."""

    least: int
    free: int
    depth: int


# What a record counts for while those that it holds are looked at.
_OPEN = _Facts(1, 0, 0)


def check_depth(schema: Any) -> None:
    """Raise UnsafeSchema for a schema, as JSON has it, that is nested too deeply to be parsed."""
    level = [schema]
    for _ in range(DEEPEST_SCHEMA):
        level = [below for outer in level for below in _below(outer)]
        if not level:
            return
    raise UnsafeSchema(f"it is nested more than {DEEPEST_SCHEMA} levels deep")


def _below(part: Any) -> list[Any]:
    if isinstance(part, dict):
        return list(part.values())
    return part if isinstance(part, list) else []


class Bounds:
    """Of one parsed schema; making it raises UnsafeSchema where no datum could be read safely.

    ``named`` has the schemas that names in it stand for, all records among them.
    """

    def __init__(self, schema: Any, named: Mapping[str, Any]) -> None:
        self._schema = schema
        self._named = named
        self._facts: dict[str, _Facts] = {}
        self.is_recursive = self._look_at_records()
        depth = max([self._of(schema).depth, *(facts.depth for facts in self._facts.values())])
        if not self.is_recursive and depth > DEEPEST_DATUM:
            raise UnsafeSchema(f"its records are nested more than {DEEPEST_DATUM} levels deep")

    def check(self, content: bytes, start: int) -> None:
        """Raise TooDeep for a datum, from ``start`` on, that is nested too deeply; other damage is the reader's.

        Needed only where ``is_recursive``: else the schema itself says how deep data are.
        """
        walk = _Walk(content, start, self._named)
        open_parts: list[Iterator[Any]] = [iter((self._schema,))]
        while open_parts and not walk.is_cut:
            part = next(open_parts[-1], _DONE)
            if part is _DONE:
                open_parts.pop()
            elif len(open_parts) > DEEPEST_DATUM:
                raise TooDeep(f"the datum is nested more than {DEEPEST_DATUM} levels deep")
            else:
                open_parts.append(walk.parts(part))

    def _look_at_records(self) -> bool:
        """Find the facts of every record, after those of the records that it holds; whether any holds itself."""
        is_recursive = False
        for name in self._named:
            path = [(name, iter(self._held(self._named[name])))] if name not in self._facts else []
            open_names = {name}
            while path:
                current, held = path[-1]
                below = next(held, None)
                if below is None:
                    path.pop()
                    open_names.discard(current)
                    self._facts[current] = self._of_record(current)
                elif below in open_names:
                    is_recursive = True
                elif below not in self._facts:
                    open_names.add(below)
                    path.append((below, iter(self._held(self._named[below]))))
        return is_recursive

    def _held(self, schema: Any) -> set[str]:
        """The names that stand in a named schema, not those in the ones that it names."""
        names: set[str] = set()
        left = [field["type"] for field in schema.get("fields", ())]
        while left:
            part = left.pop()
            if isinstance(part, list):
                left += part
            elif isinstance(part, str):
                names.update({part} & self._named.keys())
            elif part.get("name") in self._named:
                names.add(part["name"])
            else:
                left += [part[key] for key in ("type", "items", "values") if key in part]
        return names

    def _of_record(self, name: str) -> _Facts:
        schema = self._named[name]
        if schema["type"] not in _RECORDS:
            return _Facts(int(schema["size"]) if schema["type"] == "fixed" else 1, 0, 1)
        fields = [self._of(field["type"]) for field in schema.get("fields", ())]
        least = sum(facts.least for facts in fields)
        free = sum(facts.free for facts in fields) + (least == 0)
        if free > MOST_FREE_VALUES:
            raise UnsafeSchema(
                f"record {name[:100]!r} has {free} values that take no bytes, allowed are {MOST_FREE_VALUES}"
            )
        return _Facts(least, free, 1 + max((facts.depth for facts in fields), default=0))

    def _of(self, schema: Any) -> _Facts:
        kind, schema = _kind(schema, self._named)
        if isinstance(kind, list):
            return _Facts(1, 0, 1 + max((self._of(branch).depth for branch in kind), default=0))
        if isinstance(schema, dict) and schema.get("name") in self._named:
            return self._facts.get(schema["name"], _OPEN)
        if kind in ("array", "map"):
            inner = self._of(schema["items" if kind == "array" else "values"])
            if kind == "array" and inner.least == 0:
                raise UnsafeSchema(
                    "it has an array whose items take no bytes, so a datum could contain any number of them"
                )
            return _Facts(1, 0, 1 + inner.depth)
        least = _SIZES.get(kind, 1)
        return _Facts(least, int(least == 0), 1)


def _kind(schema: Any, named: Mapping[str, Any]) -> tuple[Any, Any]:
    """The kind of a schema, a list for a union, and the schema itself without names that stand for it."""
    while True:
        if isinstance(schema, list):
            return schema, schema
        if isinstance(schema, str):
            if schema not in named:
                return schema, schema
            schema = named[schema]
        elif isinstance(schema["type"], str) and schema["type"] not in named:
            return schema["type"], schema
        else:
            schema = schema["type"]


class _Walk:
    """Goes over a datum without keeping anything; at its end, wherever that comes, ``is_cut`` is true."""

    def __init__(self, content: bytes, start: int, named: Mapping[str, Any]) -> None:
        self._content = content
        self._at = start
        self._named = named
        self.is_cut = False

    def parts(self, schema: Any) -> Iterator[Any]:
        """The schemas of what a datum of this one holds, each when it is to be walked over."""
        kind, schema = _kind(schema, self._named)
        if isinstance(kind, list):
            number = self._long()
            if 0 <= number < len(kind):
                yield kind[number]
            else:
                self.is_cut = True
        elif kind == "array":
            for _ in self._items():
                yield schema["items"]
        elif kind == "map":
            for _ in self._items():
                self._skip(self._long())
                yield schema["values"]
        elif kind in _RECORDS:
            for field in schema.get("fields", ()):
                yield field["type"]
        elif kind in ("int", "long", "enum"):
            self._long()
        elif kind in ("bytes", "string"):
            self._skip(self._long())
        else:
            self._skip(int(schema["size"]) if kind == "fixed" else _SIZES.get(kind, 0))

    def _items(self) -> Iterator[None]:
        while not self.is_cut and (count := self._long()):
            if count < 0:
                count = -count
                # The size of the block in bytes, for those who do not want to read it.
                self._long()
            while count and not self.is_cut:
                count -= 1
                yield

    def _skip(self, size: int) -> None:
        self._at += max(size, 0)
        self.is_cut = self.is_cut or size < 0 or self._at > len(self._content)

    def _long(self) -> int:
        number = shift = 0
        while not self.is_cut:
            if self._at >= len(self._content) or shift > 63:
                self.is_cut = True
                break
            byte = self._content[self._at]
            self._at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)
        return 0
