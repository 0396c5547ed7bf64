"""Two stores and a plan between them, in memory, and a fuse that ends the process at a chosen step."""

from __future__ import annotations

import os

from seamark.moves import (
    Aim,
    Choices,
    GroupMove,
    Journal,
    Kind,
    MoveHeader,
    Mover,
    Place,
    Returner,
    Side,
    plan_groups,
    write_move,
)
from seamark.stores import FileStore, StoredOffset
from seamark.topic_partition import TopicPartition

NOW_MS = 1_800_000_000_000


def at(index: int, topic: str = "orders") -> TopicPartition:
    return TopicPartition(topic, index)


class Killed(BaseException):
    """What ``kill -9`` is to a process: nothing may catch it."""


class Fuse:
    """Burns one step at each thing that is done, and kills at the given one; None never does."""

    def __init__(self, steps: int | None = None) -> None:
        self._left = steps
        self.burnt = 0

    def step(self) -> None:
        if self._left is not None:
            if self._left == 0:
                raise Killed
            self._left -= 1
        self.burnt += 1


class FusedStore(FileStore):
    """A store in memory whose every write and read is a step; groups are written partition by partition."""

    def __init__(self) -> None:
        super().__init__(":memory:")
        self.fuse = Fuse()
        self.members: dict[str, list[str]] = {}

    def read_many(self, groups):
        self.fuse.step()
        yield from list(super().read_many(groups))

    def write_many(self, items):
        for group, offsets in items:
            outcomes = {}
            for partition, offset in offsets.items():
                outcomes |= self.write(group, {partition: offset})
                self.fuse.step()
            yield group, outcomes

    def delete(self, group, partitions):
        outcomes = {}
        for partition in partitions:
            outcomes |= super().delete(group, [partition])
            self.fuse.step()
        return outcomes

    def active_members_many(self, groups):
        for group in groups:
            yield group, self.members.get(group, [])


class FusedJournal(Journal):
    """A journal that can die before a line, in the middle of it and behind it."""

    fuse = Fuse()

    def _append(self, content):
        self.fuse.step()
        try:
            self.fuse.step()
        except Killed:
            os.write(self._handle, b'{"at":"2026-11-')
            raise
        super()._append(content)
        self.fuse.step()


class Numbers:
    """Aims at the same number, but for partitions that have a problem."""

    def __init__(self, problems=None) -> None:
        self._problems = problems or {}

    def aims(self, wanted):
        return {
            (partition, offset): Aim(None, problem=self._problems[partition])
            if partition in self._problems
            else Aim(offset, "same log")
            for partition, offsets in wanted.items()
            for offset in offsets
        }

    def topic_ids(self):
        return {}


class World:
    """``contents`` has source offsets, ``there`` target offsets, per group and partition index of one topic."""

    def __init__(self, directory, contents, there=None, *, problems=None, choices=None) -> None:
        self.path = directory / "plan.jsonl"
        self.source_store, self.target_store = FusedStore(), FusedStore()
        _fill(self.source_store, contents)
        _fill(self.target_store, there or {})
        self.source = Side("file", "here", self.source_store)
        self.target = Side("file", "there", self.target_store)
        aiming = Numbers(problems)
        header = MoveHeader(Kind.GROUP_TO_GROUP, self.source.place, self.target.place, NOW_MS, "test")
        groups = plan_groups(self.source, self.target, sorted(contents), aiming, choices or Choices())
        self.plan = write_move(self.path, header, groups, aiming.topic_ids)
        self.fuse = Fuse()

    def light(self, steps):
        self.fuse = self.source_store.fuse = self.target_store.fuse = Fuse(steps)

    def move(self, **options):
        return self._work(
            lambda journal: Mover(self.plan, self.source, self.target, journal, lambda: NOW_MS, **options)
        )

    def go_back(self, **options):
        return self._work(lambda journal: Returner(self.plan, self.target, journal, lambda: NOW_MS, **options))

    def _work(self, make):
        FusedJournal.fuse = self.fuse
        with FusedJournal(self.plan, now_ms=NOW_MS) as journal:
            work = make(journal)
            return {outcome.group: outcome for outcome in work.outcomes()}

    def held(self, store=None):
        store = store or self.target_store
        store.fuse, fuse = Fuse(), store.fuse
        found = {
            group: {partition.partition: each.offset for partition, each in offsets.items()}
            for group, offsets in store.read_many(store.groups())
        }
        store.fuse = fuse
        return {group: offsets for group, offsets in found.items() if offsets}


def _fill(store, contents):
    for group, offsets in contents.items():
        store.write(group, {at(index): StoredOffset(offset) for index, offset in offsets.items()})


def group_move(name="g", **fields) -> GroupMove:
    return GroupMove(**({"group": name, "to_group": name, "moves": ()} | fields))


HEADER = MoveHeader(
    Kind.ZOOKEEPER_TO_KAFKA, Place("zookeeper", "zk:2181"), Place("kafka", "b:9092", "cluster"), NOW_MS, "--all"
)
