"""``seamark broker`` as a process, for benchmarks and soak runs: started, measured, killed, started again."""

from __future__ import annotations

import selectors
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

_COMMAND = "from seamark.cli.main import main; main()"
_START_SECONDS = 60.0


class BrokerFailed(AssertionError):
    """The broker did not start, or ended by itself; the message carries what it said."""


class BrokerProcess:
    """A broker on a data directory; it keeps its port from one start to the next."""

    def __init__(self, data: Path, *options: str) -> None:
        self._data = data
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.bootstrap = "127.0.0.1:0"
        self._said = data.with_name(f"{data.name}.stderr")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def said(self) -> str:
        """What it has written to standard error, over all its starts."""
        return self._said.read_text(errors="replace") if self._said.exists() else ""

    def resident_mb(self) -> float:
        return psutil.Process(self.pid).memory_info().rss / 1e6

    def processor_seconds(self) -> float:
        """What the process has used so far, in user and in kernel mode."""
        used = psutil.Process(self.pid).cpu_times()
        return float(used.user + used.system)

    def start(self) -> Self:
        """Return when it says that it serves."""
        command = [sys.executable, "-c", _COMMAND, "broker", "--data", str(self._data), "--listen", self.bootstrap]
        with self._said.open("ab") as said:
            self._process = subprocess.Popen([*command, *self._options], stdout=subprocess.PIPE, stderr=said)
        line = self._first_line(time.monotonic() + _START_SECONDS)
        if not line.startswith("ready bootstrap="):
            self.kill()
            raise BrokerFailed(f"the broker did not start: {self.said[-2000:]}")
        self.bootstrap = line.strip().removeprefix("ready bootstrap=")
        return self

    def _first_line(self, deadline: float) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(max(0.0, deadline - time.monotonic())):
                return ""
        return self._process.stdout.readline().decode()

    def check(self) -> None:
        """Raise when it has ended by itself."""
        if self._process is None or self._process.poll() is not None:
            raise BrokerFailed(f"the broker ended by itself: {self.said[-2000:]}")

    def kill(self) -> None:
        """End it as a crash does."""
        self._end("kill")

    def stop(self) -> None:
        """End it in good order."""
        self._end("terminate")

    def _end(self, how: str) -> None:
        process, self._process = self._process, None
        if process is not None:
            getattr(process, how)()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise BrokerFailed("the broker did not end within 30 s") from None
            finally:
                assert process.stdout is not None
                process.stdout.close()

    def __enter__(self) -> Self:
        return self if self._process is not None else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
