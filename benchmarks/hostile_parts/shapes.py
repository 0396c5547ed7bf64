"""Requests of any API and version, written from the wire schema, with as many elements as fit and as the broker takes.

A ``Shape`` says how: how many elements each array has, what names and numbers are in them, what is null, how many
unknown tagged fields there are. It is plain text, so that a request that was found to be bad can be made again. Bytes
are written here and not by the codec: an element that repeats is written once and multiplied, which makes a request of
a megabyte in milliseconds, and values that our encoder would refuse can be written as well.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import count

from benchmarks.hostile_parts.world import World
from seamark.broker.api.endpoints import load_endpoints
from seamark.broker.api.topic_rules import MOST_CHANGES
from seamark.wire.protocol.apis import api_named
from seamark.wire.protocol.consumer_protocol import Subscription, encode_subscription
from seamark.wire.protocol.frames import request_header_version
from seamark.wire.schema.primitives import encode_unsigned_varint
from seamark.wire.schema.schema import Array, Field, Fixed, Kind, Message, Struct, Variable
from tests.support.broker_driver import batch_of

LIMIT_BYTES = 1 << 20
CLIENT_ID = "hostile"
NAMES = ("same", "existing", "unknown", "distinct", "long", "empty")
NUMBERS = ("sensible", "large", "least", "most")

_LONGEST_STRING = 32_767
_TOPIC_FIELDS = {"name", "topic", "topic_names", "resource_name", "resource_name_filter", "subscribed_topic_names"}
_GROUP_FIELDS = {"group_id", "groups", "groups_names", "group_ids", "key", "coordinator_keys"}
_PARTITION_FIELDS = {"partition", "partition_index", "partition_indexes", "partitions", "index"}
# What a broker takes for an honest request. Keys are field names, or ends of paths where a name has two meanings.
_SENSIBLE_TEXTS = {
    "configs.name": "retention.ms",
    "configs.value": "60000",
    "configuration_keys": "retention.ms",
    "protocols.name": "range",
    "protocol_name": "range",
    "protocol_type": "consumer",
    "states_filter": "Stable",
    "types_filter": "classic",
    "mechanism": "PLAIN",
    "principal": "User:anyone",
    "host": "*",
    "client_software_name": "hostile",
    "client_software_version": "1.0",
}
_SENSIBLE_NUMBERS = {
    "acks": -1, "timeout_ms": 1000, "replica_id": -1, "replica_epoch": -1, "max_wait_ms": 0, "max_bytes": 0x7FFFFFFF,
    "partition_max_bytes": 0x7FFFFFFF, "current_leader_epoch": -1, "last_fetched_epoch": -1, "log_start_offset": -1,
    "timestamp": -1, "generation_id_or_member_epoch": -1, "generation_id": 1, "committed_offset": 7,
    "committed_leader_epoch": -1, "commit_timestamp": -1, "retention_time_ms": -1, "member_epoch": -1,
    "session_timeout_ms": 30_000, "rebalance_timeout_ms": 1000, "num_partitions": 1, "replication_factor": 1,
    "count": 2, "broker_ids": 0, "transaction_timeout_ms": 1000, "producer_id": -1, "producer_epoch": -1,
    "resource_type": 2, "resource_pattern_type": 3, "resource_type_filter": 1, "pattern_type_filter": 1,
    "operation": 3, "permission_type": 3, "endpoint_type": 1, "validate_only": 0, "offset": 0,
}  # fmt: skip
# Honest, and more work: partitions to make, times to search for, the configuration of the broker itself.
_LARGE_NUMBERS = {
    "num_partitions": 1000, "count": 1000, "timestamp": 1_700_000_000_050, "resource_type": 4, "session_epoch": -1,
    "operation": 1, "permission_type": 1, "replication_factor": -1, "offset": -1, "validate_only": 1,
}  # fmt: skip


# What an element changes, in APIs that refuse to change more than so much at a time, whatever they could read: a new
# topic is one change and its partition another.
_CHANGES = {"CreateTopics": 2, "DeleteTopics": 1, "CreatePartitions": 1, "CreateAcls": 1, "IncrementalAlterConfigs": 1}


@dataclass(frozen=True)
class Shape:
    api: str
    version: int
    # Elements of arrays by path, such as ("topics", 1), ("topics.partitions", 40_000).
    counts: tuple[tuple[str, int], ...] = ()
    # Elements of the arrays that are not named there.
    others: int = 1
    names: str = "same"
    numbers: str = "sensible"
    is_null: bool = False
    tags: int = 0
    tags_per_element: int = 0

    def __str__(self) -> str:
        arrays = " ".join(f"{path}={number}" for path, number in self.counts)
        return (
            f"{arrays} others={self.others} names={self.names} numbers={self.numbers} null={int(self.is_null)} "
            f"tags={self.tags} tags_per_element={self.tags_per_element}"
        ).strip()

    def frame(self, world: World, salt: int) -> bytes:
        """The whole request with its size; ``salt`` makes new names of those that do not exist."""
        request = api_named(self.api).request
        is_flexible = self.version in request.flexible
        header = struct.pack(">hhih", request.api_key, self.version, 1, len(CLIENT_ID)) + CLIENT_ID.encode()
        if request_header_version(request, self.version) > 1:
            header += b"\0"
        body = _Writer(self, world, salt, is_flexible=is_flexible).message(request)
        return struct.pack(">i", len(header) + len(body)) + header + body


def array_paths(request: type[Message], version: int) -> list[str]:
    """The arrays of a request, outer before inner."""
    return list(_array_paths(request, version, ""))


def _array_paths(cls: type[Struct], version: int, prefix: str) -> Iterator[str]:
    for field in cls.fields:
        kind = field.kind
        if version not in field.versions:
            continue
        if isinstance(kind, Array):
            yield prefix + field.name
            if isinstance(kind.element, type):
                yield from _array_paths(kind.element, version, f"{prefix}{field.name}.")
        elif isinstance(kind, type):
            yield from _array_paths(kind, version, f"{prefix}{field.name}.")


def fitted(shape: Shape, path: str, world: World, limit: int = LIMIT_BYTES, *, is_beyond: bool = False) -> Shape:
    """The shape with as many elements at ``path`` (or tags, for the path "") as fit into the limit.

    No more than the broker takes in one request: it refuses what has more while it reads, which costs nothing.
    ``is_beyond`` is for that refusal.
    """
    few, some = (len(with_count(shape, path, number).frame(world, 0)) for number in (1, 65))
    each = max(1.0, (some - few) / 64)
    number = max(1, int((limit - few) / each))
    least, more = (elements(with_count(shape, path, number)) for number in (1, 2))
    # An array in another one that is empty adds nothing.
    if more > least and not is_beyond:
        number = max(1, min(number, 1 + (_most_elements()[shape.api] - least) // (more - least)))
    while True:
        found = with_count(shape, path, number)
        size = len(found.frame(world, 0))
        if size <= limit or number == 1:
            return found
        number = max(1, min(number - 1, int(number * limit / size * 0.995)))


def elements(shape: Shape) -> int:
    """How many elements all arrays of the request have together; unknown tagged fields count as well."""
    counts = dict(shape.counts)
    request = api_named(shape.api).request
    tags = shape.tags_per_element if shape.version in request.flexible else 0

    def of_struct(cls: type[Struct], prefix: str) -> int:
        total = 0
        for field in cls.fields:
            kind, path = field.kind, prefix + field.name
            if shape.version not in field.versions or field.is_tagged(shape.version):
                continue
            if isinstance(kind, Array):
                is_left_out = shape.is_null and shape.version in field.nullable and path not in counts
                number = 0 if is_left_out else counts.get(path, shape.others)
                inner = tags + of_struct(kind.element, f"{path}.") if isinstance(kind.element, type) else 0
                total += number * (1 + inner)
            elif isinstance(kind, type):
                total += of_struct(kind, f"{path}.")
        return total

    return of_struct(request, "") + (shape.tags if shape.version in request.flexible else 0)


def is_too_large(shape: Shape, world: World) -> bool:
    return len(shape.frame(world, 0)) > LIMIT_BYTES or elements(shape) > _most_elements()[shape.api]


@cache
def _most_elements() -> dict[str, int]:
    """What the broker takes in one request, by API."""
    return {
        name: MOST_CHANGES // _CHANGES[name] if name in _CHANGES else endpoint.max_elements
        for name, endpoint in ((each.api.name, each) for each in load_endpoints().values())
    }


def with_count(shape: Shape, path: str, number: int) -> Shape:
    if not path:
        return replace(shape, tags=number)
    counts = dict(shape.counts)
    counts[path] = number
    return replace(shape, counts=tuple(counts.items()))


@dataclass(frozen=True)
class Filling:
    """A shape and the array that is to be filled in it; what fits is found out when it is needed."""

    shape: Shape
    path: str | None
    # Whether it may have more elements than the broker takes.
    is_beyond: bool = False

    def fitted(self, world: World, limit: int = LIMIT_BYTES) -> Shape:
        if self.path is None:
            return self.shape
        return fitted(self.shape, self.path, world, limit, is_beyond=self.is_beyond)


def first_fillings(api: str, version: int) -> Iterator[Filling]:
    """The plain extremes of one API in one version: each array full, in each way; only strings; only tags."""
    request = api_named(api).request
    is_flexible = version in request.flexible
    for path in array_paths(request, version):
        one = Shape(api, version, _outer(path, 1))
        for names in NAMES:
            yield Filling(replace(one, names=names, others=0), path)
            yield Filling(replace(one, names=names), path)
        yield Filling(replace(one, names="empty", others=0), path, is_beyond=True)
        yield Filling(replace(one, names="existing", others=0, is_null=True), path)
        yield Filling(replace(one, names="existing", numbers="large"), path)
        yield Filling(replace(one, counts=_outer(path, 30), names="existing"), path)
        if is_flexible:
            yield Filling(replace(one, names="empty", others=0, tags_per_element=1), path)
    for numbers in NUMBERS:
        yield Filling(Shape(api, version, numbers=numbers), None)
        yield Filling(Shape(api, version, names="long", numbers=numbers), None)
    yield Filling(Shape(api, version, others=0, numbers="large", is_null=True), None)
    if is_flexible:
        yield Filling(Shape(api, version, others=0), "")
        yield Filling(Shape(api, version, others=0), "", is_beyond=True)


def _outer(path: str, number: int) -> tuple[tuple[str, int], ...]:
    """The arrays around ``path``, each with that many elements; it is filled up itself later."""
    names = path.split(".")
    return tuple((".".join(names[:depth]), number) for depth in range(1, len(names)))


def mutated(shape: Shape, world: World, rng: random.Random) -> Shape:
    """A neighbour of the shape, filled up to the limit again; the shape itself if that would not fit."""
    found = _mutated(shape, world, rng)
    return found if len(found.frame(world, 0)) <= LIMIT_BYTES else shape


def _mutated(shape: Shape, world: World, rng: random.Random) -> Shape:
    request = api_named(shape.api).request
    step = rng.randrange(7)
    if step == 0:
        shape = replace(shape, names=rng.choice(NAMES))
    elif step == 1:
        shape = replace(shape, numbers=rng.choice(NUMBERS))
    elif step == 2:
        shape = replace(shape, is_null=not shape.is_null)
    elif step == 3:
        shape = replace(shape, others=rng.choice((0, 1, 2, 10, 50)))
    elif step == 4 and shape.version in request.flexible:
        shape = replace(shape, tags_per_element=rng.choice((0, 1, 2, 5)))
    paths = array_paths(request, shape.version)
    if not paths:
        return shape
    path = rng.choice([name for name, _ in shape.counts] or paths)
    if step >= 5 and "." in path:
        # The same bytes with another form: more of the outer elements, fewer of the inner ones.
        outer, _, _ = path.rpartition(".")
        number = max(1, int(dict(shape.counts).get(outer, 1) * rng.choice((0.25, 0.5, 2, 4, 16, 64))))
        shape = with_count(shape, outer, min(number, 100_000))
        inner = with_count(shape, path, 1)
        if is_too_large(inner, world):
            return fitted(inner, outer, world)
    return fitted(shape, path, world)


class _Writer:
    """Writes one message; ``number`` is the position of the element that is being written."""

    def __init__(self, shape: Shape, world: World, salt: int, *, is_flexible: bool) -> None:
        self._shape = shape
        self._version = shape.version
        self._world = world
        self._is_flexible = is_flexible
        self._counts = dict(shape.counts)
        self._varies = shape.names in ("existing", "distinct")
        self._numbers = count(1)
        # Always as long, so that what was fitted fits.
        self._new = f"{salt:04x}."
        self._subscription = encode_subscription(Subscription(topics=[world.topics[0]]))
        self._batch = batch_of(b"x")

    def message(self, cls: type[Message]) -> bytes:
        return self._struct(cls, "", 0, self._shape.tags)

    def _struct(self, cls: type[Struct], prefix: str, number: int, tags: int) -> bytes:
        present = [field for field in cls.fields if self._version in field.versions]
        is_named = not self._shape.is_null and any(field.name in ("name", "topic") for field in present)
        body = b"".join(
            bytes(16) if field.name == "topic_id" and is_named else self._value(field, field.kind, prefix, number)
            for field in present
            if not field.is_tagged(self._version)
        )
        if not self._is_flexible:
            return body
        tag = struct.pack("B", 0)
        # Known tagged fields stand first; their tags are small, the unknown ones begin behind them.
        unknown = b"".join(encode_unsigned_varint(1000 + each) + tag for each in range(tags))
        return body + encode_unsigned_varint(tags) + unknown

    def _value(self, field: Field, kind: Kind, prefix: str, number: int) -> bytes:
        path = prefix + field.name
        is_nullable = self._version in field.nullable
        if isinstance(kind, Array):
            return self._array(field, kind, path, is_nullable)
        if isinstance(kind, Fixed):
            return self._fixed(field.name, kind, number)
        if isinstance(kind, Variable):
            content = self._text(field.name, path, number) if kind.name == "string" else self._bytes(kind, path)
            if is_nullable and self._is_left_out(field, kind):
                content = None
            return self._sized(content, 2 if kind.name == "string" else 4)
        return (b"\1" if is_nullable else b"") + self._struct(kind, path + ".", number, 0)

    def _is_left_out(self, field: Field, kind: Variable) -> bool:
        if self._shape.is_null:
            return True
        is_name = field.name in _TOPIC_FIELDS | _GROUP_FIELDS or kind.name != "string" or field.name == "value"
        return not is_name and self._shape.names in ("same", "existing")

    def _array(self, field: Field, kind: Array, path: str, is_nullable: bool) -> bytes:
        if is_nullable and self._shape.is_null and path not in self._counts:
            return b"\0" if self._is_flexible else struct.pack(">i", -1)
        number = self._counts.get(path, self._shape.others)
        start = encode_unsigned_varint(number + 1) if self._is_flexible else struct.pack(">i", number)
        if self._shape.names == "distinct":
            return start + b"".join(self._element(field, kind.element, path, each) for each in range(number))
        # What is the same again, or comes round again, is written once.
        period = min(number, len(self._world.topics) if self._varies else 1)
        written = [self._element(field, kind.element, path, each) for each in range(period)]
        whole, rest = divmod(number, period or 1)
        return start + b"".join(written) * whole + b"".join(written[:rest])

    def _element(self, field: Field, kind: Kind, path: str, number: int) -> bytes:
        if isinstance(kind, type):
            return self._struct(kind, path + ".", number, self._shape.tags_per_element)
        if isinstance(kind, Fixed):
            return self._fixed(field.name, kind, number)
        assert isinstance(kind, Variable)
        return self._sized(self._text(field.name, path, number), 2)

    def _fixed(self, name: str, kind: Fixed, number: int) -> bytes:
        if kind.code == "16s":
            return self._topic_id(number)
        if kind.code == "d":
            return struct.pack(">d", 0.0)
        numbers = self._shape.numbers
        if name in _PARTITION_FIELDS and numbers in ("sensible", "large"):
            value = number if self._varies else 0
        elif numbers == "least":
            value = kind.lowest
        elif numbers == "most":
            value = kind.highest
        else:
            value = _SENSIBLE_NUMBERS.get(name, 1 if kind.code == "?" else 0)
            if numbers == "large":
                value = _LARGE_NUMBERS.get(name, value)
        return struct.pack(f">{kind.code}", value)

    def _topic_id(self, number: int) -> bytes:
        ids = self._world.topic_ids
        if self._shape.names in ("same", "long"):
            return ids[0]
        if self._shape.names == "existing":
            return ids[number % len(ids)]
        if self._shape.names == "empty":
            return bytes(16)
        return struct.pack(">qq", 1 << 60, next(self._numbers) if self._shape.names == "distinct" else 0)

    def _text(self, name: str, path: str, number: int) -> str:
        names = self._shape.names
        if names == "empty":
            return ""
        if names == "long":
            return "x" * _LONGEST_STRING
        if names == "unknown":
            return f"{self._new}no"
        if names == "distinct":
            return f"{self._new}{next(self._numbers):x}"
        for end, text in _SENSIBLE_TEXTS.items():
            if path == end or path.endswith(f".{end}"):
                return text
        if name == "member_id":
            return self._of(self._world.members, number) if path != name else ""
        if name in _TOPIC_FIELDS:
            return self._of(self._world.topics, number)
        if name in _GROUP_FIELDS:
            return self._of(self._world.groups, number)
        return "x"

    def _of(self, known: tuple[str, ...], number: int) -> str:
        return known[number % len(known) if self._shape.names == "existing" else 0]

    def _bytes(self, kind: Variable, path: str) -> bytes:
        if self._shape.names == "long":
            return b"x" * (LIMIT_BYTES - 1000) if not self._counts else b"x" * _LONGEST_STRING
        if self._shape.names == "empty":
            return b""
        if kind.name == "records":
            return self._batch
        return self._subscription if path.endswith("metadata") else b"x"

    def _sized(self, content: str | bytes | None, width: int) -> bytes:
        if isinstance(content, str):
            content = content.encode()
        if self._is_flexible:
            return b"\0" if content is None else encode_unsigned_varint(len(content) + 1) + content
        if content is None:
            return b"\xff" * width
        return struct.pack(">h" if width == 2 else ">i", len(content)) + content
