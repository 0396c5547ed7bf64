"""The peer broker of every benchmark: the newest Apache Kafka that the tests start, with its start script's options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.support.apache_kafka import ApacheKafka
from tests.support.external_tools import java
from tests.support.java import short_lived_java
from tests.support.maven import NEWEST_KAFKA

PEER_KAFKA = NEWEST_KAFKA
# What bin/kafka-run-class.sh gives every program, and the heaps that the broker and the console tools get on top.
_PERFORMANCE = (
    "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
)  # fmt: skip
_CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_GROUP_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_BROKER_HEAP = ("-Xmx1G", "-Xms1G")
_CONSOLE_HEAP = "-Xmx512M"


def peer_kafka(settings: Mapping[str, object] | None = None) -> ApacheKafka:
    return ApacheKafka(PEER_KAFKA, settings, java_options=[*_BROKER_HEAP, *_PERFORMANCE])


def console_consumer(kafka: ApacheKafka, *arguments: str) -> Sequence[str]:
    """The command as its script starts it."""
    words = ["--bootstrap-server", kafka.bootstrap, *arguments]
    return [str(java()), _CONSOLE_HEAP, *_PERFORMANCE, "-cp", kafka.classpath, _CONSOLE_CONSUMER, *words]


def group_tool(kafka: ApacheKafka, *arguments: str) -> Sequence[str]:
    """kafka-consumer-groups, tuned to start fast: it ends sooner than with the options of its script."""
    return short_lived_java(kafka.classpath, _GROUP_TOOL, ["--bootstrap-server", kafka.bootstrap, *arguments])
