"""Which partition a record goes to: the explicit one, the user's partitioner, or the built-in logic (J2 to J7).

Owner: whoever holds the producer's lock; partitioners are asked one record at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from seamark.client.cluster_view import ClusterView
from seamark.client.config.config import ProducerConfig
from seamark.errors import UsageError
from seamark.partitioners import BuiltInPartitioner, Choices, choose_partition, load_partitioner, partition_for_key

QueueLengths = Callable[[str, Iterable[int]], dict[int, int]]


class PartitionChooser:
    def __init__(self, config: ProducerConfig) -> None:
        self._custom = load_partitioner(config.partitioner_class)
        self._ignores_keys = config.partitioner_ignore_keys
        self._is_adaptive = config.partitioner_adaptive_partitioning_enable
        self._sticky_bytes = config.batch_size
        self._built_in: dict[str, BuiltInPartitioner] = {}
        self._choices: dict[str, tuple[int, Choices]] = {}

    def choices(self, topic: str, view: ClusterView) -> Choices | None:
        """The topic's partitions as of this view; None while they are not known."""
        known = self._choices.get(topic)
        if known is not None and known[0] == view.version:
            return known[1]
        known_topic = view.topics.get(topic)
        if known_topic is None or known_topic.error or not known_topic.partitions:
            return None
        led = tuple(index for index, partition in sorted(known_topic.partitions.items()) if partition.leader >= 0)
        count = len(known_topic.partitions)
        choices = Choices(count, None if len(led) == count else led)
        self._choices[topic] = (view.version, choices)
        return choices

    def is_free(self, key: bytes | None, explicit: int | None) -> bool:
        """Whether nothing about the record says where it goes: neither its partition nor its key."""
        return explicit is None and (key is None or self._ignores_keys or self._custom is not None)

    def choose(self, topic: str, key: bytes | None, value: bytes | None, explicit: int | None, choices: Choices) -> int:
        if explicit is not None:
            if isinstance(explicit, bool) or not isinstance(explicit, int) or not 0 <= explicit < choices.count:
                raise UsageError(
                    f"the record is for partition {explicit!r} of topic {topic!r}, which has partitions 0 to "
                    f"{choices.count - 1}"
                )
            return explicit
        if self._custom is not None:
            return choose_partition(self._custom, None, topic, key, value, choices)
        if key is not None and not self._ignores_keys:
            return partition_for_key(key, choices.count)
        return self._sticky(topic).current(choices)

    def sticky_bytes_left(self, topic: str, partition: int) -> int:
        """How many bytes of records without keys may follow to this partition before it must be chosen again."""
        sticky = self._built_in.get(topic)
        if self._custom is not None or sticky is None or sticky.partition != partition:
            return 0
        return sticky.bytes_left

    def appended(
        self,
        topic: str,
        partition: int,
        byte_count: int,
        choices: Choices,
        queue_lengths: QueueLengths,
        *,
        is_batch_full: bool,
    ) -> None:
        """A record went to the partition; says to the logic in use what it wants to know."""
        if self._custom is not None:
            if is_batch_full:
                self._custom.batch_completed(topic, partition, choices)
            return
        sticky = self._built_in.get(topic)
        if sticky is None:
            return
        if self._is_adaptive and (is_batch_full or byte_count >= sticky.bytes_left):
            # It may move on: the queues that decide where to are looked at now.
            sticky.update_load(queue_lengths(topic, choices.usable()))
        sticky.appended(partition, byte_count, choices, last_batch_is_full=is_batch_full)

    def _sticky(self, topic: str) -> BuiltInPartitioner:
        partitioner = self._built_in.get(topic)
        if partitioner is None:
            partitioner = self._built_in[topic] = BuiltInPartitioner(self._sticky_bytes)
        return partitioner
