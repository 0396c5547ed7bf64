"""What all nodes share: topics and their partitions, the cluster's identity, and what of it outlives the process.

``Cluster`` is the only one that adds, changes or removes topics. With a data directory a change is durable before it
is answered; a topic's name leaves the state file before its logs leave the disk, so a crash in between leaves only
directories that the next start removes. The changes of one request are one write of the state file, whose size is that
of the cluster.
"""

from __future__ import annotations

import base64
import re
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

from seamark.broker.cluster.leadership import Leadership, spread
from seamark.broker.cluster.nodes import ClusterNode
from seamark.broker.cluster.state import STATE_FILE, BrokerState
from seamark.broker.cluster.topics import OFFSETS_TOPIC, Topic, metric_name
from seamark.broker.config.settings import BrokerSettings
from seamark.broker.config.topic_configs import TopicConfig, parse_topic_configs, values_without_own
from seamark.broker.log.partition import NO_LEADER, Partition
from seamark.broker.log.storage import DELETED, LogStorage
from seamark.broker.refusals import RequestRefused
from seamark.counts import counted
from seamark.errors import ConfigError, SeamarkError, UsageError
from seamark.readable_log import readable_logger
from seamark.storage.errors import LogError, StorageFailed
from seamark.storage.files.names import FORMAT_FILE
from seamark.storage.recovery.recovery import remove_log
from seamark.wire.protocol.error_codes import ErrorCode

_log = readable_logger("seamark.broker")

_PARTITION_DIRECTORY = re.compile(r"(.+)-(\d+)")
# Producer ids are taken from the state file in blocks, so that most requests for one write nothing.
_PRODUCER_ID_BLOCK = 1000

# A new topic: its name, the replicas of each partition, and its own configuration.
NewTopic = tuple[str, Sequence[Sequence[int]], Mapping[str, Any]]


def _at_once(work: Iterator[None]) -> None:
    deque(work, maxlen=0)


class Cluster:
    """Owned by the event loop's thread. ``run`` is given what may take long, such as removing many files."""

    def __init__(
        self, settings: BrokerSettings, storage: LogStorage, run: Callable[[Generator[None]], None] = _at_once
    ) -> None:
        self.settings = settings
        self.storage = storage
        self.state = BrokerState(storage.filesystem, storage.directory)
        self.cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self.nodes: list[ClusterNode] = []
        self.leadership = Leadership(self.nodes)
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[bytes, Topic] = {}
        # How many there are in all topics.
        self.partition_total = 0
        # The names as metrics have them, under which no two topics may have the same.
        self.topics_by_metric_name: dict[str, str] = {}
        self._run = run
        # The partitions of deleted topics whose logs are still to be removed.
        self._removals: dict[str, list[Partition]] = {}
        self._values_without_own = values_without_own(settings)
        self._config_without_own = self._new_config({})
        self._next_producer_id = 0
        self._producer_id_limit = 0
        # Whether the state file is older than what it is to hold.
        self._is_behind = False
        settings.watch(self._settings_changed)

    # -- lookups

    def partitions(self) -> Iterator[Partition]:
        for topic in self.topics.values():
            yield from topic.partitions

    def partition(self, topic_name: str, index: int) -> Partition | None:
        topic = self.topics.get(topic_name)
        return None if topic is None else topic.partition(index)

    def partition_count(self, topic_name: str) -> int | None:
        """How many partitions a topic has; None when it does not exist."""
        topic = self.topics.get(topic_name)
        return None if topic is None else len(topic.partitions)

    @property
    def running_nodes(self) -> list[ClusterNode]:
        return [node for node in self.nodes if node.is_running]

    @property
    def controller_id(self) -> int:
        """The first node that runs; -1 when none does."""
        return next((node.id for node in self.nodes if node.is_running), NO_LEADER)

    @property
    def default_replication_factor(self) -> int:
        """As configured; by default as many replicas as a test of failover needs and the nodes allow."""
        if self.settings.is_given("default.replication.factor"):
            return int(self.settings["default.replication.factor"])
        return min(3, len(self.nodes))

    # -- the life of topics; the rules that a request is checked by are in ``topic_rules``

    def create_topic(self, name: str, replicas: Sequence[Sequence[int]], configs: Mapping[str, Any]) -> Topic:
        """Add a topic whose values were checked, one list of replicas per partition."""
        return self.create_topics([(name, replicas, configs)])[0]

    def create_topics(self, wanted: Sequence[NewTopic]) -> list[Topic]:
        """Add topics, all of them or with StorageFailed none."""
        made = []
        for name, _, configs in wanted:
            # The directory of an earlier topic of the name must be gone.
            _at_once(self._remove_logs_of(name))
            topic = Topic(name, uuid.uuid4().bytes, self._config(configs))
            self._enter(topic)
            made.append(topic)
        try:
            self.add_partitions_to([(topic, replicas) for topic, (_, replicas, _) in zip(made, wanted, strict=True)])
        except StorageFailed:
            for topic in made:
                self._take_out(topic)
            raise
        return made

    def add_partitions(self, topic: Topic, replicas: Sequence[Sequence[int]]) -> None:
        self.add_partitions_to([(topic, replicas)])

    def add_partitions_to(self, wanted: Sequence[tuple[Topic, Sequence[Sequence[int]]]]) -> None:
        """Give topics more partitions; their first leader epochs are durable before anything is written under them."""
        added: list[tuple[Topic, Partition]] = []
        for topic, replicas in wanted:
            topic.changed()
            for node_ids in replicas:
                partition = Partition(topic, len(topic.partitions), list(node_ids), self.storage)
                topic.partitions.append(partition)
                added.append((topic, partition))
        self.partition_total += len(added)
        self.leadership.settle([partition for _, partition in added])
        try:
            self.save()
        except StorageFailed:
            self.partition_total -= len(added)
            for topic, partition in reversed(added):
                self.leadership.give_up(partition)
                topic.partitions.pop()
                topic.changed()
            raise

    def delete_topic(self, topic: Topic) -> None:
        self.delete_topics([topic])

    def delete_topics(self, topics: Sequence[Topic]) -> None:
        """Remove topics, all of them or with StorageFailed none. Their files go afterwards, a few at a time."""
        for topic in topics:
            self._take_out(topic)
        try:
            self.save()
        except StorageFailed:
            for topic in topics:
                self._enter(topic)
            raise
        for topic in topics:
            for partition in topic.partitions:
                self.leadership.give_up(partition)
                partition.retire()
            self._removals[topic.name] = [partition for partition in topic.partitions if partition.is_open]
        for node in self.nodes:
            for part in node.parts:
                part.topics_deleted([topic.name for topic in topics])
        self._run(self._remove_logs([topic.name for topic in topics]))

    def _enter(self, topic: Topic) -> None:
        self.topics[topic.name] = self.topics_by_id[topic.id] = topic
        self.topics_by_metric_name[metric_name(topic.name)] = topic.name
        self.partition_total += len(topic.partitions)

    def _take_out(self, topic: Topic) -> None:
        del self.topics[topic.name], self.topics_by_id[topic.id]
        self.topics_by_metric_name.pop(metric_name(topic.name), None)
        self.partition_total -= len(topic.partitions)

    def _remove_logs(self, names: Sequence[str]) -> Generator[None]:
        for name in names:
            yield from self._remove_logs_of(name)

    def _remove_logs_of(self, name: str) -> Generator[None]:
        """Remove what is left of a deleted topic, unless somebody else has done so."""
        while left := self._removals.get(name):
            partition = left.pop()
            try:
                partition.delete_log()
            except LogError as error:
                _log.warning(
                    "%s of a deleted topic could not be removed and stays on disk until the next start: %s",
                    partition.name,
                    error,
                )
            yield
        self._removals.pop(name, None)

    def recreate_topic(self, name: str) -> Topic:
        topic = self.topics.get(name)
        if topic is None:
            raise UsageError(f"there is no topic {name!r}")
        replicas = [partition.replicas for partition in topic.partitions]
        self.delete_topic(topic)
        return self.create_topic(name, replicas, topic.config.own)

    def change_configs(
        self,
        topics: Sequence[tuple[Topic, Mapping[str, Any]]],
        settings: Mapping[bool, Mapping[str, Any]],
    ) -> None:
        """Give topics other values of their own, and the broker other ``settings``: all of them, or with StorageFailed
        none. The settings are by whether they are the default for all nodes; None takes a value back.
        """
        topics_before = [(topic, topic.config) for topic, _ in topics]
        settings_before = {is_default: self._present(values, is_default) for is_default, values in settings.items()}
        for is_default, values in settings.items():
            self.settings.change(values, is_default=is_default)
        for topic, own in topics:
            topic.config = self._config(own)
            topic.changed()
        try:
            self.save()
        except StorageFailed:
            for is_default, values in settings_before.items():
                self.settings.change(values, is_default=is_default)
            for topic, config in topics_before:
                topic.config = config
                topic.changed()
            raise
        for topic, _ in topics:
            self._apply_log_settings(topic)

    def _present(self, names: Iterable[str], is_default: bool) -> dict[str, Any]:
        layer = self.settings.dynamic_default if is_default else self.settings.dynamic
        return {name: layer.get(name) for name in names}

    def offsets_topic(self) -> Topic | None:
        """``__consumer_offsets``, or None while nobody has asked for a coordinator."""
        return self.topics.get(OFFSETS_TOPIC)

    def create_offsets_topic(self) -> Topic:
        """Make ``__consumer_offsets`` as Kafka does, or return it when it is there."""
        existing = self.topics.get(OFFSETS_TOPIC)
        if existing is not None:
            return existing
        node_ids = [node.id for node in self.nodes]
        factor = min(int(self.settings["offsets.topic.replication.factor"]), len(node_ids))
        replicas = spread(OFFSETS_TOPIC, 0, self.settings["offsets.topic.num.partitions"], node_ids, factor)
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(self.settings["offsets.topic.segment.bytes"]),
        }
        return self.create_topic(OFFSETS_TOPIC, replicas, parse_topic_configs(configs))

    def next_producer_id(self) -> int:
        """Return an id that no producer ever had."""
        if self._next_producer_id >= self._producer_id_limit:
            before, self._producer_id_limit = self._producer_id_limit, self._next_producer_id + _PRODUCER_ID_BLOCK
            try:
                self.save()
            except StorageFailed:
                # What is not in the state file may be given away again after a restart.
                self._producer_id_limit = before
                raise
        self._next_producer_id += 1
        return self._next_producer_id - 1

    # -- nodes

    def node_started(self, node: ClusterNode) -> None:
        _log.info("node %d listens on %s", node.id, node.bootstrap)
        if self.leadership.settle(self.partitions()):
            self._save_leaders()

    def node_stopped(self, node: ClusterNode) -> None:
        _log.info("node %d stopped", node.id)
        if self.leadership.settle(self.partitions()):
            self._save_leaders()

    def _save_leaders(self) -> None:
        """Store who leads now; a disk that fails must not leave a node between running and stopped."""
        try:
            self.save()
        except StorageFailed as error:
            _log.error("the partition leaders could not be stored; retried with the next change: %s", error)

    def rebalance_leaders(self) -> None:
        """Give partitions back to their preferred leaders, as Kafka does from time to time."""
        if self.leadership.bring_home(self.partitions()) or self._is_behind:
            self.save()

    def move_leader(self, partition: Partition, node_id: int) -> None:
        """Make a running node the leader of a partition."""
        if not 0 <= node_id < len(self.nodes) or not self.nodes[node_id].is_running:
            raise UsageError(f"node {node_id} is not running")
        self.leadership.move(partition, node_id)
        self.save()

    # -- configuration

    def _config(self, values: Mapping[str, Any]) -> TopicConfig:
        return self._new_config(values) if values else self._config_without_own

    def _new_config(self, values: Mapping[str, Any]) -> TopicConfig:
        return TopicConfig(values, self._values_without_own, self.storage.durability)

    def _settings_changed(self) -> None:
        self._values_without_own = values_without_own(self.settings)
        self._config_without_own = self._new_config({})
        for topic in self.topics.values():
            topic.config = self._config(topic.config.own)
            self._apply_log_settings(topic)

    def _apply_log_settings(self, topic: Topic) -> None:
        for partition in topic.partitions:
            if partition.is_open:
                partition.log.settings = topic.config.log_settings

    # -- what outlives the process

    def save(self) -> None:
        """Make topics and ids durable; in memory there is nothing to do, unless that is to look full."""
        self._is_behind = True
        if self.storage.is_in_memory:
            self.storage.filesystem.check_room(self.state.path)
        else:
            self._write_state()
        self._is_behind = False

    def _write_state(self) -> None:
        self.state.sections["cluster_id"] = self.cluster_id
        self.state.sections["producer_id_limit"] = self._producer_id_limit
        self.state.sections["settings"] = self.settings.dynamic
        self.state.sections["default_settings"] = self.settings.dynamic_default
        self.state.save(topic.stored() for topic in self.topics.values())

    def load(self) -> None:
        """Take up what an earlier process left; logs that hold something are opened."""
        if self.storage.is_in_memory:
            return
        if self.state.load():
            sections = self.state.sections
            self.cluster_id = sections["cluster_id"]
            self._next_producer_id = self._producer_id_limit = sections["producer_id_limit"]
            self.settings.change(sections["settings"])
            self.settings.change(sections["default_settings"], is_default=True)
            for name, stored in sections["topics"].items():
                self._load_topic(name, stored)
        else:
            self._refuse_logs_without_state()
        # Before any log is opened, which takes away its mark of a clean end: a disk without room is noticed here.
        self.save()
        self._remove_leftovers()
        for partition in self.partitions():
            if self.storage.has_log(partition):
                partition.log  # noqa: B018

    def _refuse_logs_without_state(self) -> None:
        """A file that was lost or taken away must not cost the logs as well, which would belong to no topic."""
        filesystem, directory = self.storage.filesystem, self.storage.directory
        logs = [
            entry
            for entry in filesystem.list(directory)
            if _PARTITION_DIRECTORY.fullmatch(entry) and filesystem.exists(f"{directory}/{entry}/{FORMAT_FILE}")
        ]
        if logs:
            raise UsageError(
                f"{directory} holds {counted(len(logs), 'log')} ({logs[0]}{', …' if len(logs) > 1 else ''}) but no "
                f"{STATE_FILE}, which lists their topics: restore that file, or start with an empty directory"
            )

    def _load_topic(self, name: str, stored: Mapping[str, Any]) -> None:
        topic = Topic(name, bytes.fromhex(stored["id"]), self._config(stored["config"]))
        node_ids = [node.id for node in self.nodes]
        for index, stored_partition in enumerate(stored["partitions"]):
            # The broker may have been started with fewer nodes than before.
            replicas = [node_id for node_id in stored_partition["replicas"] if node_id in node_ids]
            partition = Partition(topic, index, replicas or spread(name, index, 1, node_ids, 1)[0], self.storage)
            # The start of the process begins an epoch; a crash may have taken the end of what the last one wrote.
            partition.leader_epoch = stored_partition["leader_epoch"]
            topic.partitions.append(partition)
        self._enter(topic)

    def _remove_leftovers(self) -> None:
        known = {partition.name for partition in self.partitions()}
        filesystem, directory = self.storage.filesystem, self.storage.directory
        for entry in filesystem.list(directory):
            is_of_no_topic = _PARTITION_DIRECTORY.fullmatch(entry) and entry not in known
            if is_of_no_topic or entry.endswith(DELETED):
                _log.warning("%s/%s belongs to no topic and is removed", directory, entry)
                remove_log(filesystem, f"{directory}/{entry}")

    def close(self) -> dict[str, list[str]]:
        """Close all logs, each with its mark of a clean end; by reason, the partitions that could not be."""
        _at_once(self._remove_logs(list(self._removals)))
        failed: dict[str, list[str]] = {}
        for partition in self.partitions():
            try:
                partition.close()
            except SeamarkError as error:
                reason = error.reason if isinstance(error, LogError) else str(error)
                failed.setdefault(reason, []).append(partition.name)
        return failed


def require_topic(cluster: Cluster, name: str) -> Topic:
    """Return a topic, or refuse as Kafka does for one that does not exist."""
    topic = cluster.topics.get(name)
    if topic is None:
        raise RequestRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
    return topic


def check_node_count(count: int) -> None:
    if not 1 <= count <= 100:
        raise ConfigError("nodes", count, "it must be from 1 to 100")
