"""monitor.*: our command line beside Kafka's own group tool, from process start to the last byte, on one Apache Kafka.

10,000 groups of 4 partitions each have committed offsets and no members; what both tools print goes to a file and must
have one row for each partition of each group. Kafka's tool gets Java options with which it starts fast. ``--help`` is
beside the imports that any command line of this kind needs. Every run is a fresh process; the broker is warm.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.claims import QUICK, compare
from benchmarks.peer_kafka import group_tool, peer_kafka
from seamark.client import Admin, TopicPartition
from seamark.client.admin.types import NewTopic

GROUPS = 1_000 if QUICK else 10_000
PARTITIONS = 4
TOPIC = "bench-monitor"
SEAMARK = str(Path(sys.executable).with_name("seamark"))


def measure() -> list[dict[str, object]]:
    with peer_kafka() as kafka, tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "out"
        fill(kafka.bootstrap)
        return [
            compare(
                "monitor.describe_10k",
                "s",
                "lower",
                lambda: timed(out, GROUPS, SEAMARK, "groups", "describe", "--all", "--bootstrap", kafka.bootstrap),
                lambda: timed(out, GROUPS, *group_tool(kafka, "--describe", "--all-groups")),
                groups=GROUPS,
            ),
            compare(
                "monitor.describe_one",
                "s",
                "lower",
                lambda: timed(out, 1, SEAMARK, "groups", "describe", "group-7", "--bootstrap", kafka.bootstrap),
                lambda: timed(out, 1, *group_tool(kafka, "--describe", "--group", "group-7")),
            ),
            compare(
                "monitor.help",
                "s",
                "lower",
                lambda: timed(out, 0, SEAMARK, "--help"),
                lambda: timed(out, 0, sys.executable, "-c", "import typer, rich.table"),
                fresh_processes=True,
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
    """Seconds of a command; what it wrote must have one row per partition of so many groups."""
    started = time.perf_counter()
    with out.open("wb") as file:
        subprocess.run(command, stdout=file, stderr=subprocess.PIPE, check=True, timeout=600)
    seconds = time.perf_counter() - started
    check(out.read_text(), groups)
    return seconds


def check(text: str, groups: int) -> None:
    rows = [tuple(line.split()[:3]) for line in text.splitlines() if line.startswith("group-")]
    if not len(rows) == len(set(rows)) == groups * PARTITIONS:
        raise AssertionError(
            f"{len(rows)} rows were written, {len(set(rows))} different ones, not {groups * PARTITIONS}"
        )
