"""After an unclean election the records that took the place of lost ones are processed, whatever was committed before.

Offset 0 fails each time and is parked, so the done-ahead map is what a restart goes by.
"""

import logging

import pytest

from seamark.client import Consumer
from seamark.parallel import Batch, Commit, Order, Park, Retry
from seamark.wire.offsets.done_ahead import decode
from tests.parallel.test_running import numbers
from tests.support.unclean_election import elect_uncleanly

PARKING = {"retry": Retry(attempts=1), "then": Park(), "commit": Commit(interval=0.05)}


def values_of(given, batch):
    if batch is None:
        return [given.value]
    return given.column("value").to_pylist() if batch.arrow else [record.value for record in given]


def commit_of(topic):
    with Consumer(bootstrap_servers=topic.bootstrap, group_id=topic.group) as consumer:
        return consumer.committed(topic.partitions)[topic.partitions[0]]


def has_map_of_seven(topic):
    found = commit_of(topic)
    return found is not None and found.offset == 0 and len(list(decode(found.metadata.rstrip("\0"), 0) or ())) == 7


def write_one_by_one(topic, values):
    """Each in a batch of its own, so that the log can be truncated anywhere."""
    for value in values:
        topic.write([value])


@pytest.fixture(params=["seamark", "confluent"])
def client(request):
    return request.param


@pytest.fixture(params=[None, Batch(1, wait=0.0, arrow=True)], ids=["records", "columns"])
def batch(request):
    return request.param


def run_until(topic, until, is_true, bad=(), batch=None, client="seamark", **options):
    """A consumer that cannot bear some values; what it processed."""
    seen = []

    def handle(given):
        for value in values_of(given, batch):
            if value in bad:
                raise ValueError("no")
            seen.append(value)

    chosen = {**PARKING, "order": Order.NONE, "batch": batch, "client": client, **options}
    with topic.consumer(handle, **chosen):
        until(lambda: is_true(seen))
    return seen


# covers: I1
def test_new_records_where_the_map_says_done_are_processed(topic, until, batch, client, caplog):
    write_one_by_one(topic, numbers(8))
    run_until(topic, until, lambda _: has_map_of_seven(topic), bad=[b"0"], batch=batch, client=client)
    assert commit_of(topic).leader_epoch == 0
    elect_uncleanly(topic.broker, topic.name, 0, 5)
    write_one_by_one(topic, [b"new 5", b"new 6", b"new 7", b"new 8"])
    with caplog.at_level(logging.WARNING, "seamark.parallel"):
        seen = run_until(topic, until, lambda seen: len(seen) >= 5, batch=batch, client=client)
    assert sorted(seen) == [b"0", b"new 5", b"new 6", b"new 7", b"new 8"]
    assert any("was truncated at offset 5 or below" in message for message in caplog.messages)
    found = commit_of(topic)
    assert (found.offset, found.leader_epoch) == (9, 1)


def test_after_a_clean_election_what_the_map_says_is_done_is_not_run_again(topic, until, batch, client, caplog):
    write_one_by_one(topic, numbers(8))
    run_until(topic, until, lambda _: has_map_of_seven(topic), bad=[b"0"], batch=batch, client=client)
    elect_uncleanly(topic.broker, topic.name, 0, 8)
    write_one_by_one(topic, [b"new 8", b"new 9"])
    with caplog.at_level(logging.WARNING, "seamark.parallel"):
        seen = run_until(topic, until, lambda seen: len(seen) >= 3, batch=batch, client=client)
    assert sorted(seen) == [b"0", b"new 8", b"new 9"]
    assert not any("truncated" in message for message in caplog.messages)
    found = commit_of(topic)
    assert (found.offset, found.leader_epoch) == (10, 1)


def test_new_records_below_the_committed_offset_are_processed(topic, until, client, caplog):
    write_one_by_one(topic, numbers(8))
    run_until(topic, until, lambda seen: len(seen) == 8, client=client)
    found = commit_of(topic)
    assert (found.offset, found.leader_epoch) == (8, 0)
    elect_uncleanly(topic.broker, topic.name, 0, 5)
    new = [b"new %d" % number for number in range(5, 12)]
    write_one_by_one(topic, new)
    with caplog.at_level(logging.WARNING, "seamark.parallel"):
        seen = run_until(topic, until, lambda seen: set(new) <= set(seen), client=client)
    assert len(seen) == len(set(seen))
    assert any("is read again from offset" in message for message in caplog.messages)
    found = commit_of(topic)
    assert (found.offset, found.leader_epoch) == (12, 1)


def test_a_log_that_is_truncated_while_its_consumer_runs_is_processed_from_there(topic, until, client):
    write_one_by_one(topic, numbers(8))
    seen = []
    with topic.consumer(lambda record: seen.append(record.value), client=client, commit=Commit(interval=0.05)):
        until(lambda: len(seen) == 8)
        elect_uncleanly(topic.broker, topic.name, 0, 5)
        new = [b"new %d" % number for number in range(5, 12)]
        write_one_by_one(topic, new)
        until(lambda: set(new) <= set(seen))
    found = commit_of(topic)
    assert (found.offset, found.leader_epoch) == (12, 1)
