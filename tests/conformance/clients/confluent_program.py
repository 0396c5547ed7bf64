"""confluent-kafka (librdkafka) as a client program."""

from __future__ import annotations

import threading
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance.clients.program import serve


class Confluent:
    """The consumer is used by its own thread only: ``assignment`` keeps Python's lock while it waits for a poll."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = {"bootstrap.servers": bootstrap}
        self._admin = AdminClient(self._bootstrap)
        self._consumer: Consumer | None = None
        self._is_stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._wants_commit = threading.Event()
        self._has_committed = threading.Event()
        self._committed: list[TopicPartition] = []
        self._refusal: KafkaException | None = None
        self._owned: list[int] = []
        self._read: list[str] = []
        self._positions: dict[int, int] = {}

    def create(self, topic: str, partitions: int) -> None:
        self._admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(20)

    def delete_topic(self, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result(20)

    def topics(self) -> list[str]:
        return sorted(self._admin.list_topics(timeout=20).topics)

    def produce(self, topic: str, codec: str, values: list[str]) -> None:
        producer = Producer({**self._bootstrap, "compression.type": codec, "linger.ms": 20})
        count = len(producer.list_topics(topic, 20).topics[topic].partitions)
        failures: list[Any] = []
        for number, value in enumerate(values):
            producer.produce(
                topic, value, partition=number % count, on_delivery=lambda error, _: error and failures.append(error)
            )
        assert producer.flush(30) == 0
        assert not failures, failures

    def join(self, group: str, topic: str, assignor: str, instance: str | None, session_ms: int) -> None:
        options = {
            **self._bootstrap, "group.id": group, "partition.assignment.strategy": assignor,
            "session.timeout.ms": session_ms, "heartbeat.interval.ms": 300, "auto.offset.reset": "earliest",
            "enable.auto.commit": False, "fetch.wait.max.ms": 100,
        }  # fmt: skip
        if instance is not None:
            options["group.instance.id"] = instance
        self._is_stopping.clear()
        self._consumer = Consumer(options)
        self._consumer.subscribe([topic])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        consumer = self._consumer
        assert consumer is not None
        while not self._is_stopping.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                self._read.append(message.value().decode())
                self._positions[message.partition()] = message.offset() + 1
            owned = consumer.assignment()
            self._owned = sorted(each.partition for each in owned)
            # Of a partition that was lost another may have read on: to come back with the old position would be wrong.
            self._positions = {key: value for key, value in self._positions.items() if key in self._owned}
            if self._wants_commit.is_set():
                self._wants_commit.clear()
                offsets = [
                    TopicPartition(each.topic, each.partition, self._positions[each.partition])
                    for each in owned
                    if each.partition in self._positions
                ]
                self._refusal = None
                try:
                    self._committed = consumer.commit(offsets=offsets, asynchronous=False) if offsets else []
                except KafkaException as error:
                    self._refusal = error
                self._has_committed.set()
        consumer.close()

    def status(self) -> dict[str, Any]:
        return {"owned": self._owned, "read": list(self._read)}

    def commit(self) -> dict[str, int]:
        self._has_committed.clear()
        self._wants_commit.set()
        assert self._has_committed.wait(30), "the commit took too long"
        if self._refusal is not None:
            raise self._refusal
        assert all(each.error is None for each in self._committed), self._committed
        return {str(each.partition): each.offset for each in self._committed}

    def leave(self) -> None:
        assert self._thread is not None
        self._is_stopping.set()
        self._thread.join(20)
        assert not self._thread.is_alive()
        self._thread = None
        self._owned = []

    def describe(self, group: str) -> dict[str, Any]:
        described = self._admin.describe_consumer_groups([group])[group].result(20)
        return {"state": described.state.name.title().replace("_", ""), "members": len(described.members)}

    def offsets(self, group: str, topic: str) -> dict[str, int]:
        asked = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        found = asked[group].result(20).topic_partitions
        return {str(each.partition): each.offset for each in found if each.topic == topic and each.offset >= 0}

    def reset(self, group: str, topic: str, partition: int, offset: int) -> None:
        wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition, offset)])
        done = self._admin.alter_consumer_group_offsets([wanted])[group].result(20)
        assert all(each.error is None for each in done.topic_partitions), done

    def delete_group(self, group: str) -> None:
        self._admin.delete_consumer_groups([group])[group].result(20)

    def close(self) -> None:
        if self._thread is not None:
            self.leave()


if __name__ == "__main__":
    serve(Confluent)
