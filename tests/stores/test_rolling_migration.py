"""Three running consumers move their offsets from ZooKeeper to Kafka and back, one restart at a time.

Records arrive all the while. Nothing may be lost, and a record may come again only if nobody had committed it when its
partition was assigned: that is what "repeats within the commit interval" means. Members are stopped without a last
commit, so that there is something to repeat.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import defaultdict

from seamark import Broker
from seamark.client import Admin, Consumer, Producer
from seamark.client.errors import CommitFailed, RebalanceInProgress
from seamark.stores import ZookeeperStore
from seamark.topic_partition import TopicPartition

PARTITIONS = 6
COMMIT_INTERVAL_S = 0.15
# Before, through both stores, in the new one; and back in the same way.
FORTH = [("zookeeper", False), ("kafka", True), ("kafka", False)]
BACK = [("zookeeper", True), ("zookeeper", False)]


class Watch:
    """What happened, in the order in which it did; all methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = 0
        self.delivered: dict[TopicPartition, set[int]] = defaultdict(set)
        self.commits: dict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)
        self.repeats = 0
        self.wrong: list[str] = []

    def tick(self) -> int:
        with self._lock:
            self._now += 1
            return self._now

    def committed(self, offsets: dict[TopicPartition, int]) -> None:
        at = self.tick()
        with self._lock:
            for partition, offset in offsets.items():
                self.commits[partition].append((at, offset))

    def arrived(self, partition: TopicPartition, offset: int, assigned_at: int) -> None:
        with self._lock:
            if offset in self.delivered[partition]:
                self.repeats += 1
                for at, committed in self.commits[partition]:
                    if at < assigned_at and committed > offset:
                        self.wrong.append(f"{partition} {offset} came again, {committed} was committed before")
            self.delivered[partition].add(offset)

    @property
    def count(self) -> int:
        with self._lock:
            return sum(map(len, self.delivered.values()))


class Member(threading.Thread):
    """A consumer that commits from time to time, and not at its end."""

    def __init__(self, watch: Watch, options: dict[str, object]) -> None:
        super().__init__()
        self._watch = watch
        self._options = options
        self._is_over = threading.Event()
        self.has_partitions = threading.Event()
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            with Consumer(self._options) as consumer:
                self._consume(consumer)
        except BaseException as error:  # noqa: BLE001 - told by the test's own thread
            self.error = error

    def _consume(self, consumer: Consumer) -> None:
        assigned: dict[TopicPartition, int] = {}

        def on_assigned(partitions: list[TopicPartition]) -> None:
            at = self._watch.tick()
            assigned.update(dict.fromkeys(partitions, at))
            if partitions:
                self.has_partitions.set()

        done: dict[TopicPartition, int] = {}
        consumer.subscribe(["events"], on_assigned=on_assigned, on_revoked=lambda _: done.clear())
        due = time.monotonic() + COMMIT_INTERVAL_S
        while not self._is_over.is_set():
            for record in consumer.poll(0.05):
                partition = TopicPartition(record.topic, record.partition)
                self._watch.arrived(partition, record.offset, assigned[partition])
                done[partition] = record.offset + 1
            if done and time.monotonic() >= due:
                # While the group rebalances a commit may be refused; what is not committed comes again.
                with contextlib.suppress(RebalanceInProgress, CommitFailed):
                    consumer.commit(dict(done))
                    self._watch.committed(dict(done))
                    done.clear()
                due = time.monotonic() + COMMIT_INTERVAL_S

    def stop(self) -> None:
        self._is_over.set()
        self.join(30)
        assert not self.is_alive()
        assert self.error is None, self.error


# covers: G6, G8, G9
def test_three_consumers_move_to_kafka_and_back_one_at_a_time(zookeeper_connect):
    settings = {"offsets.zookeeper.connect": zookeeper_connect, "group.initial.rebalance.delay.ms": 0}
    watch = Watch()
    with Broker(settings=settings) as broker, ZookeeperStore(zookeeper_connect) as zookeeper:
        broker.create_topic("events", partitions=PARTITIONS)
        production = Production(broker.bootstrap)

        def options(number: int, storage: str, dual: bool) -> dict[str, object]:
            made: dict[str, object] = {
                "bootstrap.servers": broker.bootstrap, "group.id": "movers", "enable.auto.commit": False,
                "auto.offset.reset": "earliest", "heartbeat.interval.ms": 50, "offsets.storage": storage,
                "dual.commit.enabled": dual,
            }  # fmt: skip
            # Members reach ZooKeeper in both ways there are.
            return made if number == 2 else {**made, "zookeeper.connect": zookeeper_connect}

        members = [Member(watch, options(number, *FORTH[0])) for number in range(3)]
        try:
            for number, settled in enumerate([*FORTH[1:], *BACK]):
                for place in range(3):
                    _progress(watch, members)
                    members[place].stop()
                    members[place] = Member(watch, options(place, *settled))
                    assert members[place].has_partitions.wait(20)
                _progress(watch, members)
                if settled[1]:
                    _both_move(broker, zookeeper)
                elif number == 1:
                    _only_one_moves(broker, zookeeper, settled[0])
            _only_one_moves(broker, zookeeper, "zookeeper")
            sent = production.stop()
            _wait_until(lambda: watch.count == sum(sent.values()) or not all(each.is_alive() for each in members))
        finally:
            production.stop()
            for member in members:
                member.stop()
    assert {partition: set(range(count)) for partition, count in sent.items()} == dict(watch.delivered)
    assert watch.wrong == []
    # Fourteen restarts and their rebalances, with a commit interval of records each: were it none, nothing was tested.
    assert 0 < watch.repeats < sum(sent.values())


class Production:
    """A steady stream of records to all partitions."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._is_over = threading.Event()
        self._sent: dict[TopicPartition, int] = defaultdict(int)
        self._thread = threading.Thread(target=self._produce)
        self._thread.start()

    def _produce(self) -> None:
        with Producer(bootstrap_servers=self._bootstrap) as producer:
            number = 0
            while not self._is_over.wait(0.005):
                partition = number % PARTITIONS
                producer.send("events", value=b"%d" % number, partition=partition)
                self._sent[TopicPartition("events", partition)] += 1
                number += 1

    def stop(self) -> dict[TopicPartition, int]:
        self._is_over.set()
        self._thread.join()
        return dict(self._sent)


def _wait_until(holds) -> None:
    until = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < until, "it did not come to it in 30 s"
        time.sleep(0.02)


def _progress(watch: Watch, members: list[Member]) -> None:
    """Let everybody read and commit for a few intervals."""
    before = watch.count
    time.sleep(2 * COMMIT_INTERVAL_S)
    _wait_until(lambda: watch.count > before or any(each.error for each in members))


def _positions(broker, zookeeper) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        kafka = {each: found.offset for each, found in admin.list_group_offsets(["movers"])["movers"].items()}
    return {each: found.offset for each, found in zookeeper.read("movers").good.items()}, kafka


def _both_move(broker, zookeeper) -> None:
    before = _positions(broker, zookeeper)

    def have_moved() -> bool:
        now = _positions(broker, zookeeper)
        return all(now[side].get(each, 0) > offset for side in (0, 1) for each, offset in before[side].items())

    _wait_until(have_moved)


def _only_one_moves(broker, zookeeper, storage: str) -> None:
    moving, still = (1, 0) if storage == "kafka" else (0, 1)
    before = _positions(broker, zookeeper)
    _wait_until(
        lambda: all(_positions(broker, zookeeper)[moving][each] > before[moving][each] for each in before[moving])
    )
    assert _positions(broker, zookeeper)[still] == before[still]
