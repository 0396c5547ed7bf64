"""One script, any broker: requests as plain values, answers kept as a transcript that can be compared.

A script is a function that gets a ``Recorder`` and asks through it. Each answer becomes an ``Entry`` of plain
dictionaries, holding the fields that the asked version has. Names are made fresh per run with
``recorder.name("orders")`` and appear in the transcript as ``<orders>``; what a broker makes up itself (member ids,
its address) is replaced by a label in the order of appearance. Lists whose order Kafka leaves to a hash map are
sorted. Everything else is compared as it is.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from seamark.wire.protocol.apis import api_named
from seamark.wire.protocol.frames import decode_response, encode_request
from seamark.wire.schema.schema import Array, Message, Struct
from tests.support.capture import CaptureError, Wire

CLIENT_ID = "differential"
# A member id is the client id, or the instance id of a static member, and a random part.
_MEMBER_ID = re.compile(r".*-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
# Lists in which Kafka keeps no order, by the field they stand in, and the field to sort by.
UNORDERED = {"DescribeGroups.groups": "group_id", "ListGroups.groups": "group_id", "DeleteGroups.results": "group_id",
             "ConsumerGroupDescribe.groups": "group_id", "DescribeGroups.groups.members": "member_id",
             "JoinGroup.members": "member_id"}  # fmt: skip
# The same for an answer to a request for everything.
UNORDERED_IF_ALL = {"OffsetFetch.topics": "name", "OffsetFetch.topics.partitions": "partition_index",
                    "OffsetFetch.groups.topics": "name",
                    "OffsetFetch.groups.topics.partitions": "partition_index"}  # fmt: skip


@dataclass
class Entry:
    """One request and what came back."""

    api: str
    version: int
    note: str
    answer: Any
    # The request named no topics, so that they come in no order.
    is_unordered: bool = False


def build(cls: type[Struct], values: dict[str, Any]) -> Any:
    """A message from plain dictionaries and lists."""
    made = {}
    for name, value in values.items():
        kind = next(each.kind for each in cls.fields if each.name == name)
        if isinstance(kind, Array) and isinstance(kind.element, type) and value is not None:
            made[name] = [build(kind.element, each) if isinstance(each, dict) else each for each in value]
        else:
            made[name] = value
    return cls(**made)


def plain(value: Any, version: int) -> Any:
    """A message as dictionaries, with the fields of one version."""
    if isinstance(value, Struct):
        return {
            each.name: plain(getattr(value, each.name), version)
            for each in type(value).fields
            if version in each.versions
        }
    if isinstance(value, list):
        return [plain(each, version) for each in value]
    return value.hex() if isinstance(value, bytes | memoryview) else value


@dataclass
class Recorder:
    """Asks one broker; ``entries`` is the transcript so far."""

    bootstrap: str
    entries: list[Entry] = field(default_factory=list)
    _run: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    _names: dict[str, str] = field(default_factory=dict)
    _labels: dict[str, str] = field(default_factory=dict)
    _wires: dict[str, Wire] = field(default_factory=dict)
    _asked: dict[str, Entry] = field(default_factory=dict)
    _correlation: int = 0

    def name(self, label: str) -> str:
        """A name that no other run has used."""
        made = f"{label}.{self._run}"
        self._names[made] = f"<{label}>"
        return made

    def ask(self, api: str, version: int, note: str = "", *, on: str = "main", **values: Any) -> Any:
        """Ask, wait for the answer, keep it, and return it as a message."""
        self.send(api, version, note, on=on, **values)
        return self.answer(on)

    def send(self, api: str, version: int, note: str = "", *, on: str, **values: Any) -> None:
        """Ask on a connection of its own without waiting."""
        parts = [values, *(each for each in values.get("groups", ()) if isinstance(each, dict))]
        asks_for_all = any(each.get("topics", ()) is None for each in parts)
        self._asked[on] = Entry(api, version, note, "no answer", asks_for_all)
        self._wire(on).send(self._frame(api, version, values))

    def answer(self, on: str) -> Any:
        """The answer to what was sent on that connection."""
        entry = self._asked.pop(on)
        self.entries.append(entry)
        try:
            frame = self._wire(on).receive()
        except CaptureError as error:
            self._wires.pop(on).close()
            if "closed" in str(error):
                entry.answer = "closed"
            return None
        message = decode_response(api_named(entry.api).response, frame[4:], entry.version)[1]
        entry.answer = plain(message, entry.version)
        return message

    def quietly(self, api: str, version: int, *, on: str = "aside", **values: Any) -> Any:
        """Ask something that is no part of the comparison."""
        wire = self._wire(on)
        wire.send(self._frame(api, version, values))
        return decode_response(api_named(api).response, wire.receive()[4:], version)[1]

    def until(self, is_so: Callable[[], bool], what: str, seconds: float = 20.0) -> None:
        """Wait for what brokers do in their own time."""
        deadline = time.monotonic() + seconds
        while not is_so():
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.bootstrap}: {what} did not happen within {seconds} s")
            time.sleep(0.02)

    def create_topic(self, label: str, partitions: int = 1) -> str:
        """A new topic, known to the whole broker and with leaders that serve on return."""
        name = self.name(label)
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1}
        answer = self.quietly("CreateTopics", 5, topics=[topic], timeout_ms=10_000)
        assert answer.topics[0].error_code == 0, answer
        asked = {"topics": [{"name": name}]}
        self.until(
            lambda: all(
                each.error_code == 0 and len(each.partitions) == partitions
                for each in self.quietly("Metadata", 5, **asked).topics
            ),
            f"topic {name}",
        )
        wanted = [{"partition_index": number, "timestamp": -1} for number in range(partitions)]
        offsets = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": name, "partitions": wanted}]}

        def is_led() -> bool:
            return all(each.error_code == 0 for each in self.quietly("ListOffsets", 5, **offsets).topics[0].partitions)

        self.until(is_led, f"leaders of {name}")
        return name

    def coordinate(self, *groups: str) -> None:
        """Return when the broker coordinates these groups."""

        def is_coordinated(group: str) -> bool:
            # A coordinator that is known may still be loading.
            return (
                self.quietly("FindCoordinator", 2, key=group).error_code == 0
                and self.quietly("OffsetFetch", 5, group_id=group, topics=[]).error_code == 0
            )

        for group in groups:
            self.until(partial(is_coordinated, group), f"coordinator of {group}")

    def close(self) -> None:
        for wire in self._wires.values():
            wire.close()

    def transcript(self) -> list[Entry]:
        """The entries, normalised."""
        return [
            Entry(each.api, each.version, each.note, self._normal(each.answer, each.api, each.is_unordered))
            for each in self.entries
        ]

    def _wire(self, on: str) -> Wire:
        if on not in self._wires:
            self._wires[on] = Wire(self.bootstrap, timeout=15)
        return self._wires[on]

    def _frame(self, api: str, version: int, values: dict[str, Any]) -> bytes:
        self._correlation += 1
        request: Message = build(api_named(api).request, values)
        return encode_request(request, version, self._correlation, CLIENT_ID)

    def _normal(self, value: Any, path: str, is_unordered: bool) -> Any:
        if isinstance(value, dict):
            if path == "FindCoordinator" or path == "FindCoordinator.coordinators":
                value = {**value, **self._address(value)}
            return {name: self._normal(each, f"{path}.{name}", is_unordered) for name, each in value.items()}
        if isinstance(value, list):
            value = self._ours(value, path)
            found = [self._normal(each, path, is_unordered) for each in value]
            key = UNORDERED.get(path) or (UNORDERED_IF_ALL.get(path) if is_unordered else None)
            return found if key is None else sorted(found, key=lambda each: each[key])
        return self._label(value) if isinstance(value, str) else value

    def _ours(self, value: list[Any], path: str) -> Iterable[Any]:
        """A broker that serves other tests too lists their groups as well."""
        if path != "ListGroups.groups":
            return value
        return [each for each in value if each["group_id"] in self._names]

    def _address(self, value: dict[str, Any]) -> dict[str, Any]:
        if "host" not in value or value["host"] == "":
            return {}
        host, _, port = self.bootstrap.rpartition(":")
        known = (value["host"], value["port"]) == (host, int(port))
        return {"node_id": "<node>", "host": "<host>" if known else value["host"], "port": "<port>" if known else -2}

    def _label(self, text: str) -> str:
        if text in self._names:
            return self._names[text]
        if _MEMBER_ID.match(text):
            prefix = text[:-37]
            prefix = self._names.get(prefix, prefix)
            return self._labels.setdefault(text, f"<member {len(self._labels) + 1} of {prefix}>")
        for made, label in self._names.items():
            # Names also stand inside of bytes, which are shown in hexadecimal.
            text = text.replace(made, label).replace(made.encode().hex(), label)
        return text


@dataclass(frozen=True)
class Difference:
    """One field of one answer that is not the same."""

    number: int
    api: str
    version: int
    note: str
    path: str
    theirs: Any
    ours: Any

    def __str__(self) -> str:
        asked = f"{self.number}. {self.api} v{self.version} {self.note}"
        return f"{asked}: {self.path} is {self.theirs!r} there, {self.ours!r} here"


def differences(theirs: list[Entry], ours: list[Entry]) -> list[Difference]:
    """All fields in which two transcripts of one script differ."""
    found: list[Difference] = []
    assert [(each.api, each.version, each.note) for each in theirs] == [
        (each.api, each.version, each.note) for each in ours
    ], "the script took another course on the other broker"
    for number, (there, here) in enumerate(zip(theirs, ours, strict=True)):
        for path, left, right in _unequal(there.answer, here.answer, ""):
            found.append(Difference(number, there.api, there.version, there.note, path, left, right))
    return found


def _unequal(left: Any, right: Any, path: str) -> Iterable[tuple[str, Any, Any]]:
    if isinstance(left, dict) and isinstance(right, dict):
        for name in left:
            yield from _unequal(left[name], right[name], f"{path}.{name}" if path else name)
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for one, other in zip(left, right, strict=True):
            yield from _unequal(one, other, f"{path}[]")
    elif left != right:
        yield path, left, right
