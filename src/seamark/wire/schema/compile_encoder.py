"""Writes the Python source of an encoder for one message class and version.

The mirror of ``compile_decoder``: nested structs inline, adjacent fixed-width fields and the length behind them in one
``struct`` call. The generated code does not look for wrong values: ``struct`` and Python refuse them, and
``diagnose`` then finds out which field it was, so that good messages pay nothing for the search.
"""

from __future__ import annotations

import struct
from typing import Any

from seamark.errors import OutOfRange
from seamark.wire.schema import primitives
from seamark.wire.schema.structs import Array, Field, Fixed, Kind, Struct, StructMeta, Variable, VersionedStruct


def encoder_source(cls: type[VersionedStruct], version: int, *, in_steps: bool = False) -> tuple[str, dict[str, Any]]:
    """Source defining ``encode(message, append)``, and the names it uses.

    ``in_steps`` makes it a generator that stops behind each element of each array that is written in a loop.
    """
    writer = _EncoderWriter(version, flexible=version in cls.flexible, in_steps=in_steps)
    writer.struct(cls, "message", cls.__name__)
    writer.flush()
    if in_steps:
        # Makes a generator of one without arrays, too.
        writer.line("yield")
    body = "\n".join(writer.lines) or "    pass"
    return f"def encode(message, append):\n{body}\n", writer.names


def lacks_value(f: Field, expression: str) -> str:
    """A condition in Python: the field holds its default, so a version without it loses nothing."""
    if isinstance(f.default, list):
        # Null is a value of its own, not an empty list.
        return f"{expression} is not None and not {expression}"
    if f.default is None:
        return f"{expression} is None"
    if isinstance(f.default, StructMeta):
        # Written out: comparing with a fresh instance would cost more than writing the struct.
        parts = [f"({lacks_value(inner, f'{expression}.{inner.name}')})" for inner in f.default.fields]
        return " and ".join([*parts, f"not {expression}.unknown_tags"])
    return f"{expression} == {f.default!r}"


def _wrong_width(path: str, value: Any) -> OutOfRange:
    return OutOfRange(path, value, "an id must have 16 bytes")


def _not_in_version(path: str, value: Any, version: int) -> OutOfRange:
    return OutOfRange(path, value, f"version {version} does not have this field")


def _checked_tags(path: str, tags: Any, known: tuple[int, ...]) -> list[tuple[int, bytes]]:
    """The unknown tagged fields of a struct, which must not repeat a tag or stand in for a known one."""
    seen = set(known)
    for tag, content in tags:
        if tag in seen or not 0 <= tag <= primitives.MAX_VARINT or not isinstance(content, bytes):
            raise OutOfRange(f"{path}.unknown_tags", (tag, content), "is not a valid new tag with its bytes")
        seen.add(tag)
    return list(tags)


def _too_long(path: str, value: Any) -> OutOfRange:
    return OutOfRange(path, value, f"is longer than {primitives.MAX_STRING} bytes")


_NAMES = {
    "BYTES": (bytes, bytearray, memoryview),
    "SMALL": primitives.SMALL,
    "VARINT": primitives.SMALL_VARINTS,
    "checked_tags": _checked_tags,
    "not_in_version": _not_in_version,
    "pack": struct.pack,
    "too_long": _too_long,
    "varint": primitives.encode_unsigned_varint,
    "wrong_width": _wrong_width,
}

# "?" would write None as false; "b" takes True and False only as the numbers they are, and refuses what is none.
_PACK_CODES = {"?": "b"}


class _EncoderWriter:
    def __init__(self, version: int, *, flexible: bool, in_steps: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.in_steps = in_steps
        self.lines: list[str] = []
        self.names: dict[str, Any] = dict(_NAMES)
        self.indent = 1
        self.counter = 0
        # Fixed-width values that wait to be written by one struct call: (struct code, expression).
        self.pending: list[tuple[str, str]] = []
        self.append = "append"

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def variable(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def flush(self) -> None:
        if not self.pending:
            return
        codes = "".join(code for code, _ in self.pending)
        name = f"pack_{codes}"
        self.names.setdefault(name, struct.Struct(">" + codes).pack)
        self.line(f"{self.append}({name}({', '.join(expression for _, expression in self.pending)}))")
        self.pending.clear()

    def varint(self, expression: str) -> None:
        """``expression`` is a variable: it is looked at twice."""
        self.flush()
        self.line(f"{self.append}(VARINT[{expression}] if {expression} < SMALL else varint({expression}))")

    def length(self, variable: str, classic_code: str, *, compact: bool) -> None:
        """Write the length held by ``variable``, where -1 stands for null."""
        if compact:
            self.line(f"{variable} += 1")
            self.varint(variable)
        else:
            self.pending.append((classic_code, variable))

    def value(self, kind: Kind, expression: str, path: str, *, nullable: bool, compact: bool) -> None:
        if isinstance(kind, Fixed):
            if kind.code == "16s":
                self.line(f"if len({expression}) != 16:")
                self.line(f"    raise wrong_width({path!r}, {expression})")
            self.pending.append((_PACK_CODES.get(kind.code, kind.code), expression))
        elif isinstance(kind, Variable):
            self.variable_length(kind, expression, path, nullable=nullable, compact=compact)
        elif isinstance(kind, Array):
            self.array(kind, expression, path, nullable=nullable, compact=compact)
        elif nullable:
            self.nullable_struct(kind, expression, path)
        else:
            item = self.variable("o")
            self.line(f"{item} = {expression}")
            self.struct(kind, item, path)

    def variable_length(self, kind: Variable, expression: str, path: str, *, nullable: bool, compact: bool) -> None:
        value, n = self.variable("s"), self.variable("n")
        is_text = kind.name == "string"
        self.line(f"{value} = {expression}")
        if nullable:
            self.line(f"if {value} is None:")
            self.line(f"    {n} = -1; {value} = b''")
            self.line("else:")
            self.indent += 1
        if is_text:
            self.line(f"{value} = {value}.encode()")
        else:
            # What is not bytes would only fail where the pieces are joined, too late to say which field it was.
            self.line(f"if {value}.__class__ is not bytes and not isinstance({value}, BYTES):")
            self.line("    raise TypeError")
        self.line(f"{n} = len({value})")
        if is_text:
            self.line(f"if {n} > {primitives.MAX_STRING}:")
            self.line(f"    raise too_long({path!r}, {expression})")
        if nullable:
            self.indent -= 1
        self.length(n, "h" if is_text else "i", compact=compact)
        self.flush()
        self.line(f"{self.append}({value})")

    def array(self, kind: Array, expression: str, path: str, *, nullable: bool, compact: bool) -> None:
        value, n = self.variable("a"), self.variable("n")
        self.line(f"{value} = {expression}")
        if nullable:
            self.line(f"if {value} is None:")
            self.line(f"    {n} = -1; {value} = ()")
            self.line("else:")
            self.line(f"    {n} = len({value})")
        else:
            self.line(f"{n} = len({value})")
        element = kind.element
        if isinstance(element, Fixed) and element.code != "16s":
            count = self.variable("n")
            self.line(f"{count} = len({value})")
            self.length(n, "i", compact=compact)
            self.flush()
            self.line(f"{self.append}(pack('>%d{element.code}' % {count}, *{value}))")
            return
        self.length(n, "i", compact=compact)
        self.flush()
        item = self.variable("e")
        self.line(f"for {item} in {value}:")
        self.indent += 1
        if isinstance(element, type):
            self.struct(element, item, path + "[]")
        else:
            self.value(element, item, path + "[]", nullable=False, compact=compact)
        self.flush()
        if self.in_steps:
            self.line("yield")
        self.indent -= 1

    def nullable_struct(self, kind: type[Struct], expression: str, path: str) -> None:
        """A struct behind a byte that is 1, or -1 for null."""
        self.flush()
        item = self.variable("o")
        self.line(f"{item} = {expression}")
        self.line(f"if {item} is None:")
        self.line(f"    {self.append}(b'\\xff')")
        self.line("else:")
        self.indent += 1
        self.line(f"{self.append}(b'\\x01')")
        self.struct(kind, item, path)
        self.flush()
        self.indent -= 1

    def struct(self, cls: type[Struct], item: str, path: str) -> None:
        tagged: list[Field] = []
        for f in cls.fields:
            expression, field_path = f"{item}.{f.name}", f"{path}.{f.name}"
            if self.version not in f.versions:
                if not f.ignorable:
                    self.line(f"if not ({lacks_value(f, expression)}):")
                    self.line(f"    raise not_in_version({field_path!r}, {expression}, {self.version})")
            elif f.is_tagged(self.version):
                tagged.append(f)
            else:
                self.value(
                    f.kind,
                    expression,
                    field_path,
                    nullable=self.version in f.nullable,
                    compact=self.flexible and self.version in f.flexible,
                )
        if self.flexible:
            self.tags(tagged, item, path)
        else:
            self.line(f"if {item}.unknown_tags:")
            self.line(f"    raise not_in_version({path + '.unknown_tags'!r}, {item}.unknown_tags, {self.version})")

    def tags(self, tagged: list[Field], item: str, path: str) -> None:
        """Write the tagged fields that differ from their defaults, and the unknown ones that were read, by tag."""
        self.flush()
        if not tagged:
            self.line(f"if not {item}.unknown_tags:")
            self.line(f"    {self.append}(b'\\0')")
            self.line("else:")
            self.indent += 1
        tags = self.variable("tags")
        known = tuple(f.tag for f in tagged)
        checked = f"checked_tags({path!r}, {item}.unknown_tags, {known!r})"
        self.line(f"{tags} = {checked} if {item}.unknown_tags else []")
        for f in tagged:
            expression = f"{item}.{f.name}"
            self.line(f"if not ({lacks_value(f, expression)}):")
            self.indent += 1
            pieces, outer = self.variable("pieces"), self.append
            self.line(f"{pieces} = []")
            self.append = f"{pieces}.append"
            nullable = self.version in f.nullable
            self.value(f.kind, expression, f"{path}.{f.name}", nullable=nullable, compact=self.version in f.flexible)
            self.flush()
            self.append = outer
            self.line(f"{tags}.append(({f.tag}, b''.join({pieces})))")
            self.indent -= 1
        self.line(f"{tags}.sort()")
        self.line(f"{self.append}(varint(len({tags})))")
        self.line(f"for tag, content in {tags}:")
        self.line(f"    {self.append}(varint(tag)); {self.append}(varint(len(content))); {self.append}(content)")
        if not tagged:
            self.indent -= 1
