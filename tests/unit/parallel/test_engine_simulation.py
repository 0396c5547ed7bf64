"""Groups of engines from seeds: nothing lost, keys in order, no commit past unfinished work, bounded repeats."""

from collections import Counter

import pytest

from seamark.parallel.core.ports import Committed
from seamark.parallel.settings import Batch, Commit, DeadLetter, Order, Retry, Settings, Skip
from tests.unit.parallel.engine_world import World

RETRY = Retry(attempts=2, delay=0.1, max_delay=1.0)
FOREVER = Retry(attempts=10_000, delay=0.1, max_delay=1.0)

CASES = {
    "key": (Settings(concurrency=5, retry=FOREVER), {}),
    "partition": (Settings(concurrency=5, order=Order.PARTITION, retry=FOREVER), {}),
    "none": (Settings(concurrency=5, order=Order.NONE, retry=FOREVER), {}),
    "batches": (Settings(concurrency=3, batch=Batch(records=6, wait=0.1), retry=FOREVER), {}),
    "dead letters": (
        Settings(concurrency=5, retry=RETRY, then=DeadLetter(max_ratio=None), batch=Batch(records=3, wait=0.0)),
        {"poison": 0.1},
    ),
    "skip": (Settings(concurrency=5, retry=RETRY, then=Skip(max_ratio=None)), {"poison": 0.1}),
    "small budget": (Settings(concurrency=5, retry=FOREVER, buffer_records=12, buffer_bytes=8_000), {}),
    "short metadata": (Settings(concurrency=5, retry=FOREVER, done_ahead=20, commit=Commit(records=3)), {}),
    "no map": (Settings(concurrency=5, retry=FOREVER, done_ahead=False, commit=Commit(sync=True)), {}),
    "whole polls": (Settings(concurrency=5, retry=FOREVER, delivery="whole_batch"), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_groups_survive_rebalances_crashes_seeks_and_refused_commits(name):
    # covers: H2, H24, I1, I3
    settings, options = CASES[name]
    seen = Counter()
    for seed in range(12):
        world = World(seed, settings, **options)
        try:
            for _ in range(250):
                world.step()
            world.settle()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        for partition in world.partitions:
            assert world.over[partition] >= {record.offset for record in world.log[partition]}
        for member in world.members:
            assert (member.engine.budget.held_bytes, member.engine.budget.held_records) == (0, 0)
        seen += world.seen
    assert min(seen[what] for what in ("commits", "moved", "lost", "crashed", "sought", "stopped")) > 0, seen


class AtMostOnceWorld(World):
    """Here a commit comes first: a handler may only see what is committed, and never twice."""

    def commit(self, partition, to_commit):
        assert to_commit.offset <= self.log_end[partition]
        self.committed[partition] = Committed(*to_commit)
        self.seen["commits"] += 1

    def check_start(self, member, call):
        for work in call.works:
            assert work.offset < self.committed[work.partition].offset, "a record is run before its commit"
            self.runs[work.partition, work.offset] += 1
            assert self.runs[work.partition, work.offset] == 1, "a record is run twice"

    def seek_back(self, member):
        """Who seeks back asks for a second delivery."""


@pytest.mark.parametrize("batch", [None, Batch(records=4, wait=0.1)])
def test_at_most_once_nothing_runs_twice_or_before_its_commit(batch):
    # covers: I2, I4
    settings = Settings(concurrency=5, delivery="at_most_once", then=Skip(max_ratio=None), batch=batch)
    seen = Counter()
    for seed in range(12):
        world = AtMostOnceWorld(seed, settings)
        for _ in range(250):
            world.step()
        world.settle()
        seen += world.seen
        seen["runs"] += sum(world.runs.values())
        for member in world.members:
            assert member.engine.budget.held_records == 0
    assert min(seen[what] for what in ("commits", "moved", "lost", "crashed", "stopped", "runs")) > 0, seen


def test_at_most_once_without_accidents_runs_everything():
    settings = Settings(concurrency=5, delivery="at_most_once", then=Skip(max_ratio=None))
    world = AtMostOnceWorld(1, settings)
    world.settle()
    assert len(world.runs) == sum(map(len, world.log.values()))
