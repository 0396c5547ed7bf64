"""What one request costs everybody else, seen from outside the broker.

A bystander on a connection of its own asks for the broker's API versions again and again; while the broker is busy with
the hostile request, that answer does not come, and the longest such wait is the pause. The broker's peak memory is
what the kernel noted for its process (``VmHWM``, set back before each request).
"""

from __future__ import annotations

import selectors
import socket
import struct
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.hostile_parts.login import Address
from seamark.wire.protocol.frames import encode_request
from seamark.wire.protocol.messages.api_versions import ApiVersionsRequest

# Beyond this a request is bad enough; the true figure is not waited for.
PATIENCE_SECONDS = 3.0
# A request without an answer that keeps nobody waiting for this long is parked (a join, a long poll).
PARKED_SECONDS = 0.25
# Work may follow an answer, in a later turn of the broker's loop.
_AFTERMATH_SECONDS = 0.03
# A bystander that waits longer than this says that the broker is still at it.
_NOTICED_SECONDS = 0.005
_PING = encode_request(ApiVersionsRequest(), 0, 7, "bystander")
_PING_SECONDS = 0.001
_SEND_BYTES = 1 << 18


@dataclass(frozen=True)
class Cost:
    """What was seen while one request was handled."""

    pause_s: float
    # Processor time of the broker meanwhile, the bystander's requests included: a busy machine hardly changes it.
    processor_s: float
    memory_mb: float
    answer_bytes: int
    # "answered", "closed", "parked" (no answer, or it was not read), or "unfinished" when the patience ended first: the
    # figures are then lower bounds.
    outcome: str


class Connection:
    """A socket that never blocks, and how much of the answer it has; all of it with ``keeps``."""

    def __init__(self, address: Address, *, keeps: bool = False) -> None:
        self.socket = address.connect().wire.detach()
        self.socket.setblocking(False)
        self._to_send = memoryview(b"")
        self._keeps = keeps
        self._reads = True
        self._head = bytearray()
        self._left = -1
        self.received = 0
        self.is_closed = False

    @property
    def answer(self) -> bytes:
        """The whole frame, of a connection that keeps it."""
        return bytes(self._head)

    def stop_reading(self) -> None:
        """From now on the broker has to keep its answers; the kernel would take megabytes off its hands."""
        self._reads = False
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)

    def begin(self, frame: bytes) -> None:
        self._to_send = memoryview(frame)
        self._head.clear()
        self._left = -1
        self.received = 0

    @property
    def is_sent(self) -> bool:
        return not self._to_send

    @property
    def is_answered(self) -> bool:
        return self._left == 0

    @property
    def waits_for_answer(self) -> bool:
        return self._reads and not self.is_answered

    def advance(self) -> None:
        """Send and receive what is possible now."""
        try:
            if self._to_send:
                with suppress(BlockingIOError):
                    self._to_send = self._to_send[self.socket.send(self._to_send[:_SEND_BYTES]) :]
            while self._reads and self._left != 0:
                piece = self.socket.recv(1 << 20)
                if not piece:
                    self.is_closed = True
                    return
                self._take(piece)
        except BlockingIOError:
            pass
        except OSError:
            self.is_closed = True

    def _take(self, piece: bytes) -> None:
        self.received += len(piece)
        if self._keeps or self._left < 0:
            self._head += piece
        if self._left >= 0:
            self._left -= len(piece)
        elif len(self._head) >= 4:
            self._left = 4 + struct.unpack_from(">i", self._head)[0] - self.received

    def close(self) -> None:
        self.socket.close()


class Probe:
    """The bystander of one broker process; ``idle_mb`` is what that process holds before anything hostile."""

    def __init__(self, address: Address, pid: int) -> None:
        self._pid = pid
        self._bystander = Connection(address)
        self.usual_s = self._usual()
        self.idle_mb = self.resident_mb()

    def _usual(self) -> float:
        """The wait that the bystander has anyway, to be taken off."""
        waits = []
        for _ in range(50):
            self._bystander.begin(_PING)
            begin = time.perf_counter()
            while not self._bystander.is_answered:
                self._bystander.advance()
                if self._bystander.is_closed or time.perf_counter() - begin > PATIENCE_SECONDS:
                    raise RuntimeError("the broker does not answer an idle client")
            waits.append(time.perf_counter() - begin)
            time.sleep(_PING_SECONDS)
        return sorted(waits)[len(waits) // 2]

    def resident_mb(self) -> float:
        return _status_mb(self._pid, "VmRSS")

    def measure(self, frame: bytes, attack: Connection, watched_s: float = 0.0, answered_s: float = 0.0) -> Cost:
        """Send one request, and watch until all is quiet again; the answer is waited for as long as ``answered_s``."""
        Path(f"/proc/{self._pid}/clear_refs").write_text("5")
        busy_before = self._processor_seconds()
        pause, outcome = self._watch(attack, frame, watched_s, answered_s)
        memory = max(0.0, _status_mb(self._pid, "VmHWM") - self.idle_mb)
        pause = max(0.0, pause - self.usual_s)
        busy = self._processor_seconds() - busy_before
        return Cost(round(pause, 4), round(busy, 3), round(memory, 1), attack.received, outcome)

    def _processor_seconds(self) -> float:
        """Of the process's first thread, which runs the event loop."""
        return int(Path(f"/proc/{self._pid}/schedstat").read_text().split()[0]) / 1e9

    def _watch(self, attack: Connection, frame: bytes, watched_s: float, answered_s: float) -> tuple[float, str]:
        bystander = self._bystander
        bystander.begin(_PING)
        asked = time.perf_counter()
        attack.begin(frame)
        is_waiting = True
        longest = 0.0
        begin = quiet_since = asked
        while True:
            attack.advance()
            bystander.advance()
            now = time.perf_counter()
            if bystander.is_closed:
                return now - asked, "bystander closed"
            if bystander.is_answered:
                if is_waiting:
                    is_waiting = False
                    longest = max(longest, now - asked)
                    if now - asked > _NOTICED_SECONDS:
                        quiet_since = now
                is_done = attack.is_closed or attack.is_answered
                if not is_done and not attack.is_sent:
                    quiet_since = now
                wanted = _AFTERMATH_SECONDS if is_done else max(PARKED_SECONDS, answered_s)
                is_quiet = now - quiet_since > wanted and now - begin > watched_s
                if is_quiet and (attack.is_sent or attack.is_closed):
                    return longest, "closed" if attack.is_closed else "answered" if is_done else "parked"
                if now - begin > max(PATIENCE_SECONDS, answered_s) + watched_s:
                    return longest, "answered" if is_done else "unfinished"
                if now - asked > _PING_SECONDS:
                    bystander.begin(_PING)
                    asked, is_waiting = now, True
            elif now - asked > PATIENCE_SECONDS:
                return now - asked, "unfinished"
            self._wait(attack, bystander)

    @staticmethod
    def _wait(attack: Connection, bystander: Connection) -> None:
        with selectors.SelectSelector() as selector:
            if not attack.is_closed:
                wanted = selectors.EVENT_READ if attack.waits_for_answer else 0
                wanted |= selectors.EVENT_WRITE if not attack.is_sent else 0
                if wanted:
                    selector.register(attack.socket, wanted)
            selector.register(bystander.socket, selectors.EVENT_READ)
            selector.select(_PING_SECONDS)

    def close(self) -> None:
        self._bystander.close()


def _status_mb(pid: int, name: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError(f"the kernel does not tell {name} of process {pid}")
