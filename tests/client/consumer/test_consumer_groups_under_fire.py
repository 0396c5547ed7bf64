"""Samples of ``make soak NAME=client``: a group behind a bad network and beside other clients, and the books' rules."""

import threading
import time

import pytest

from seamark import Broker
from seamark.client import Consumer, Offset, TopicPartition
from seamark.client.errors import WakeUp
from tests.soak.client_parts import mixed, proxied
from tests.soak.client_parts.at_least_once import TOPIC, Books, watched_commits
from tests.support.consumers import QUICK, Consumers


# covers: B11, C31, F21, F23, I3
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_behind_a_bad_network_loses_nothing_and_never_commits_ahead(strategy):
    result = proxied.on_our_broker(runs=2, seed=5, strategy=strategy)
    assert result["ok"], result


# covers: C27, E4
@pytest.mark.java
@pytest.mark.slow
def test_our_consumer_shares_a_group_with_other_clients_that_come_and_go():
    with Broker(settings=mixed.SETTINGS) as broker:
        result = mixed.run(broker.bootstrap, events=6, seed=3, strategies=["cooperative-sticky"])
    assert result["ok"], result


def test_the_books_notice_a_commit_ahead_of_the_work_and_a_record_that_nobody_processed():
    books = Books()
    for offset in (0, 1, 3):
        books.process(0, offset)
    books.acknowledged |= {(0, 1), (0, 2)}
    books.check_commit({TopicPartition(TOPIC, 0): Offset(2)})
    assert books.failures == []
    books.check_commit({TopicPartition(TOPIC, 0): Offset(3)})
    assert books.failures == [f"{TOPIC}-0: a commit of 3, and only 2 is done"]
    assert books.missing == {(0, 2)}
    books.process(0, 2)
    assert books.done_to(0) == 4
    assert not books.missing


def test_the_books_see_every_commit_that_a_consumer_sends():
    books = Books()
    with Broker() as broker:
        broker.create_topic(TOPIC)
        config = {**QUICK, "bootstrap.servers": broker.bootstrap, "group.id": "g"}
        with watched_commits(books), Consumer(config) as consumer:
            consumer.assign([TopicPartition(TOPIC, 0)])
            consumer.commit({TopicPartition(TOPIC, 0): 7})
    assert books.failures == [f"{TOPIC}-0: a commit of 7, and only 0 is done"]


# covers: I28
def test_a_commit_that_was_woken_up_does_not_overwrite_the_next_one():
    partition = TopicPartition("t", 0)
    with Broker() as broker:
        broker.create_topic("t")
        consumers = Consumers(broker.bootstrap)
        consumer = consumers.add("g", retry_backoff_ms=400, retry_backoff_max_ms=400)
        consumer.assign([partition])
        consumer.commit({partition: 1})
        refusal = broker.faults.fail("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", times=1)
        timer = threading.Timer(0.15, consumer.wakeup)
        timer.start()
        with pytest.raises(WakeUp):
            consumer.commit({partition: 5})
        assert refusal.hits == 1
        consumer.commit({partition: 9})
        # Longer than the wait before the retry that must not come.
        time.sleep(0.8)
        assert consumer.committed([partition])[partition].offset == 9
        consumers.close()
