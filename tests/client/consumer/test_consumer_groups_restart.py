"""A group whose broker goes away and comes back: nobody loses a record, nobody needs to be restarted."""

import os
import time

import pytest

from seamark.client import Admin, TopicPartition
from seamark.client.admin.types import NewTopic
from tests.support.apache_kafka import ApacheKafka
from tests.support.consumers import Consumers, commit_at_rest, poll_all, shares
from tests.support.produced import produce

# One of them says the same; starting two more brokers takes too long for every run.
STRATEGIES = ["cooperative-sticky", "range"] if os.environ.get("SEAMARK_SOAK") else ["cooperative-sticky"]


# covers: B11, C31, F21, F23
@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_group_survives_the_restart_of_its_broker(fresh_name, strategy):
    topic, group = fresh_name("topic"), fresh_name("group")
    with ApacheKafka() as broker:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([NewTopic(topic, 4, 1)]).raise_if_failed()
        made = Consumers(broker.bootstrap)
        # A broker that has just come back may be slow to answer.
        patience = {"default_api_timeout_ms": 90_000, "request_timeout_ms": 15_000}
        make = {"partition_assignment_strategy": strategy, "auto_commit_interval_ms": 200, **patience}
        members = [made.add(group, [topic], **make) for _ in range(2)]
        try:
            poll_all(members, shares(members, 4))
            for index in range(4):
                produce(broker.bootstrap, TopicPartition(topic, index), [b"before"] * 10)
            seen = []
            poll_all(members, lambda: len(seen) >= 40, collect=seen)
            broker.kill()
            end = time.monotonic() + 3
            while time.monotonic() < end:
                for member in members:
                    member.poll(0.1)
            broker.start()
            poll_all(members, shares(members, 4), timeout=60)
            for index in range(4):
                produce(broker.bootstrap, TopicPartition(topic, index), [b"after"] * 10)
            found = {(record.partition, record.offset) for record in seen}
            after = []
            poll_all(members, lambda: len({(r.partition, r.offset) for r in after} - found) == 40, collect=after)
            partitions = [TopicPartition(topic, index) for index in range(4)]

            def is_all_committed():
                """A late rebalance hands partitions over: who gets them reads again from what was committed."""
                commit_at_rest(members)
                committed = members[0].committed(partitions)
                return all(offset is not None and offset.offset == 20 for offset in committed.values())

            poll_all(members, is_all_committed)
        finally:
            made.close()
