"""What the log says while partitions cannot be read and nodes do not answer Fetch, and when that is over."""

from __future__ import annotations

import logging

from seamark.client.core.lasting_failures import LastingFailures
from seamark.client.net.client_log import ClientLog
from seamark.client.timing import now_ms
from seamark.topic_partition import TopicPartition


class FetchWaits:
    def __init__(self, log: ClientLog) -> None:
        self._log = log
        self._partitions: LastingFailures[TopicPartition] = LastingFailures()
        self._nodes: LastingFailures[str] = LastingFailures("has not responded to Fetch", "responds to Fetch again")

    def partition_failed(self, partition: TopicPartition, offset: int, reason: object) -> None:
        if (line := self._partitions.failed(partition, reason, now_ms())) is not None:
            fields = {"partition": str(partition), "offset": offset, "reason": str(reason)}
            self._log.say(logging.WARNING, "partition_waits", line, **fields)

    def partition_goes_on(self, partition: TopicPartition) -> None:
        if (line := self._partitions.succeeded(partition, now_ms())) is not None:
            self._log.say(logging.WARNING, "partition_goes_on", line, partition=str(partition))

    def forget(self, partition: TopicPartition) -> None:
        self._partitions.forget(partition)

    def node_failed(self, node_id: int, reason: object, asked_ms: int) -> None:
        """A request sent at ``asked_ms`` failed, or has no answer although it is time."""
        if (line := self._nodes.failed(f"node {node_id}", reason, now_ms(), since_ms=asked_ms)) is not None:
            self._log.say(logging.WARNING, "node_waits", line, node=node_id, reason=str(reason))

    def node_answered(self, node_id: int) -> None:
        if (line := self._nodes.succeeded(f"node {node_id}", now_ms())) is not None:
            self._log.say(logging.WARNING, "node_goes_on", line, node=node_id)
