"""Single records at given offsets, read side by side from several partitions."""

from seamark.client import Consumer, TopicPartition
from seamark.moves.record_points import CONSUMER_SETTINGS, read_points
from tests.support.costly_batches import header_bomb, record_bomb
from tests.support.scripted_broker import ScriptedBroker

BAD, GOOD = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_batch_that_cannot_be_read_fails_its_partition_and_no_other():
    with ScriptedBroker() as broker:
        broker.logs = {0: header_bomb(20_000), 1: record_bomb(3)}
        broker.ends = {0: 1, 1: 3}
        with Consumer({**CONSUMER_SETTINGS, "bootstrap.servers": broker.bootstrap}) as consumer:
            found, unreadable = read_points(consumer, {BAD: [0], GOOD: [1]}, {BAD: 1, GOOD: 3})
    assert list(found) == [GOOD]
    assert list(unreadable) == [BAD]
    assert unreadable[BAD].startswith("its records at offset 0 cannot be read: their batch exceeds record.max.headers")
