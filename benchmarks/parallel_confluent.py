"""Confluent's Parallel Consumer over one topic: in a JVM that stays and gets warm, or as the yardstick runs it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Self

from tests.support.java import JavaOracle, compiled_java_command
from tests.support.maven import maven_jars

YARDSTICK = Path(__file__).parent / "yardsticks" / "parallel_consumer_java" / "ParallelConsumerLoad.java"
ROUNDS = Path(__file__).parent / "java" / "ParallelConsumerRounds.java"
JARS = (
    "io.confluent.parallelconsumer:parallel-consumer-core:0.5.3.2",
    "org.slf4j:slf4j-nop:2.0.16",
)
ROUND_SECONDS = 600


class ConfluentParallel:
    """Rounds in KEY order over a topic of so many records; each is a new group that reads from the beginning."""

    def __init__(self, bootstrap: str, topic: str, records: int) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._records = records
        self._jars = maven_jars("confluent-parallel-consumer", JARS)
        # Without the options of the tests for programs that live for a second: they would hold it back.
        self._jvm = JavaOracle(ROUNDS, classpath=self._jars, options=())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_failure: object) -> None:
        self._jvm.close()

    def sum(self) -> int:
        """What offset, key length and value length of all records add up to in its handler."""
        return int(self._round(64, "sum", self._records)["sum"])

    def rate(self, concurrency: int, handler_ms: int, target: int) -> float:
        return float(self._round(concurrency, handler_ms, target)["records_per_s"])

    def cold_rate(self, concurrency: int, handler_ms: int, target: int) -> float:
        """By the yardstick itself, a new JVM."""
        arguments = [self._bootstrap, self._topic, "KEY", str(concurrency), str(handler_ms), str(target)]
        command = compiled_java_command(YARDSTICK, self._jars, arguments, options=())
        done = subprocess.run(command, capture_output=True, text=True, timeout=ROUND_SECONDS, check=True)
        return float(json.loads(done.stdout.splitlines()[-1])["records_per_s"])

    def _round(self, concurrency: int, handler: int | str, target: int) -> dict[str, Any]:
        line = f"{self._bootstrap} {self._topic} KEY {concurrency} {handler} {target}"
        found: dict[str, Any] = json.loads(self._jvm.ask(line, timeout=ROUND_SECONDS))
        if target == self._records and found["in_the_end"] != target:
            raise AssertionError(f"Confluent's consumer handled {found['in_the_end']} records, not {target}")
        return found
