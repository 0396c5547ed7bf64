"""A broker on which a request of any size finds what it names, so that it is not refused but does its work.

``prepare`` puts back what the last request of the same API has changed, and gives the request what only the broker can
know: a member's id, a fetch session. ``cost`` counts what the broker's thread does for it: by the lines of Python that
it runs, which are the same on every machine and in every run, or by processor time, which sees inside built-in
functions too.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from seamark import Broker
from seamark.acls import Acl
from seamark.broker.cluster.topics import Topic
from seamark.broker.security.security import Security
from seamark.coordinator.commands import CommitOffsets, JoinGroup
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.frames import encode_request
from seamark.wire.protocol.messages.fetch import FetchRequest
from seamark.wire.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequestConfig
from seamark.wire.schema.schema import ZERO_UUID, Message, Struct
from tests.support.broker_driver import Client
from tests.support.request_shapes import Naming, name_of, shaped
from tests.support.waiting import eventually

# The topic that has as many partitions as there are topics.
WIDE = name_of(0)


def rights_to_half_of_it(most: int) -> Security:
    """Topics and groups by hundreds of their names, every other hundred; and the access rules."""
    prefixes = [name_of(number)[:4] for number in range(0, most, 200)]
    allowed = [
        Acl("User:*", "ALL", kind, prefix, pattern="PREFIXED") for prefix in prefixes for kind in ("TOPIC", "GROUP")
    ]
    return Security(acls=[*allowed, Acl("User:*", "ALTER", "CLUSTER", "kafka-cluster")])


def _count_codes(answer: Struct, codes: Counter[str]) -> None:
    for field in type(answer).fields:
        value = getattr(answer, field.name)
        if field.name == "error_code":
            codes[ErrorCode(value).name] += 1
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, Struct):
                    _count_codes(each, codes)


class _Asker:
    def __init__(self) -> None:
        self.reply: Any = None

    def reply_value(self, value: Any) -> None:
        self.reply = value


class Stage:
    """``most`` topics, groups and access rules, all with the names of ``name_of``."""

    def __init__(self, broker: Broker, most: int) -> None:
        assert broker._thread is not None
        self._broker = broker
        self._most = most
        self._cluster = broker._server.cluster
        self._node = broker._server.nodes[0]
        self._clock = time.pthread_getcpuclockid(broker._thread.ident or 0)
        self._client = Client(broker.bootstrap, timeout=60)
        self._topic_ids: dict[str, bytes] = {}
        self._lines = 0
        # Whether the last request may have changed them.
        self._must_make_topics = False
        self._call(self._cluster.create_offsets_topic)
        eventually(lambda: not self._node.groups.is_loading, "the offsets topic is loaded")
        self._make_topics()
        self._make_groups(most)

    def close(self) -> None:
        self._client.close()

    def request(self, cls: type[Message], version: int, path: tuple[str, ...], size: int, naming: Naming) -> Message:
        """A request of this shape, for which everything is prepared."""
        api = cls.__name__.removesuffix("Request")
        prepare = getattr(self, f"_before_{api}", None)
        if self._must_make_topics:
            self._make_topics()
        if api in ("DeleteGroups", "OffsetDelete"):
            self._make_groups(size)
        request = shaped(cls, version, path, size, naming, self._topic_ids)
        if prepare is not None:
            prepare(request, path, size)
        return request

    def codes(self, request: Message, version: int) -> Counter[str]:
        """The names of all error codes in the answer."""
        codes: Counter[str] = Counter()
        _count_codes(self._client.ask(request, version), codes)
        return codes

    def lines(self, request: Message, version: int) -> int:
        """How many lines of Python the broker's thread runs for a request."""
        frame = encode_request(request, version, 1, "tests")
        self._wait_until_idle()
        self._call(lambda: sys.settrace(self._trace))
        try:
            self._lines = 0
            self._client.wire.exchange(frame)
            # What the request led to, and what is done after the answer, is its work too.
            self._wait_until_idle()
            return self._call(lambda: self._lines)
        finally:
            self._call(lambda: sys.settrace(None))

    def seconds(self, request: Message, version: int) -> float:
        """The processor time of the broker's thread for a request."""
        frame = encode_request(request, version, 1, "tests")
        before = time.clock_gettime(self._clock)
        self._client.wire.exchange(frame)
        return time.clock_gettime(self._clock) - before

    def _wait_until_idle(self) -> None:
        shards = self._node.groups.coordinator.shards

        def is_idle() -> bool:
            states = [shard._state for shard in shards.values()]
            return not len(self._node.turns) and not any(state.sweeps or state.in_flight for state in states)

        eventually(lambda: self._call(is_idle), "the broker has nothing more to do")

    def _trace(self, _frame: Any, _event: str, _arg: Any) -> Any:
        self._lines += 1
        return self._trace

    def _call(self, function: Callable[[], Any]) -> Any:
        return self._broker._call(function)

    # -- what exists

    def _make_topics(self) -> None:
        cluster = self._cluster

        def make() -> dict[str, bytes]:
            extra = [topic for name, topic in cluster.topics.items() if name.startswith("x")]
            if extra:
                cluster.delete_topics(extra)
            for number in range(self._most):
                name = name_of(number)
                count = self._most if name == WIDE else 1
                topic = cluster.topics.get(name)
                if topic is None:
                    cluster.create_topic(name, [[0]] * count, {})
                else:
                    self._cut(topic, count)
                    if len(topic.partitions) < count:
                        cluster.add_partitions(topic, [[0]] * (count - len(topic.partitions)))
            return {topic.name: topic.id for topic in cluster.topics.values()}

        self._topic_ids = self._call(make)
        self._must_make_topics = False

    def _cut(self, topic: Topic, count: int) -> None:
        while len(topic.partitions) > count:
            self._cluster.leadership.give_up(topic.partitions.pop())
            topic.changed()

    def _make_groups(self, count: int) -> None:
        """An offset for each of so many groups, and of the first group one of as many topics and partitions of one."""
        groups = self._node.groups
        one = [(0, 1, -1, "")]
        everything: list[Any] = [(name_of(number), one) for number in range(1, count)]
        everything.append((WIDE, [(partition, 1, -1, "") for partition in range(count)]))

        def make() -> _Asker:
            asker = _Asker()
            for number in range(1, count):
                groups.submit(CommitOffsets(name_of(number), [(WIDE, one)]), _Asker())  # type: ignore[list-item]
            groups.submit(CommitOffsets(name_of(0), everything), asker)
            return asker

        asker = self._call(make)
        eventually(lambda: asker.reply is not None, "the groups are there")

    def _join(self, group_id: str, instances: list[str | None]) -> list[_Asker]:
        askers = [_Asker() for _ in instances]
        protocols = [("range", b"")]

        def join() -> None:
            for instance_id, asker in zip(instances, askers, strict=True):
                command = JoinGroup(
                    group_id, "", 600_000, 600_000, "consumer", protocols, instance_id, require_known_member_id=False
                )
                self._node.groups.submit(command, asker)

        self._call(join)
        return askers

    # -- what a request needs to know, or puts back

    def _before_OffsetDelete(self, request: Any, _path: tuple[str, ...], _size: int) -> None:
        request.group_id = name_of(0)

    def _before_DeleteTopics(self, request: Any, _path: tuple[str, ...], _size: int) -> None:
        # By name, not by name and id. And all of them alike.
        for topic in request.topics:
            topic.topic_id = ZERO_UUID
        self._call(lambda: self._cut(self._cluster.topics[WIDE], 1))
        self._must_make_topics = True

    def _before_CreateTopics(self, request: Any, path: tuple[str, ...], _size: int) -> None:
        self._must_make_topics = True
        if "assignments" in path:
            for topic in request.topics:
                topic.num_partitions = topic.replication_factor = -1

    def _before_CreatePartitions(self, request: Any, path: tuple[str, ...], size: int) -> None:
        self._must_make_topics = True
        if "assignments" in path:
            for topic in request.topics:
                topic.count = (self._most if topic.name == WIDE else 1) + size

    def _before_IncrementalAlterConfigs(self, request: Any, path: tuple[str, ...], _size: int) -> None:
        if "configs" not in path:
            for resource in request.resources:
                resource.configs = [IncrementalAlterConfigsRequestConfig(name="retention.ms", value="1000")]

    def _before_LeaveGroup(self, request: Any, _path: tuple[str, ...], size: int) -> None:
        request.group_id = f"{name_of(0)}-left"
        self._join(request.group_id, [name_of(number) for number in range(size)])
        for member in request.members:
            member.member_id = ""

    def _before_SyncGroup(self, request: Any, _path: tuple[str, ...], _size: int) -> None:
        request.group_id = f"{name_of(0)}-{time.monotonic_ns()}"
        [joined] = self._join(request.group_id, [None])
        eventually(lambda: joined.reply is not None, "the member has joined")
        request.member_id, request.generation_id = joined.reply.member_id, joined.reply.generation
        request.group_instance_id = None
        request.protocol_type, request.protocol_name = "consumer", "range"

    def _before_Fetch(self, request: Any, path: tuple[str, ...], size: int) -> None:
        if "forgotten_topics_data" not in path or request.cluster_id is not None:
            return
        inner = ("topics", *path[1:])
        opened = shaped(FetchRequest, 17, inner, size, Naming.EXISTING, self._topic_ids)
        opened.session_epoch = 0  # type: ignore[attr-defined]
        request.session_id = self._client.ask(opened, 17).session_id
        request.session_epoch = 1
        request.topics = []

    def _before_CreateAcls(self, _request: Any, _path: tuple[str, ...], _size: int) -> None:
        self._set_rules(0)

    def _before_DeleteAcls(self, _request: Any, _path: tuple[str, ...], size: int) -> None:
        self._set_rules(size)

    def _set_rules(self, count: int) -> None:
        gatekeeper = self._node.security
        if gatekeeper.acls is None:
            return
        rules = {Acl("User:somebody", "READ", "TOPIC", name_of(number)) for number in range(count)}
        created = set(gatekeeper._created_acls)
        self._call(lambda: gatekeeper.change_acls(self._cluster, add=rules - created, remove=created - rules))
