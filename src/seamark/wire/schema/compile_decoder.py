"""Writes the Python source of a decoder for one message class and version.

Nested structs are written inline, adjacent fixed-width fields (and the length in front of what follows them) are read
by one ``struct`` call, and every read is preceded by a check of what is left, so no generated line runs past ``end``.
Names from the schema reach the source only as Python literals and attribute names of our own classes.
"""

from __future__ import annotations

import struct
from typing import Any

from seamark.errors import BadLength, BadText, BadValue, Truncated
from seamark.wire.schema import primitives
from seamark.wire.schema.structs import Array, Field, Fixed, Kind, Struct, Variable, VersionedStruct

_FAULTS = {
    "BadLength": BadLength,
    "BadText": BadText,
    "BadValue": BadValue,
    "Truncated": Truncated,
    "UnicodeDecodeError": UnicodeDecodeError,
    "bad_length": primitives.bad_length,
    "memoryview": memoryview,
    "new": object.__new__,
    "over_budget": primitives.over_budget,
    "read_varint": primitives.read_unsigned_varint,
    "too_many": primitives.too_many,
    "truncated_fixed": primitives.truncated_fixed,
    "truncated_value": primitives.truncated_value,
    "unpack_from": struct.unpack_from,
}


def decoder_source(cls: type[VersionedStruct], version: int, *, in_steps: bool = False) -> tuple[str, dict[str, Any]]:
    """Source defining ``decode(buffer, position, end, left)``, and the names it uses.

    ``in_steps`` makes it a generator that stops behind each element of each array and behind each tagged field.
    """
    writer = _DecoderWriter(version, flexible=version in cls.flexible, in_steps=in_steps)
    result = writer.struct(cls, cls.__name__)
    if in_steps:
        # Makes a generator of one without arrays, too.
        writer.line("yield")
    writer.line(f"return {result}, pos")
    body = "\n".join(writer.lines)
    return f"def decode(buf, pos, end, left):\n{body}\n", writer.names


def smallest_width(kind: Kind, version: int, *, flexible: bool) -> int:
    """The fewest bytes a value of this kind takes: what bounds an array's count before anything is allocated."""
    if isinstance(kind, Fixed):
        return kind.width
    if isinstance(kind, Variable):
        return 1 if flexible else 2 if kind.name == "string" else 4
    if isinstance(kind, Array):
        return 1 if flexible else 4
    width = 1 if flexible else 0
    for f in kind.fields:
        if version in f.versions and not f.is_tagged(version):
            is_struct = isinstance(f.kind, type)
            if is_struct and version in f.nullable:
                width += 1
            else:
                width += smallest_width(f.kind, version, flexible=flexible and version in f.flexible)
    return max(width, 1)


class _DecoderWriter:
    def __init__(self, version: int, *, flexible: bool, in_steps: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.in_steps = in_steps
        self.lines: list[str] = []
        self.names: dict[str, Any] = dict(_FAULTS)
        self.indent = 1
        self.end = "end"
        self.counter = 0
        # Fixed-width reads that wait to be done by one struct call: (struct code, width, variable, path).
        self.pending: list[tuple[str, int, str, str]] = []

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def variable(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def name_for(self, prefix: str, value: Any) -> str:
        """A global of the generated function that holds ``value``."""
        for name, known in self.names.items():
            if known is value and name.startswith(prefix):
                return name
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def flush(self) -> None:
        """Write the one struct call that reads all pending fixed-width fields."""
        if not self.pending:
            return
        codes = "".join(code for code, _, _, _ in self.pending)
        widths = tuple(width for _, width, _, _ in self.pending)
        total = sum(widths)
        paths = tuple(path for _, _, _, path in self.pending)
        targets = ", ".join(variable for _, _, variable, _ in self.pending)
        unpack = "unpack_" + codes.replace("?", "o")
        self.names.setdefault(unpack, struct.Struct(">" + codes).unpack_from)
        self.line(f"if {self.end} - pos < {total}:")
        self.line(f"    raise truncated_fixed({paths!r}, {widths!r}, pos, {self.end})")
        self.line(f"{targets}{',' if len(widths) == 1 else ''} = {unpack}(buf, pos)")
        self.line(f"pos += {total}")
        self.pending.clear()

    def fixed(self, code: str, width: int, path: str) -> str:
        variable = self.variable("v")
        self.pending.append((code, width, variable, path))
        return variable

    def varint(self, path: str) -> str:
        self.flush()
        variable = self.variable("n")
        self.line(f"if pos >= {self.end}:")
        self.line(f"    raise truncated_value({path!r}, pos, 1, {self.end})")
        self.line(f"{variable} = buf[pos]")
        self.line(f"if {variable} < 128:")
        self.line("    pos += 1")
        self.line("else:")
        self.line(f"    {variable}, pos = read_varint(buf, pos, {self.end}, {path!r})")
        return variable

    def length(self, classic_code: str, path: str, *, compact: bool) -> str:
        """Read a length or count; -1 stands for null in both encodings."""
        if compact:
            variable = self.varint(path)
            self.line(f"{variable} -= 1")
            return variable
        variable = self.fixed(classic_code, 2 if classic_code == "h" else 4, path)
        self.flush()
        return variable

    def value(self, kind: Kind, path: str, *, nullable: bool, compact: bool) -> str:
        """Write the reading of one value; the answer is the variable that holds it (after ``flush``)."""
        if isinstance(kind, Fixed):
            return self.fixed(kind.code, kind.width, path)
        if isinstance(kind, Variable):
            return self.variable_length(kind, path, nullable=nullable, compact=compact)
        if isinstance(kind, Array):
            return self.array(kind, path, nullable=nullable, compact=compact)
        return self.nullable_struct(kind, path) if nullable else self.struct(kind, path)

    def variable_length(self, kind: Variable, path: str, *, nullable: bool, compact: bool) -> str:
        n = self.length("h" if kind.name == "string" else "i", path, compact=compact)
        result, stop = self.variable("s"), self.variable("stop")
        if nullable:
            self.line(f"if {n} == -1:")
            self.line(f"    {result} = None")
            self.line("else:")
            self.indent += 1
        limit = f" or {n} > {primitives.MAX_STRING}" if kind.name == "string" and compact else ""
        self.line(f"if {n} < 0{limit}:")
        self.line(f"    raise bad_length({path!r}, pos, {n})")
        self.line(f"{stop} = pos + {n}")
        self.line(f"if {stop} > {self.end}:")
        self.line(f"    raise truncated_value({path!r}, pos, {n}, {self.end})")
        if kind.name == "string":
            self.line("try:")
            self.line(f"    {result} = str(buf[pos:{stop}], 'utf-8')")
            self.line("except UnicodeDecodeError as error:")
            self.line(f"    raise BadText({path!r}, pos + error.start, 'is not UTF-8') from None")
        elif kind.name == "bytes":
            self.line(f"{result} = bytes(buf[pos:{stop}])")
        else:
            self.line(f"{result} = memoryview(buf)[pos:{stop}]")
        self.line(f"pos = {stop}")
        if nullable:
            self.indent -= 1
        return result

    def array(self, kind: Array, path: str, *, nullable: bool, compact: bool) -> str:
        n = self.length("i", path, compact=compact)
        result = self.variable("a")
        if nullable:
            self.line(f"if {n} == -1:")
            self.line(f"    {result} = None")
            self.line("else:")
            self.indent += 1
        element = kind.element
        width = smallest_width(element, self.version, flexible=self.flexible)
        self.line(f"if {n} < 0 or {n} * {width} > {self.end} - pos:")
        self.line(f"    raise too_many({path!r}, pos, {n}, {width}, {self.end})")
        self.line(f"left -= {n}")
        self.line("if left < 0:")
        self.line(f"    raise over_budget({path!r}, pos, {n})")
        if isinstance(element, Fixed) and element.code != "16s":
            self.line(f"{result} = list(unpack_from('>%d{element.code}' % {n}, buf, pos))")
            self.line(f"pos += {n} * {element.width}")
        else:
            self.line(f"{result} = []")
            add = self.variable("add")
            self.line(f"{add} = {result}.append")
            self.line(f"for _ in range({n}):")
            self.indent += 1
            item = self.value(element, path + "[]", nullable=False, compact=compact)
            self.flush()
            self.line(f"{add}({item})")
            if self.in_steps:
                self.line("yield")
            self.indent -= 1
        if nullable:
            self.indent -= 1
        return result

    def nullable_struct(self, kind: type[Struct], path: str) -> str:
        """A struct behind a byte that is 1, or -1 for null."""
        mark = self.fixed("b", 1, path)
        self.flush()
        result = self.variable("o")
        self.line(f"if {mark} == -1:")
        self.line(f"    {result} = None")
        self.line("else:")
        self.indent += 1
        self.line(f"if {mark} != 1:")
        self.line(f"    raise BadValue({path!r}, pos - 1, 'a struct must be marked by 1 or -1, got %d' % {mark})")
        self.line(f"{result} = {self.struct(kind, path)}")
        self.indent -= 1
        return result

    def struct(self, cls: type[Struct], path: str) -> str:
        variables: dict[str, str] = {}
        tagged: list[Field] = []
        for f in cls.fields:
            if self.version not in f.versions:
                continue
            if f.is_tagged(self.version):
                tagged.append(f)
                continue
            variables[f.name] = self.value(
                f.kind,
                f"{path}.{f.name}",
                nullable=self.version in f.nullable,
                compact=self.flexible and self.version in f.flexible,
            )
        self.flush()
        unknown = "()"
        if self.flexible:
            unknown = self.tags(tagged, variables, path)
        result = self.variable("o")
        self.line(f"{result} = new({self.name_for(cls.__name__ + '_', cls)})")
        for f in cls.fields:
            self.line(f"{result}.{f.name} = {variables.get(f.name) or self.default(f)}")
        self.line(f"{result}.unknown_tags = {unknown}")
        return result

    def default(self, f: Field) -> str:
        if isinstance(f.default, list):
            return "[]"
        if isinstance(f.default, type):
            return f"{self.name_for(f.default.__name__ + '_', f.default)}()"
        return repr(f.default)

    def tags(self, tagged: list[Field], variables: dict[str, str], path: str) -> str:
        """The section of tagged fields at the end of a flexible struct: in ascending order, each tag at most once."""
        path += ".tags"
        unknown = self.variable("unknown")
        for f in tagged:
            variables[f.name] = self.variable("t")
            self.line(f"{variables[f.name]} = {self.default(f)}")
        self.line(f"{unknown} = ()")
        count = self.varint(path)
        self.line(f"if {count}:")
        self.indent += 1
        self.line(f"if {count} * 2 > {self.end} - pos:")
        self.line(f"    raise too_many({path!r}, pos, {count}, 2, {self.end})")
        self.line(f"left -= {count}")
        self.line("if left < 0:")
        self.line(f"    raise over_budget({path!r}, pos, {count})")
        last, stop = self.variable("last"), self.variable("stop")
        kept = self.variable("kept")
        self.line(f"{last} = -1")
        self.line(f"{kept} = []")
        self.line(f"for _ in range({count}):")
        self.indent += 1
        tag = self.varint(path)
        self.line(f"if {tag} <= {last}:")
        self.line(f"    raise BadValue({path!r}, pos, 'tag %d follows tag %d' % ({tag}, {last}))")
        self.line(f"{last} = {tag}")
        size = self.varint(path)
        self.line(f"{stop} = pos + {size}")
        self.line(f"if {stop} > {self.end}:")
        self.line(f"    raise truncated_value({path!r}, pos, {size}, {self.end})")
        outer_end, self.end = self.end, stop
        branch = "if"
        for f in tagged:
            self.line(f"{branch} {tag} == {f.tag}:")
            branch = "elif"
            self.indent += 1
            field_path = f"{path[:-5]}.{f.name}"
            nullable = self.version in f.nullable
            value = self.value(f.kind, field_path, nullable=nullable, compact=self.version in f.flexible)
            self.flush()
            self.line(f"{variables[f.name]} = {value}")
            self.line(f"if pos != {stop}:")
            self.line(f"    raise BadLength({field_path!r}, pos, 'ends %d bytes early' % ({stop} - pos))")
            self.indent -= 1
        if tagged:
            self.line("else:")
            self.indent += 1
        self.line(f"{kept}.append(({tag}, bytes(buf[pos:{stop}])))")
        self.line(f"pos = {stop}")
        if tagged:
            self.indent -= 1
        if self.in_steps:
            self.line("yield")
        self.end = outer_end
        self.indent -= 1
        self.line(f"{unknown} = tuple({kept})")
        self.indent -= 1
        return unknown
