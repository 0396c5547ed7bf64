"""monitor.*: our command line beside Kafka's own group tool, from process start to the last byte, on one Apache Kafka.

10,000 groups of 4 partitions each have committed offsets and no members; ``--describe --all`` of both goes to a file.
``--help`` is beside the imports that any command line of this kind needs.

SEAMARK_BENCH_QUICK=1 uses a tenth of the groups.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.claims import compare
from seamark.client import Admin, TopicPartition
from seamark.client.admin_types import NewTopic
from tests.support.apache_kafka import ApacheKafka

QUICK = os.environ.get("SEAMARK_BENCH_QUICK", "") not in ("", "0")
GROUPS = 1_000 if QUICK else 10_000
PARTITIONS = 4
TOPIC = "bench-monitor"
TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
SEAMARK = str(Path(sys.executable).with_name("seamark"))


def measure() -> list[dict[str, object]]:
    with ApacheKafka() as kafka, tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "out"
        fill(kafka.bootstrap)
        return [
            compare(
                "monitor.describe_10k",
                "s",
                "lower",
                lambda: timed(out, GROUPS, SEAMARK, "groups", "describe", "--all", "--bootstrap", kafka.bootstrap),
                lambda: kafka_tool(kafka, GROUPS, "--describe", "--all-groups"),
                groups=GROUPS,
            ),
            compare(
                "monitor.describe_one",
                "s",
                "lower",
                lambda: timed(out, 1, SEAMARK, "groups", "describe", "group-7", "--bootstrap", kafka.bootstrap),
                lambda: kafka_tool(kafka, 1, "--describe", "--group", "group-7"),
            ),
            compare(
                "monitor.help",
                "s",
                "lower",
                lambda: timed(out, 0, SEAMARK, "--help"),
                lambda: timed(out, 0, sys.executable, "-c", "import typer, rich.table"),
            ),
        ]


def fill(bootstrap: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin, ThreadPoolExecutor(16) as pool:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).raise_if_failed()
        offsets = {TopicPartition(TOPIC, index): 0 for index in range(PARTITIONS)}

        def commit(number: int) -> None:
            admin.alter_group_offsets(f"group-{number}", offsets).raise_if_failed()

        list(pool.map(commit, range(GROUPS)))


def timed(out: Path, groups: int, *command: str) -> float:
    """Seconds of a command; what it wrote must have a row per partition of so many groups."""
    started = time.perf_counter()
    with out.open("wb") as file:
        subprocess.run(command, stdout=file, check=True, timeout=600)
    seconds = time.perf_counter() - started
    check(out.read_text(), groups)
    return seconds


def kafka_tool(kafka: ApacheKafka, groups: int, *arguments: str) -> float:
    started = time.perf_counter()
    ran = kafka.tool(TOOL, "--bootstrap-server", kafka.bootstrap, *arguments, timeout=600)
    seconds = time.perf_counter() - started
    check(ran.stdout, groups)
    return seconds


def check(text: str, groups: int) -> None:
    found = sum(line.startswith("group-") for line in text.splitlines())
    if found != groups * PARTITIONS:
        raise AssertionError(f"{found} rows were written, not {groups * PARTITIONS}")
