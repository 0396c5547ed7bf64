"""Transactions written by another client: what read_committed and read_uncommitted see of them."""

import time

import pytest

from seamark.client import ColumnReader, Consumer, TopicPartition
from seamark.client.admin.types import NewTopic

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def partition(kafka_like, admin, fresh_name):
    """Committed 0-9, aborted, committed, plain, aborted by another producer, and an open transaction at the end."""
    if kafka_like.is_ours:
        pytest.skip("the embedded broker has no transactions")
    from confluent_kafka import Producer

    name = fresh_name("committed")
    admin.create_topics([NewTopic(name, 1, 1)]).raise_if_failed()
    made = []

    def producer(who):
        each = Producer({"bootstrap.servers": kafka_like.bootstrap, "transactional.id": fresh_name(who)})
        each.init_transactions(30)
        made.append(each)
        return each

    def write(each, word, *, end):
        each.begin_transaction()
        for number in range(10):
            each.produce(name, f"{word} {number}".encode(), partition=0)
        each.flush(30)
        if end == "commit":
            each.commit_transaction(30)
        elif end == "abort":
            each.abort_transaction(30)

    first, second, third = producer("a"), producer("b"), producer("c")
    write(first, "one", end="commit")
    write(first, "lost", end="abort")
    write(second, "two", end="commit")
    plain = Producer({"bootstrap.servers": kafka_like.bootstrap})
    for number in range(10):
        plain.produce(name, f"plain {number}".encode(), partition=0)
    plain.flush(30)
    write(second, "gone", end="abort")
    write(first, "three", end="commit")
    write(third, "open", end=None)
    yield TopicPartition(name, 0)
    third.abort_transaction(30)


WORDS = ["one", "two", "plain", "three"]
COMMITTED = [f"{word} {number}" for word in WORDS for number in range(10)]


def read(consumer, count):
    found, deadline = [], time.monotonic() + 20
    while len(found) < count and time.monotonic() < deadline:
        found += [record.value.decode() for record in consumer.poll(0.5)]
    return found


def test_only_committed_records_are_given(kafka_like, partition):
    with Consumer(
        bootstrap_servers=kafka_like.bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.assign([partition])
        assert read(consumer, len(COMMITTED)) == COMMITTED
        assert consumer.poll(0.5) == [], "the open transaction stays unseen"
        assert consumer.end_offsets([partition])[partition] == consumer.position(partition)
        assert consumer.metrics()["seamark_consumer_records_lag_max"] == 0
        for offset in range(0, 40, 7):
            consumer.seek(partition, offset)
            expected = read(consumer, 1)[0]
            assert expected in COMMITTED


def test_uncommitted_readers_see_everything_but_markers(kafka_like, partition):
    with Consumer(bootstrap_servers=kafka_like.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        found = read(consumer, 70)
    assert len(found) == 70
    assert {word.split()[0] for word in found} == {*WORDS, "lost", "gone", "open"}


def test_columns_leave_out_what_was_aborted(kafka_like, partition):
    with Consumer(
        bootstrap_servers=kafka_like.bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.assign([partition])
        found, deadline = [], time.monotonic() + 20
        while len(found) < len(COMMITTED) and time.monotonic() < deadline:
            batch = consumer.poll_arrow(0.5, max_bytes=300)
            found += [] if batch is None else [value.decode() for value in batch.column("value").to_pylist()]
        assert found == COMMITTED
        end = consumer.position(partition)
    with ColumnReader(bootstrap_servers=kafka_like.bootstrap, isolation_level="read_committed") as reader:
        batches = reader.fetch_columns(partition, 0, end)
        assert [value.decode() for batch in batches for value in batch.column("value").to_pylist()] == COMMITTED
