"""Apache ZooKeeper itself, run from Maven's jars: where old consumers keep their offsets.

One standalone server on loopback, its data in a temporary directory:

    with Zookeeper() as zookeeper:
        zookeeper.connect       # "127.0.0.1:20181"

``start`` returns when the server answers. As with Apache Kafka, no server outlives the test run.
"""

from __future__ import annotations

import socket
import time
from typing import Self

from tests.support.java import short_lived_java
from tests.support.maven import class_path, maven_jars
from tests.support.watched_server import WatchedServer, end_of, free_ports

_JARS = (
    "org.apache.zookeeper:zookeeper:3.9.3",
    # What the server loads at its start although its own list of dependencies calls it optional.
    "io.dropwizard.metrics:metrics-core:4.1.12.1",
    "org.xerial.snappy:snappy-java:1.1.10.5",
)
_START_SECONDS = 90.0


class ZookeeperFailed(AssertionError):
    """ZooKeeper did not start, or ended by itself; the message carries the end of its log."""


class Zookeeper(WatchedServer):
    """A standalone server; construct, then ``with`` or ``start`` and ``close``."""

    def __init__(self) -> None:
        self._class_path = class_path(maven_jars("zookeeper-3.9.3", _JARS))
        super().__init__("zookeeper")
        (self.port,) = free_ports(1)

    @property
    def connect(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start the server, on the same data and port when it ran before."""
        properties = self._directory / "zoo.cfg"
        properties.write_text("".join(f"{key}={value}\n" for key, value in self._settings().items()))
        # What a test writes need not survive a power cut.
        options = (
            "-Dzookeeper.forceSync=no",
            "-Dzookeeper.extendedTypesEnabled=true",
            "-Xmx512m",
            *self._java_options(),
        )
        main_class = "org.apache.zookeeper.server.ZooKeeperServerMain"
        self._run(short_lived_java(self._class_path, main_class, [str(properties)], options))
        return self

    def _settings(self) -> dict[str, object]:
        return {
            "clientPort": self.port,
            "clientPortAddress": "127.0.0.1",
            "dataDir": self._directory / "log",
            "tickTime": 1000,
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "ruok",
        }

    def _java_options(self) -> tuple[str, ...]:
        return ()

    def _wait_for_answer(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if not self.is_running:
                raise ZookeeperFailed(f"ZooKeeper ended while starting: {end_of(self.server_log)}")
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=5) as asked:
                    asked.sendall(b"ruok")
                    if asked.recv(4) == b"imok":
                        return
            except OSError:
                pass
            time.sleep(0.05)
        raise ZookeeperFailed(f"ZooKeeper did not answer in {_START_SECONDS} s: {end_of(self.server_log)}")
