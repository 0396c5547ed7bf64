r"""Avro keys and values through a schema registry: ``Consumer(value=Avro("http://localhost:8081"))``.

What is sent is Confluent's format: a byte 0, the schema's id in four bytes, then the datum in Avro's binary encoding.
A reader finds the writer's schema by its id and may ask for it in the shape of another one (``schema``); a writer
registers its schema under the subject ``TOPIC-key`` or ``TOPIC-value``, or only looks it up (``register=False``), or
takes the newest one of the subject (no ``schema``).

Needs fastavro (``pip install 'seamark[avro]'``). The registry is asked once per schema, by the thread that polls or
sends; an asyncio program can do that beforehand with ``await asyncio.to_thread(avro.prepare, topic)``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from io import BytesIO
from struct import Struct
from typing import Any

from seamark.client.serde.avro_bounds import DEEPEST_SCHEMA, Bounds, UnsafeSchema, check_depth
from seamark.client.serde.schema_registry import DEFAULT_TIMEOUT_S, KeptSchemas, SchemaRegistry
from seamark.client.serde.serializers import ByTopic
from seamark.errors import MissingExtra, UsageError

MAGIC = 0
_PREFIX = Struct(">bI")
# Of what the library says about a schema; it repeats the part that it does not like, which may be all of it.
_LONGEST_REASON = 300
Schema = str | Mapping[str, Any] | list[Any]


class Avro:
    """Reads and writes Avro; one object may serve keys, values and any number of clients.

    ``registry`` is a URL, several of them, or a ``SchemaRegistry``. ``schema`` is Avro's JSON as text or as Python
    objects: what a producer writes, and what a consumer wants records resolved to.
    """

    def __init__(
        self,
        registry: str | Iterable[str] | SchemaRegistry,
        *,
        schema: Schema | None = None,
        register: bool = True,
        subject: Callable[[str, str], str] | str | None = None,
        username: str | None = None,
        password: str | None = None,
        timeout: float = DEFAULT_TIMEOUT_S,
        ca_file: str | None = None,
    ) -> None:
        _fastavro()
        if isinstance(registry, SchemaRegistry):
            self.registry = registry
        else:
            self.registry = SchemaRegistry(
                registry, username=username, password=password, timeout=timeout, ca_file=ca_file
            )
        if subject is not None and not callable(subject) and not isinstance(subject, str):
            raise UsageError(f"subject must be a name, or a function of a topic and of key or value, got {subject!r}")
        self._subject = subject
        self._register = register
        self._text = None if schema is None else _schema_text(schema)
        self._parsed = None if self._text is None else _parsed(self._text, [])[0]
        self._writers_schemas: KeptSchemas[int, tuple[Any, Bounds]] = KeptSchemas()
        # By topic and part.
        self._targets: dict[tuple[str, str], tuple[bytes, Any]] = {}

    # -- reading

    def __call__(self, content: bytes) -> Any:
        """A datum from bytes that begin with a schema's id."""
        if len(content) < _PREFIX.size:
            raise ValueError(f"{len(content)} bytes are too few for a schema id and a datum")
        magic, schema_id = _PREFIX.unpack_from(content)
        if magic != MAGIC:
            raise ValueError(f"it begins with byte {magic & 0xFF}, not with the magic byte 0 that precedes a schema id")
        known = self._writers_schemas.get(schema_id)
        if known is None:
            known = self._parse(schema_id)
        written, bounds = known
        if bounds.is_recursive:
            bounds.check(content, _PREFIX.size)
        stream = BytesIO(content)
        stream.seek(_PREFIX.size)
        datum = _fastavro().schemaless_reader(stream, written, self._parsed)
        if stream.tell() != len(content):
            raise ValueError(f"{len(content) - stream.tell()} extra bytes after the datum of schema {schema_id}")
        return datum

    # -- writing

    def serializer(self, part: str) -> ByTopic:
        """What a producer uses for its keys or values."""
        return ByTopic(lambda topic, datum: self.encode(topic, part, datum))

    def encode(self, topic: str, part: str, datum: Any) -> bytes:
        prefix, schema = self.prepare(topic, part)
        out = BytesIO()
        out.write(prefix)
        _fastavro().schemaless_writer(out, schema, datum, strict_allow_default=True)
        return out.getvalue()

    def prepare(self, topic: str, part: str = "value") -> tuple[bytes, Any]:
        """Find or register the schema for a topic's keys or values, so that sending need not wait for it."""
        target = self._targets.get((topic, part))
        if target is None:
            subject = self._subject_of(topic, part)
            if self._text is None:
                latest = self.registry.latest(subject)
                target = (_PREFIX.pack(MAGIC, latest.schema_id), self._parse(latest.schema_id)[0])
            else:
                schema_id = self.registry.schema_id(subject, self._text, register=self._register)
                target = (_PREFIX.pack(MAGIC, schema_id), self._parsed)
            self._targets[topic, part] = target
        return target

    def _subject_of(self, topic: str, part: str) -> str:
        if callable(self._subject):
            return self._subject(topic, part)
        return self._subject if self._subject is not None else f"{topic}-{part}"

    def _parse(self, schema_id: int) -> tuple[Any, Bounds]:
        """The schema with this id as fastavro wants it, and what data of it may ask for."""
        registered = self.registry.schema(schema_id)
        if registered.kind != "AVRO":
            raise ValueError(f"schema {schema_id} is a {registered.kind[:100]} schema, not an Avro schema")
        texts = [schema.text for schema in self.registry.referenced(registered)]
        made = _parsed(registered.text, texts)
        self._writers_schemas.keep(schema_id, made, sum(map(len, (registered.text, *texts))))
        return made

    def __repr__(self) -> str:
        return f"Avro({self.registry.url!r})"


@cache
def _fastavro() -> Any:
    try:
        import fastavro
    except ImportError:
        raise MissingExtra("Avro", "avro") from None
    return fastavro


def _schema_text(schema: object) -> str:
    if isinstance(schema, str):
        return schema
    try:
        return json.dumps(schema)
    except (TypeError, ValueError) as error:
        raise UsageError(f"schema must be Avro JSON, as text or as Python objects: {error}") from error


def _parsed(text: str, needed: Iterable[str]) -> tuple[Any, Bounds]:
    """The schema as fastavro wants it; ``needed`` are those it names, in an order in which they can be read."""
    fastavro = _fastavro()
    known: dict[str, Any] = {}
    try:
        for needed_text in needed:
            fastavro.parse_schema(_loaded(needed_text), named_schemas=known)
        schema = fastavro.parse_schema(_loaded(text), named_schemas=known)
        return schema, Bounds(schema, known)
    except UnsafeSchema as error:
        raise UsageError(f"the schema cannot be used safely: {error}") from None
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, TypeError, KeyError) as error:
        told = str(error)
        shown = told if len(told) <= _LONGEST_REASON else f"{told[:_LONGEST_REASON]}…"
        raise UsageError(f"not an Avro schema: {type(error).__name__}: {shown}") from None


def _loaded(text: str) -> Any:
    try:
        schema = json.loads(text)
    except RecursionError:
        raise UnsafeSchema(f"it is nested more than {DEEPEST_SCHEMA} levels deep") from None
    except ValueError:
        # A primitive type may be written without quotes.
        return text.strip()
    check_depth(schema)
    return schema
