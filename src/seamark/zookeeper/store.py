"""The offsets of old consumers, in ZooKeeper: ``/consumers/<group>/offsets/<topic>/<partition>``.

ZooKeeper keeps the number alone: metadata and leader epochs are dropped. There is no fencing: whoever may write the
node sets the offset, so a group must have stopped (``active_members``) before somebody else writes for it.

Requests are pipelined; a lost connection is asked anew within the timeout, and what then fails is StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, islice
from types import TracebackType
from typing import Any, NamedTuple, Self

from seamark.errors import SeamarkError
from seamark.stores.contract import BadOffset, GroupOffsets, GroupWrite, Outcomes, StoredOffset, in_batches, is_offset
from seamark.stores.errors import StoreRefused
from seamark.topic_partition import TopicPartition
from seamark.zookeeper import nodes
from seamark.zookeeper.multi_read import read_each
from seamark.zookeeper.session import ZookeeperSession
from seamark.zookeeper.writes import NodeContent, attempt_each, put_each

# Groups whose nodes are listed together; their offsets are read behind one another all the same.
_GROUPS_AT_ONCE = 256
# Offsets that are written together, of one or of many groups.
_WRITTEN_AT_ONCE = 4096


class _OffsetNode(NamedTuple):
    path: str
    topic: str
    partition: int


class ZookeeperStore:
    """An ``OffsetStore``; ``with ZookeeperStore("zk1:2181,zk2:2181/kafka") as store``.

    ``timeout`` is how long one request may take, connecting and reconnecting included. See ``ZookeeperSession`` for
    ``digest``, ``sasl`` and ``tls``.
    """

    keeps_metadata = False

    def __init__(
        self,
        connect: str,
        *,
        timeout: float = 15.0,
        digest: str | None = None,
        sasl: Mapping[str, Any] | None = None,
        tls: Mapping[str, Any] | None = None,
    ) -> None:
        self._session = ZookeeperSession(connect, timeout=timeout, digest=digest, sasl=sasl, tls=tls)
        self.name = self._session.name

    # -- looking

    def groups(self) -> list[str]:
        consumers = self._children([nodes.CONSUMERS])[nodes.CONSUMERS]
        # Old consumers leave groups behind that never committed.
        listed = self._session.each(
            lambda client, group: client.exists_async(nodes.offsets_path(group)), sorted(consumers)
        )
        return [group for group, answer in listed if self._value(answer, nodes.offsets_path(group))]

    def topics(self, group: str) -> list[str]:
        if nodes.why_not_a_node(group) is not None:
            return []
        path = nodes.offsets_path(group)
        return sorted(self._children([path])[path])

    def read(self, group: str, topics: Iterable[str] | None = None) -> GroupOffsets:
        wanted = None if topics is None else {topic for topic in topics if nodes.why_not_a_node(topic) is None}
        return next(self._read_batch([group], wanted))[1]

    def read_partitions(self, group: str, partitions: Iterable[TopicPartition]) -> GroupOffsets:
        """What is stored for just these partitions: one request each, nothing is listed."""
        if nodes.why_not_a_node(group) is not None:
            return GroupOffsets()
        wanted = [
            _OffsetNode(nodes.partition_path(group, *partition), *partition)
            for partition in partitions
            if nodes.why_not_a_node(partition[0]) is None
        ]
        return GroupOffsets(dict(self._contents(wanted)))

    def read_many(self, groups: Iterable[str]) -> Iterator[tuple[str, GroupOffsets]]:
        coming = iter(groups)
        while batch := list(islice(coming, _GROUPS_AT_ONCE)):
            yield from self._read_batch(batch, None)

    def _read_batch(self, groups: list[str], only: set[str] | None) -> Iterator[tuple[str, GroupOffsets]]:
        """List the groups' partitions together, then read all of them in one stream and cut it by group."""
        topics: dict[str, list[str]] = {}
        named = {nodes.offsets_path(group): group for group in groups if nodes.why_not_a_node(group) is None}
        for path, children in self._children(named).items():
            topics[named[path]] = sorted(children if only is None else only.intersection(children))
        listed = self._children(nodes.topic_path(group, topic) for group, names in topics.items() for topic in names)
        # By place: a group may be asked for twice.
        strays: dict[int, list[BadOffset]] = {}

        def partitions(number: int) -> Iterator[tuple[int, _OffsetNode]]:
            group = groups[number]
            for topic in topics.get(group, ()):
                path = nodes.topic_path(group, topic)
                for name in listed[path]:
                    partition = nodes.read_partition(name)
                    if partition is None:
                        strays.setdefault(number, []).append(BadOffset(f"{path}/{name}", name))
                    else:
                        yield number, _OffsetNode(f"{path}/{name}", topic, partition)

        numbered = (node for number in range(len(groups)) for node in partitions(number))
        answers = read_each(self._session, numbered, lambda node: node[1].path)
        by_group = groupby(answers, lambda answer: answer[0][0])
        following = 0
        for number, some in by_group:
            offsets = dict(self._read_contents((node, answer) for (_, node), answer in some))
            for without in range(following, number):
                yield groups[without], GroupOffsets(strays=strays.get(without, ()))
            yield groups[number], GroupOffsets(offsets, strays.get(number, ()))
            following = number + 1
        for without in range(following, len(groups)):
            yield groups[without], GroupOffsets(strays=strays.get(without, ()))

    def _contents(self, wanted: Iterable[_OffsetNode]) -> Iterator[tuple[TopicPartition, StoredOffset | BadOffset]]:
        return self._read_contents(read_each(self._session, wanted, lambda node: node.path))

    def _read_contents(
        self, answers: Iterable[tuple[_OffsetNode, Any]]
    ) -> Iterator[tuple[TopicPartition, StoredOffset | BadOffset]]:
        for node, answer in answers:
            content = self._value(answer, node.path)
            if content is not None:
                yield TopicPartition(node.topic, node.partition), nodes.read_offset(node.path, content[0])

    def _children(self, paths: Iterable[str]) -> dict[str, list[str]]:
        """The names below each path; none below one that does not exist."""
        asked = self._session.each(lambda client, path: client.get_children_async(path), paths)
        return {path: self._value(answer, path) or [] for path, answer in asked}

    def _value(self, answer: Any, path: str) -> Any:
        """An answer about a node; None where there is no such node."""
        if isinstance(answer, self._session.missing):
            return None
        if isinstance(answer, Exception):
            raise self._session.fault(answer, path) from answer
        return answer

    # -- changing

    def write(self, group: str, offsets: Mapping[TopicPartition, StoredOffset]) -> Outcomes:
        return next(self.write_many([(group, offsets)]))[1]

    def write_many(self, items: Iterable[GroupWrite]) -> Iterator[tuple[str, Outcomes]]:
        for batch in in_batches(items, _WRITTEN_AT_ONCE):
            yield from self._write_batch(batch)

    def _write_batch(self, batch: list[GroupWrite]) -> Iterator[tuple[str, Outcomes]]:
        outcomes: list[Outcomes] = [{} for _ in batch]
        wanted: dict[tuple[int, TopicPartition], NodeContent] = {}
        for number, (group, offsets) in enumerate(batch):
            for partition, stored in offsets.items():
                fault = self._why_not(group, partition, stored.offset)
                outcomes[number][partition] = fault
                if fault is None:
                    path = nodes.partition_path(group, *partition)
                    wanted[number, partition] = NodeContent(path, nodes.offset_text(stored.offset))
        for (number, partition), fault in put_each(self._session, wanted).items():
            outcomes[number][partition] = fault
        for (group, _), outcome in zip(batch, outcomes, strict=True):
            yield group, outcome

    def _why_not(self, group: str, partition: TopicPartition, offset: int) -> SeamarkError | None:
        for what, text in (("group", group), ("topic", partition.topic)):
            reason = nodes.why_not_a_node(text)
            if reason is not None:
                return StoreRefused(self.name, f"{what} {text!r} is not a valid node name: {reason}")
        if partition.partition < 0:
            return StoreRefused(self.name, f"{partition} is not a partition")
        if not is_offset(offset):
            return StoreRefused(self.name, f"{offset} for {partition} of group {group!r} is not an offset")
        return None

    def delete(self, group: str, partitions: Iterable[TopicPartition]) -> Outcomes:
        """Remove the nodes; topics and the group go with their last partition, as the contract's ``groups`` says."""
        outcomes: Outcomes = {}
        wanted = []
        for partition in partitions:
            fault = self._why_not(group, partition, 0)
            outcomes[partition] = fault
            if fault is None:
                wanted.append(partition)
        for partition, answer in attempt_each(
            self._session,
            lambda client, partition: client.delete_async(nodes.partition_path(group, *partition)),
            wanted,
        ):
            if isinstance(answer, SeamarkError):
                outcomes[partition] = answer
            elif isinstance(answer, Exception) and not isinstance(answer, self._session.missing):
                outcomes[partition] = self._session.fault(answer, nodes.partition_path(group, *partition))
        emptied = [nodes.topic_path(group, topic) for topic in sorted({partition.topic for partition in wanted})]
        for paths in (emptied, [nodes.offsets_path(group)] if wanted else []):
            # One that still holds something stays, which is what is wanted.
            for _ in attempt_each(self._session, lambda client, path: client.delete_async(path), paths):
                pass
        return outcomes

    # -- who is there

    def active_members(self, group: str) -> list[str]:
        return next(self.active_members_many([group]))[1]

    def active_members_many(self, groups: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
        coming = iter(groups)
        while batch := list(islice(coming, _GROUPS_AT_ONCE)):
            named = {nodes.members_path(group): group for group in batch if nodes.why_not_a_node(group) is None}
            members_of = {named[path]: sorted(members) for path, members in self._children(named).items()}
            # Owners without a member: a consumer that registers in a way of its own, or one that is just leaving.
            for group, owners in self._owners([group for group, members in members_of.items() if not members]).items():
                members_of[group] = sorted(owners)
            for group in batch:
                yield group, members_of.get(group, [])

    def _owners(self, groups: list[str]) -> dict[str, set[str]]:
        paths = {nodes.owners_path(group): group for group in groups}
        topics = {f"{path}/{topic}": paths[path] for path, names in self._children(paths).items() for topic in names}
        partitions = {
            f"{path}/{name}": topics[path] for path, names in self._children(topics).items() for name in names
        }
        owners: dict[str, set[str]] = {}
        for path, answer in self._session.each(lambda client, path: client.get_async(path), partitions):
            content = self._value(answer, path)
            if content is not None:
                owner = (content[0] or b"").decode("utf-8", "backslashreplace")
                owners.setdefault(partitions[path], set()).add(owner or f"the owner of {path}")
        return owners

    # -- life

    def close(self) -> None:
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<ZookeeperStore {self.name.removeprefix('zookeeper ')}>"
