"""A server process of a test run on loopback, its files in a temporary directory; none outlives the run.

Closing ends it and removes its files, an atexit hook closes what was forgotten, and a watchdog process ends it when the
run itself is killed. Subclasses say how it starts and when it answers.
"""

from __future__ import annotations

import atexit
import os
import random
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

# The watchdog's stdin ends when the process that holds the other end is gone, however it went.
_WATCHDOG = 'read -r word; [ "$word" = done ] && exit; kill -9 "$1"; sleep 1; rm -rf -- "$2"'

_open: set[WatchedServer] = set()


class WatchedServer:
    """Construct, then ``with`` or ``start`` and ``close``."""

    def __init__(self, name: str) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix=f"seamark-{name}-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()
        _open.add(self)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def server_log(self) -> str:
        """What the server has logged so far, over all its starts."""
        file = self._directory / "server.log"
        return file.read_text(errors="replace") if file.exists() else ""

    def start(self) -> Self:
        """Start the server, on the same data and port when it ran before; returns when it answers."""
        raise NotImplementedError

    def kill(self) -> None:
        """End the process at once, as a crash would; the data stays for ``start``."""
        if self._process is not None:
            self._process.kill()
        self._reap()

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
        """Return when the server answers, raise when it ended or takes too long."""
        raise NotImplementedError

    def _run(self, command: Sequence[str]) -> None:
        """Run the server's process and its watchdog until it answers, or not at all."""
        with (self._directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        self._watchdog = subprocess.Popen(
            ["sh", "-c", _WATCHDOG, "sh", str(self._process.pid), str(self._directory)],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            self._wait_for_answer()
        except BaseException:
            self.kill()
            raise

    def _reap(self) -> None:
        # The process goes first: a watchdog that were called off before it would leave a gap.
        if self._process is not None:
            self._process.wait()
            self._process = None
        if self._watchdog is not None:
            self._watchdog.communicate(b"done\n")
            self._watchdog = None


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, outside the range from which the system serves outgoing connections.

    Inside that range a client that tries to reconnect to a stopped broker can be given the broker's own port and end up
    connected to itself.
    """
    try:
        first_ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        first_ephemeral = 32768
    highest = first_ephemeral if first_ephemeral > 12000 else 32768
    choose = random.SystemRandom()
    ports: list[int] = []
    while len(ports) < count:
        port = choose.randrange(10000, highest)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in ports:
            ports.append(port)
    return ports


def end_of(text: str) -> str:
    """The last lines of a log, for an error."""
    return "\n".join(text.strip().splitlines()[-25:])


@atexit.register
def _close_forgotten() -> None:
    for server in list(_open):
        # A forked child inherits the set but not the processes.
        if server._owner == os.getpid():
            server.close()
