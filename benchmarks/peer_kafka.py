"""The peer broker of every benchmark: the newest Apache Kafka that the tests start, with its start script's options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.support.apache_kafka import ApacheKafka
from tests.support.external_tools import java
from tests.support.maven import NEWEST_KAFKA

PEER_KAFKA = NEWEST_KAFKA
# What bin/kafka-run-class.sh gives every program, and the heaps that the broker and the tools get on top.
_PERFORMANCE = (
    "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
)  # fmt: skip
_BROKER_HEAP = ("-Xmx1G", "-Xms1G")
_CONSOLE_HEAP = "-Xmx512M"
_TOOL_HEAP = "-Xmx256M"


def peer_kafka(settings: Mapping[str, object] | None = None) -> ApacheKafka:
    return ApacheKafka(PEER_KAFKA, settings, java_options=[*_BROKER_HEAP, *_PERFORMANCE])


def tool_command(kafka: ApacheKafka, main_class: str, *arguments: str) -> Sequence[str]:
    """One of Kafka's command line tools as its script starts it; the console consumer's gives it a larger heap."""
    heap = _CONSOLE_HEAP if main_class.endswith(("ConsoleConsumer", "ConsoleProducer")) else _TOOL_HEAP
    return [
        str(java()), heap, *_PERFORMANCE, "-cp", kafka.classpath, main_class, "--bootstrap-server", kafka.bootstrap,
        *arguments,
    ]  # fmt: skip
