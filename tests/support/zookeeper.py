"""Apache ZooKeeper itself, run from Maven's jars: where old consumers keep their offsets.

One standalone server on loopback, its data in a temporary directory:

    with Zookeeper() as zookeeper:
        zookeeper.connect       # "127.0.0.1:20181"

``start`` returns when the server answers. As with Apache Kafka, no server outlives the test run: closing ends it, an
atexit hook closes what was forgotten, and a watchdog process ends it when the run itself is killed.
"""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.apache_kafka import _WATCHDOG, _end_of, _free_ports
from tests.support.java import short_lived_java
from tests.support.maven import class_path, maven_jars

_JARS = (
    "org.apache.zookeeper:zookeeper:3.9.3",
    # What the server loads at its start although its own list of dependencies calls it optional.
    "io.dropwizard.metrics:metrics-core:4.1.12.1",
    "org.xerial.snappy:snappy-java:1.1.10.5",
)
_START_SECONDS = 90.0

_open: set[Zookeeper] = set()


class ZookeeperFailed(AssertionError):
    """ZooKeeper did not start, or ended by itself; the message carries the end of its log."""


class Zookeeper:
    """A server process; construct, then ``with`` or ``start`` and ``close``."""

    def __init__(self) -> None:
        self._class_path = class_path(maven_jars("zookeeper-3.9.3", _JARS))
        self._directory = Path(tempfile.mkdtemp(prefix="seamark-zookeeper-"))
        (self.port,) = _free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()
        _open.add(self)

    @property
    def connect(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def server_log(self) -> str:
        file = self._directory / "server.log"
        return file.read_text(errors="replace") if file.exists() else ""

    def start(self) -> Self:
        """Start the server, on the same data and port when it ran before."""
        properties = self._directory / "zoo.cfg"
        properties.write_text(
            f"clientPort={self.port}\nclientPortAddress=127.0.0.1\ndataDir={self._directory / 'log'}\n"
            "tickTime=1000\nmaxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=ruok\n"
        )
        # What a test writes need not survive a power cut.
        options = ("-Dzookeeper.forceSync=no", "-Dzookeeper.extendedTypesEnabled=true", "-Xmx512m")
        main_class = "org.apache.zookeeper.server.ZooKeeperServerMain"
        with (self._directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                short_lived_java(self._class_path, main_class, [str(properties)], options),
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        self._watchdog = subprocess.Popen(
            ["sh", "-c", _WATCHDOG, "sh", str(self._process.pid), str(self._directory)],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            self._wait_for_answer()
        except BaseException:
            self.kill()
            raise
        return self

    def kill(self) -> None:
        """End the process at once, as a crash would; the data stays for ``start``."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._watchdog is not None:
            self._watchdog.communicate(b"done\n")
            self._watchdog = None

    def close(self) -> None:
        """End the process and remove its data; may be called again."""
        self.kill()
        shutil.rmtree(self._directory, ignore_errors=True)
        _open.discard(self)

    def __enter__(self) -> Self:
        try:
            return self if self.is_running else self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait_for_answer(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if not self.is_running:
                raise ZookeeperFailed(f"ZooKeeper ended while starting: {_end_of(self.server_log)}")
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=5) as asked:
                    asked.sendall(b"ruok")
                    if asked.recv(4) == b"imok":
                        return
            except OSError:
                pass
            time.sleep(0.05)
        raise ZookeeperFailed(f"ZooKeeper did not answer in {_START_SECONDS} s: {_end_of(self.server_log)}")


@atexit.register
def _close_forgotten() -> None:
    for server in list(_open):
        # A forked child inherits the set but not the processes.
        if server._owner == os.getpid():
            server.close()
