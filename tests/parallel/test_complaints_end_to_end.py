"""Complaints about other consumers that concern a whole process: handlers that block must not cost the membership."""

import time

import pytest

SHORT_SESSION = {"session.timeout.ms": 1000, "heartbeat.interval.ms": 200, "max.poll.interval.ms": 1500}


# aio-libs/aiokafka#678, #821: heartbeats share the event loop with user code
# confluentinc/confluent-kafka-python#552, #629; dpkp/kafka-python#1418, #544: long handlers leave the group
@pytest.mark.parametrize("kind", ["async", "plain"])
def test_a_handler_that_blocks_longer_than_the_session_keeps_its_membership_and_runs_once(topic, until, kind):
    def block(record):
        if record.value == b"0":
            time.sleep(2.5)
        topic.seen.add(record)

    async def block_the_loop(record):
        block(record)

    topic.write([b"%d" % number for number in range(20)], key=lambda value: value)
    handler = block_the_loop if kind == "async" else block
    with topic.consumer(handler, config=SHORT_SESSION) as consumer:
        until(lambda: len(topic.seen) >= 20)
        until(lambda: consumer.status().tally["done"] == 20)
        status = consumer.status()
        terms = {each.term for each in status.partitions.values()}
    assert sorted(topic.seen.values) == sorted(b"%d" % number for number in range(20))
    assert status.tally["late"] == 0
    assert max(terms) == len(topic.partitions), "no partition came twice"
    assert topic.committed() == 20
