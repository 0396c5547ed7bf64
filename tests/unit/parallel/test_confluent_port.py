"""The port on confluent-kafka, where its client does something that a broker cannot be made to provoke."""

from __future__ import annotations

import confluent_kafka

from seamark.parallel.adapters.confluent import ConfluentPort


class ConsumerThatIsGivenPartitionsWhileItCloses:
    def subscribe(self, _topics, *, on_assign, on_revoke, on_lost):
        self._on_assign, self._on_revoke = on_assign, on_revoke

    def committed(self, _partitions, *, timeout):
        raise confluent_kafka.KafkaException(confluent_kafka.KafkaError(confluent_kafka.KafkaError._DESTROY))

    def close(self):
        given = [confluent_kafka.TopicPartition("orders", 0)]
        self._on_assign(self, given)
        self._on_revoke(self, given)


class Rebalances:
    def __init__(self):
        self.heard = []

    def on_assigned(self, committed):
        self.heard.append(("assigned", committed))

    def on_revoked(self, partitions):
        self.heard.append(("revoked", [str(each) for each in partitions]))

    def on_lost(self, partitions):
        self.heard.append(("lost", partitions))


def test_partitions_that_arrive_while_it_closes_are_not_taken_and_closing_ends_well():
    port = ConfluentPort({"bootstrap.servers": "127.0.0.1:1", "group.id": "billing"}, 1 << 20)
    port._consumer.close()
    port._consumer = ConsumerThatIsGivenPartitionsWhileItCloses()
    told = Rebalances()
    port.subscribe(["orders"], told)
    port.close(1.0)
    assert told.heard == [("revoked", ["orders-0"])]
