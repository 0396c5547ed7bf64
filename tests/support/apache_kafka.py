"""Apache Kafka itself, run from Maven's jars: the peer that Seamark's behaviour is compared with.

One broker in KRaft combined mode on loopback, replication factor 1 everywhere, its data in a temporary directory:

    with ApacheKafka(settings={"group.coordinator.append.linger.ms": 0}) as kafka:
        kafka.bootstrap, kafka.segment_files("__consumer_offsets", 3)

``start`` returns when the broker has answered an ApiVersions request, which it does only after it has joined its own
cluster. No broker outlives the test run: closing ends it, an atexit hook closes what was forgotten, and a watchdog
process ends it when the run itself is killed.
"""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.support.capture import CaptureError, exchange, framed
from tests.support.external_tools import java
from tests.support.java import short_lived_java, utf_8_environment
from tests.support.maven import NEWEST_KAFKA, OLDER_KAFKA, class_path, kafka_jars
from tests.support.watched_server import WatchedServer, end_of, free_ports

VERSIONS = (NEWEST_KAFKA, OLDER_KAFKA)

# A cluster id is 16 bytes in base64; a fixed one keeps captured answers comparable between runs.
CLUSTER_ID = "c2VhbWFyay10ZXN0cy0wMA"

# A cold JVM on a busy two-core machine took 20 s; more than this means that it hangs.
_START_SECONDS = 120.0
_STOP_SECONDS = 30.0

# Header version 1: key 18 (ApiVersions), version 0, correlation id, client id.
_API_VERSIONS_REQUEST = framed(struct.pack(">hhih", 18, 0, 1, 5) + b"tests")


class KafkaFailed(AssertionError):
    """Apache Kafka did not start, or ended by itself; the message carries the end of its log."""


class ApacheKafka(WatchedServer):
    """A broker process of one Kafka release; construct, then ``with`` or ``start`` and ``close``.

    ``settings`` are server properties that replace the defaults; None removes one. The client listener is called
    CLIENT, so ``{"listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"}`` turns on SASL.
    ``java_options`` come after ``-Xmx``: a benchmark that wants another heap passes its own.
    """

    def __init__(
        self,
        version: str = NEWEST_KAFKA,
        settings: Mapping[str, object] | None = None,
        *,
        group_initial_rebalance_delay_ms: int = 0,
        java_options: Sequence[str] = (),
    ) -> None:
        # Without jars there is nothing to clean up.
        self.classpath = class_path(kafka_jars(version))
        super().__init__("kafka")
        self.version = version
        self._settings = {"group.initial.rebalance.delay.ms": group_initial_rebalance_delay_ms, **(settings or {})}
        self._java_options = list(java_options)
        self.log_dir = self._directory / "log"
        self.port, self._controller_port = free_ports(2)
        self._was_started = False

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self._running().pid

    def resident_mb(self) -> float:
        """Resident memory of the broker process in units of a million bytes."""
        import psutil

        return psutil.Process(self.pid).memory_info().rss / 1e6

    def segment_files(self, topic: str, partition: int) -> list[Path]:
        """The partition's log segments on disk, oldest first; empty as long as the broker has not made them.

        A topic is acknowledged before its files exist; once a record was acknowledged, its segment is there.
        """
        return sorted((self.log_dir / f"{topic}-{partition}").glob("*.log"))

    def tool(
        self, main_class: str, *args: str, stdin: str = "", timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run one of Kafka's command line tools by its class; ``--bootstrap-server`` is for the caller to pass."""
        command = short_lived_java(self.classpath, main_class, args, self._logging_options("tool"))
        return subprocess.run(
            command, env=utf_8_environment(), input=stdin, capture_output=True, encoding="utf-8", timeout=timeout,
            check=False,
        )  # fmt: skip

    def start(self) -> Self:
        """Start the broker, on the same data and port when it ran before."""
        if self.is_running:
            raise KafkaFailed(f"Apache Kafka {self.version} is already running")
        if not self._directory.exists():
            raise KafkaFailed(f"Apache Kafka {self.version} was closed and its data removed")
        if self._was_started:
            self._launch()
            return self
        _write_logging(self._directory)
        # A port that was free a moment ago may be taken by now; a broker that already has clients must keep its own.
        for _ in range(3):
            self._write_properties()
            self._format()
            try:
                self._launch()
            except KafkaFailed:
                if "Address already in use" not in self.server_log:
                    raise
                shutil.rmtree(self.log_dir, ignore_errors=True)
                (self._directory / "server.log").unlink()
                self.port, self._controller_port = free_ports(2)
            else:
                self._was_started = True
                return self
        raise KafkaFailed(f"Apache Kafka {self.version} found its ports taken three times")

    def stop(self) -> None:
        """Shut down in good order (clients see a closing broker, logs are flushed); the data stays for ``start``."""
        if self.is_running:
            process = self._running()
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
        self._reap()

    def kill(self) -> None:
        """End the process at once, as a crash would; the data stays for ``start``.

        The next start then waits until the dead broker's session has run out (``broker.session.timeout.ms``, 9 s). A
        test that kills may want a shorter one; it is not the default because a busy machine could miss its heartbeats.
        """
        super().kill()

    def restart(self) -> None:
        self.stop()
        self.start()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            raise KafkaFailed(f"Apache Kafka {self.version} is not running")
        return self._process

    def _write_properties(self) -> None:
        properties: dict[str, object] = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "listeners": f"CLIENT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": f"CLIENT://127.0.0.1:{self.port}",
            "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "CLIENT",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": self.log_dir,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
        }
        properties.update(self._settings)
        lines = [f"{key}={_as_property(value)}\n" for key, value in properties.items() if value is not None]
        self._properties.write_text("".join(lines))

    @property
    def _properties(self) -> Path:
        return self._directory / "server.properties"

    def _logging_options(self, who: str) -> list[str]:
        file = self._directory / f"{who}.logging.properties"
        return [f"-Dlog4j2.configurationFile={file}", f"-Dlog4j.configuration=file:{file}"]

    def _format(self) -> None:
        run = self.tool("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self._properties))
        if run.returncode != 0:
            raise KafkaFailed(f"Apache Kafka {self.version} refused its settings: {end_of(run.stderr or run.stdout)}")

    def _launch(self) -> None:
        command = [
            str(java()), "-Xmx512m", *self._java_options, *self._logging_options("server"), "-cp", self.classpath,
            "kafka.Kafka", str(self._properties),
        ]  # fmt: skip
        self._run(command)

    def _wait_for_answer(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if not self.is_running:
                raise KafkaFailed(f"Apache Kafka {self.version} ended while starting: {end_of(self.server_log)}")
            try:
                answer = exchange(self.bootstrap, _API_VERSIONS_REQUEST, timeout=5)
            except CaptureError:
                time.sleep(0.05)
                continue
            (error_code,) = struct.unpack_from(">h", answer, 8)
            if error_code != 0:
                raise KafkaFailed(f"Apache Kafka {self.version} answered ApiVersions with error {error_code}")
            return
        raise KafkaFailed(
            f"Apache Kafka {self.version} did not answer in {_START_SECONDS} s: {end_of(self.server_log)}"
        )


def _as_property(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    # Java's property files escape as JSON strings do.
    return json.dumps(str(value))[1:-1]


def _write_logging(directory: Path) -> None:
    """One file per purpose that log4j 2 (Kafka 4) and log4j 1 (Kafka 3) both read: each ignores the other's keys."""
    for who, level, target in (("server", "INFO", "OUT"), ("tool", "WARN", "ERR")):
        pattern = "%d{HH:mm:ss,SSS} %p %c: %m%n"
        (directory / f"{who}.logging.properties").write_text(
            f"appender.console.type=Console\nappender.console.name=console\nappender.console.target=SYSTEM_{target}\n"
            f"appender.console.layout.type=PatternLayout\nappender.console.layout.pattern={pattern}\n"
            f"rootLogger.level={level}\nrootLogger.appenderRef.console.ref=console\n"
            f"log4j.rootLogger={level}, console\nlog4j.appender.console=org.apache.log4j.ConsoleAppender\n"
            f"log4j.appender.console.Target=System.{target.lower()}\n"
            "log4j.appender.console.layout=org.apache.log4j.PatternLayout\n"
            f"log4j.appender.console.layout.ConversionPattern={pattern}\n"
        )
