"""The owner of a poll loop: commits that cost one wait at most, their outcomes, and what is known without a wait."""

import pytest

from seamark import Broker
from seamark.client import Offset, OwnedConsumer, Producer, TopicPartition
from seamark.client.errors import BrokerError, WakeUp
from seamark.client.net.io_thread import IoThread
from seamark.errors import ClosedError
from tests.support.waiting import eventually

T0 = TopicPartition("t", 0)
REFUSED = "GROUP_AUTHORIZATION_FAILED"


@pytest.fixture
def broker():
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as made:
        made.create_topic("t")
        with Producer(bootstrap_servers=made.bootstrap) as producer:
            for number in range(10):
                producer.send("t", b"%d" % number, partition=0)
        yield made


@pytest.fixture
def consumer(broker):
    options = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "fetch.max.wait.ms": 50}
    with OwnedConsumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", **options}) as made:
        made.subscribe(["t"])
        read = 0
        while read < 10:
            read += len(made.poll(10.0))
        yield made


@pytest.fixture
def waits(monkeypatch):
    """The calls that block for the I/O thread, as a list that grows."""
    made = []
    run = IoThread.run

    def counted(self, work):
        made.append(work)
        return run(self, work)

    monkeypatch.setattr(IoThread, "run", counted)
    return made


def commit_soon(consumer, offset, told):
    consumer.commit_soon({T0: Offset(offset)}, lambda offsets, error: told.append((offsets[T0].offset, error)))


def test_a_commit_is_handed_over_without_a_wait_and_its_outcome_ends_a_poll(consumer, waits):
    told = []
    commit_soon(consumer, 3, told)
    assert not waits
    assert consumer.poll(60.0) == []
    assert told == []
    consumer.tell_outcomes()
    assert told == [(3, None)]
    # Being told of it costs no wait either: all there was is the one poll.
    assert len(waits) == 1


def test_a_commit_that_is_waited_for_is_one_wait_and_comes_behind_those_before_it(consumer, waits):
    told = []
    commit_soon(consumer, 3, told)
    consumer.commit_and_wait({T0: Offset(5)})
    assert len(waits) == 1
    consumer.tell_outcomes()
    assert told == [(3, None)]
    assert consumer.committed([T0])[T0].offset == 5


def test_a_refused_commit_is_told_with_its_error(broker, consumer):
    broker.faults.fail("OffsetCommit", REFUSED, times=2)
    told = []
    commit_soon(consumer, 3, told)
    with pytest.raises(BrokerError, match=REFUSED):
        consumer.commit_and_wait({T0: Offset(5)})
    consumer.tell_outcomes()
    [(offset, error)] = told
    assert offset == 3
    assert REFUSED in str(error)


def test_a_wake_up_is_for_the_next_poll_and_not_for_a_commit(consumer):
    consumer.wakeup()
    consumer.commit_and_wait({T0: Offset(5)})
    assert consumer.needs_poll
    with pytest.raises(WakeUp):
        consumer.poll(60.0)
    assert consumer.committed([T0])[T0].offset == 5


def test_what_is_known_is_read_without_a_wait(consumer, waits):
    assert consumer.position_now(T0).offset == 10
    assert {partition: position.offset for partition, position in consumer.positions_now().items()} == {T0: 10}
    assert consumer.position_now(TopicPartition("t", 9)) is None
    assert not consumer.take_now(10)
    assert not consumer.has_records
    assert not waits


def test_a_closed_consumer_refuses_commits_in_both_ways(consumer):
    consumer.close()
    told = []
    commit_soon(consumer, 3, told)
    consumer.tell_outcomes()
    [(_, error)] = told
    assert isinstance(error, ClosedError)
    with pytest.raises(ClosedError):
        consumer.commit_and_wait({T0: Offset(3)})


def test_an_outcome_that_raises_does_not_take_the_next_ones_with_it(consumer, caplog):
    told = []

    def raises(offsets, _error):
        told.append(offsets[T0].offset)
        raise ZeroDivisionError(offsets[T0].offset)

    for offset in (1, 2, 3):
        consumer.commit_soon({T0: Offset(offset)}, raises)
    eventually(lambda: len(consumer._outcomes) == 3, "the commits to end")
    with pytest.raises(ZeroDivisionError, match="1"):
        consumer.tell_outcomes()
    assert told == [1, 2, 3]
    assert len([record for record in caplog.records if "commit callback failed" in record.message]) == 2
