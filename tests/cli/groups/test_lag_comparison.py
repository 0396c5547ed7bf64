"""``seamark groups describe`` beside ``kafka-consumer-groups --describe``: the same lag, whatever became of the log."""

import json
import re
from pathlib import Path

import pytest

from seamark.client import Consumer, TopicPartition
from seamark.client.admin.types import NewTopic
from tests.support.java import JavaOracle
from tests.support.kafka_like import KafkaLike
from tests.support.produced import produce

pytestmark = pytest.mark.java

TOOL = Path(__file__).parents[2] / "conformance" / "java" / "GroupTool.java"


@pytest.fixture(scope="module")
def kafka_like(apache_kafka):
    """Only Apache Kafka: this is about the two tools."""
    return KafkaLike("apache-4.3", apache_kafka.bootstrap, apache_kafka)


@pytest.fixture(scope="module")
def described():
    """What Kafka's tool says of a group: committed offset, log end and lag as they are printed, by partition."""
    with JavaOracle(TOOL) as oracle:

        def describe(bootstrap, group):
            answer = oracle.ask(
                "\t".join(("--bootstrap-server", bootstrap, "--describe", "--group", group)), timeout=120
            )
            rows = [line.split() for line in re.split(r"\f", answer.partition("\t")[2])]
            return {int(row[2]): tuple(row[3:6]) for row in rows if row and row[0] == group}

        yield describe


def as_printed(number):
    return "-" if number is None else str(number)


# covers: M1, M2
def test_both_tools_show_the_same_lag_for_deleted_missing_and_impossible_offsets(
    seamark, described, kafka_like, admin, fresh_name
):
    topic, group = fresh_name("topic"), fresh_name("group")
    admin.create_topics([NewTopic(topic, 5, 1)]).raise_if_failed()
    for index in range(5):
        produce(kafka_like.bootstrap, TopicPartition(topic, index), [b"x"] * 100)
    with Consumer(bootstrap_servers=kafka_like.bootstrap, group_id=group, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(0.1)
        # In order: some deleted unread, all deleted unread, beyond the end, as usual; nothing for the last.
        consumer.commit({TopicPartition(topic, index): offset for index, offset in enumerate((20, 20, 130, 70))})
        admin.delete_records({TopicPartition(topic, 0): 60, TopicPartition(topic, 1): 100}).raise_if_failed()
        theirs = described(kafka_like.bootstrap, group)
        code, out, err = seamark("groups", "describe", group, "--json")
    assert code == 0, err
    ours = {
        row["partition"]: tuple(as_printed(row[name]) for name in ("current_offset", "log_end_offset", "lag"))
        for row in json.loads(out)
    }
    assert theirs == {
        0: ("20", "100", "80"), 1: ("20", "100", "80"), 2: ("130", "100", "-30"), 3: ("70", "100", "30"),
        4: ("-", "100", "-"),
    }  # fmt: skip
    assert ours == theirs
