"""The parts that a message is described by: versions, types, fields and structs, without their bytes."""

from __future__ import annotations

from typing import Any, ClassVar, dataclass_transform

NEWEST = 32767


class Versions:
    """An inclusive range of versions, written "3", "2-5", "1+" or "none"."""

    __slots__ = ("first", "last")

    def __init__(self, text: str) -> None:
        if text == "none":
            self.first, self.last = 1, 0
        elif text.endswith("+"):
            self.first, self.last = int(text[:-1]), NEWEST
        else:
            first, _, last = text.partition("-")
            self.first, self.last = int(first), int(last or first)

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __iter__(self) -> Any:
        return iter(range(self.first, self.last + 1))

    def __repr__(self) -> str:
        if self.first > self.last:
            return "none"
        if self.last == NEWEST:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


ALL = Versions("0+")
NONE = Versions("none")


class Fixed:
    """A type of fixed width, read and written by ``struct``."""

    __slots__ = ("code", "default", "highest", "lowest", "name", "width")

    def __init__(self, name: str, code: str, width: int, lowest: int, highest: int, default: Any = 0) -> None:
        self.name = name
        self.code = code
        self.width = width
        self.lowest = lowest
        self.highest = highest
        self.default = default


class Variable:
    """A type with a length in front: text, bytes, or a run of record batches (kept as a view, not copied)."""

    __slots__ = ("default", "name")

    def __init__(self, name: str, default: Any) -> None:
        self.name = name
        self.default = default


class Array:
    """A counted sequence of one element type."""

    __slots__ = ("element",)

    def __init__(self, element: Kind) -> None:
        self.element = element


int8 = Fixed("int8", "b", 1, -(1 << 7), (1 << 7) - 1)
int16 = Fixed("int16", "h", 2, -(1 << 15), (1 << 15) - 1)
uint16 = Fixed("uint16", "H", 2, 0, (1 << 16) - 1)
int32 = Fixed("int32", "i", 4, -(1 << 31), (1 << 31) - 1)
uint32 = Fixed("uint32", "I", 4, 0, (1 << 32) - 1)
int64 = Fixed("int64", "q", 8, -(1 << 63), (1 << 63) - 1)
float64 = Fixed("float64", "d", 8, 0, 0, 0.0)
# struct's "?" writes any truthy object; the reader accepts any non-zero byte, as Kafka's does.
boolean = Fixed("boolean", "?", 1, 0, 1, default=False)
# A topic id: sixteen raw bytes. ``uuid.UUID`` objects would cost more than the rest of a fetch partition together.
uuid = Fixed("uuid", "16s", 16, 0, 0, bytes(16))
ZERO_UUID = bytes(16)

string = Variable("string", "")
bytes_ = Variable("bytes", b"")
records = Variable("records", None)


class Field:
    """The facts of one field; ``name`` and ``index`` are filled in when its class is made."""

    __slots__ = ("default", "flexible", "ignorable", "kind", "name", "nullable", "tag", "tagged", "versions")

    def __init__(
        self,
        kind: Kind,
        versions: Versions,
        nullable: Versions,
        default: Any,
        tag: int | None,
        tagged: Versions,
        ignorable: bool,
        flexible: Versions,
    ) -> None:
        self.kind = kind
        self.versions = versions
        self.nullable = nullable
        self.default = default
        self.tag = tag
        self.tagged = tagged
        self.ignorable = ignorable
        self.flexible = flexible
        self.name = ""

    def is_tagged(self, version: int) -> bool:
        return self.tag is not None and version in self.tagged


_UNSET: Any = object()


def field(
    kind: Kind,
    *,
    versions: str = "0+",
    nullable: str = "none",
    default: Any = _UNSET,
    tag: int | None = None,
    tagged: str | None = None,
    ignorable: bool = False,
    flexible: str = "0+",
) -> Any:
    """Describe a field.

    ``tag`` makes it a tagged field in the versions of ``tagged`` (by default, in all its versions); ``flexible`` names
    the versions in which it takes part in the compact encoding (only request headers have a field that never does).
    """
    if default is _UNSET:
        if isinstance(kind, Fixed | Variable):
            default = kind.default
        elif isinstance(kind, Array):
            default = []
        else:
            default = None if nullable != "none" else kind
    in_versions = Versions(versions)
    return Field(
        kind,
        in_versions,
        Versions(nullable),
        default,
        tag,
        NONE if tag is None else Versions(tagged) if tagged else in_versions,
        ignorable,
        Versions(flexible),
    )


def array(element: Kind) -> Array:
    return Array(element)


class StructMeta(type):
    """Turns declared fields into slots; the constructor is compiled when it is first called."""

    fields: tuple[Field, ...]

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **facts: Any) -> StructMeta:
        declared: list[Field] = []
        for attribute, value in list(namespace.items()):
            if isinstance(value, Field):
                value.name = attribute
                declared.append(value)
                del namespace[attribute]
        is_root = not any(isinstance(base, StructMeta) for base in bases)
        own_slots = tuple(f.name for f in declared)
        namespace["__slots__"] = (*own_slots, "unknown_tags") if is_root or name == "Struct" else own_slots
        cls = super().__new__(mcs, name, bases, namespace, **facts)
        cls.fields = tuple(declared)
        return cls


# `field` is not announced as a field specifier: every field has a default, so the checker must not ask for any of them.
@dataclass_transform(kw_only_default=True)
class Struct(metaclass=StructMeta):
    """A group of fields. Keyword constructor with the fields' defaults, value equality, readable ``repr``."""

    fields: ClassVar[tuple[Field, ...]]
    unknown_tags: tuple[tuple[int, bytes], ...]

    def __init__(self, **values: Any) -> None:
        # The first construction of each class replaces this by a compiled constructor.
        cls = type(self)
        _compile_constructor(cls)
        cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.unknown_tags == other.unknown_tags and all(
            getattr(self, f.name) == getattr(other, f.name) for f in self.fields
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in self.fields)
        tags = f", unknown_tags={self.unknown_tags!r}" if self.unknown_tags else ""
        return f"{type(self).__name__}({shown}{tags})"


class VersionedStruct(Struct):
    """A struct that stands alone: ``versions`` are the versions this build reads and writes, ``flexible`` those with
    compact lengths and tags.
    """

    api_key: ClassVar[int]
    versions: ClassVar[Versions]
    flexible: ClassVar[Versions]

    def __init_subclass__(cls, *, versions: str = "none", flexible: str = "none", api_key: int = -1) -> None:
        cls.api_key = api_key
        cls.versions = Versions(versions)
        cls.flexible = Versions(flexible)


Kind = Fixed | Variable | Array | type[Struct]


def _compile_constructor(cls: type[Struct]) -> None:
    """Give ``cls`` its own keyword constructor, in place of the one that called this."""
    names: dict[str, Any] = {"UNSET": _UNSET}
    parameters, lines = [], []
    for number, f in enumerate(cls.fields):
        if isinstance(f.kind, Array) and f.default is not None:
            parameters.append(f"{f.name}=UNSET")
            lines.append(f"    self.{f.name} = [] if {f.name} is UNSET else {f.name}")
        elif isinstance(f.default, type):
            names[f"make{number}"] = f.default
            parameters.append(f"{f.name}=UNSET")
            lines.append(f"    self.{f.name} = make{number}() if {f.name} is UNSET else {f.name}")
        else:
            names[f"default{number}"] = f.default
            parameters.append(f"{f.name}=default{number}")
            lines.append(f"    self.{f.name} = {f.name}")
    head = f"def __init__(self, *, {''.join(p + ', ' for p in parameters)}unknown_tags=()):"
    source = "\n".join([head, *lines, "    self.unknown_tags = unknown_tags"])
    exec(compile(source, f"<seamark {cls.__name__}.__init__>", "exec"), names)  # noqa: S102
    cls.__init__ = names["__init__"]  # type: ignore[method-assign]
