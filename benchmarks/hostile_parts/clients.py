"""The hostile clients, each a process of its own that does its worst until its standard input ends.

``python -m benchmarks.hostile_parts.clients KIND BOOTSTRAP USER FRAMES`` attacks as ``KIND``; ``FRAMES`` is a directory
with the worst requests that were found, one file each. They run at the lowest priority: they stand for other machines,
and must not take the broker's processor from it other than by what they send. At the end each prints what it did.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import random
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.hostile_parts import batches
from benchmarks.hostile_parts.login import Address
from benchmarks.hostile_parts.world import COMPACTED, PLAIN
from seamark.wire.compression import Codec
from seamark.wire.frames import encode_request
from seamark.wire.messages.metadata import MetadataRequest
from seamark.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from seamark.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.broker_driver import Client, fetch_request
from tests.support.capture import CaptureError

HALF_REQUESTS = 100
SLOW_READERS = 50
HOARDED = 1000
# What a bomb unfolds to.
BOMB_BYTES = 10_000_000
LOWEST_PRIORITY = 19
_ALL_TOPICS = encode_request(MetadataRequest(topics=None), 1, 1, "hostile")


class Attack:
    """One kind of attack; a step is a request, a connection or a round of them."""

    def __init__(self, address: Address, frames: list[bytes]) -> None:
        self._address = address
        self._frames = itertools.cycle(frames or [_ALL_TOPICS])
        self._rng = random.Random(1)
        self._bombs: Iterator[bytes] = iter(())
        self._held: list[socket.socket] = []
        self._client: Client | None = None
        self.done: Counter[str] = Counter()

    def prepare(self, kind: str) -> None:
        """Make what takes long to make, before the attack begins."""
        if kind == "bombs":
            made = [
                batches.bomb(content, codec, BOMB_BYTES)
                for content in batches.CONTENTS
                for codec in (Codec.ZSTD, Codec.GZIP)
            ]
            self._bombs = itertools.cycle(
                [batches.produce_frame(topic, bomb, 100) for bomb in made for topic in (COMPACTED, PLAIN)]
            )

    def step(self, kind: str) -> None:
        try:
            getattr(self, kind)()
        except (OSError, CaptureError, RuntimeError):
            # Thrown out, or not let in: it comes back.
            self.done["refused"] += 1
            self._drop()
            time.sleep(0.01)

    def worst(self) -> None:
        self._ask(next(self._frames))

    def metadata(self) -> None:
        self._ask(_ALL_TOPICS)

    def bombs(self) -> None:
        """Produce what unfolds to far more than it is, to as many partitions as fit."""
        self._ask(next(self._bombs))

    def half(self) -> None:
        """Begin large requests and go on with them by single bytes."""
        while len(self._held) < HALF_REQUESTS:
            size = self._rng.choice((1 << 20, 100 << 20))
            self._hold(struct.pack(">i", size) + bytes(self._rng.choice((4, 60_000))))
        self._for_each_held(lambda each: each.send(b"\0"))
        time.sleep(0.5)

    def hoard(self) -> None:
        """Hold connections and say nothing."""
        while len(self._held) < HOARDED:
            self._hold(b"")
        self._for_each_held(lambda each: each.recv(1))
        time.sleep(0.2)

    def slow(self) -> None:
        """Ask for long answers and read a byte of them now and then."""
        while len(self._held) < SLOW_READERS:
            client = self._address.connect(5)
            wanted: dict[tuple[str | bytes, int], int] = {(PLAIN, each): 0 for each in range(100)}
            client.wire.send(_ALL_TOPICS * 20 + client.frame(fetch_request(wanted, max_bytes=1 << 30), 11))
            self._held.append(client.wire.detach())
            self._held[-1].setblocking(False)
            self.done["connections"] += 1
        self._for_each_held(lambda each: each.recv(1))
        time.sleep(0.2)

    def churn(self) -> None:
        """Open connections and drop them, with and without a request under way."""
        for number in range(20):
            made = self._open()
            if number % 2:
                made.sendall(_ALL_TOPICS)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            made.close()
            self.done["connections"] += 1

    def logins(self) -> None:
        """Log in with a wrong password, in turn by PLAIN and by SCRAM."""
        with Client(self._address.bootstrap, timeout=5) as client:
            if self._rng.random() < 0.5:
                client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
                tokens: Iterable[Callable[[bytes], bytes]] = (lambda _: b"\0honest\0wrong",)
            else:
                client.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
                tokens = (lambda _: b"n,,n=honest,r=hostile", _wrong_proof)
            answered = b""
            for token in tokens:
                answered = client.ask(SaslAuthenticateRequest(auth_bytes=token(answered)), 1).auth_bytes
        self.done["logins"] += 1

    def _ask(self, frame: bytes) -> None:
        if self._client is None:
            self._client = self._address.connect(5)
            self.done["connections"] += 1
        self._client.wire.send(frame)
        self.done["requests"] += 1
        self.done["answer_bytes"] += len(self._client.wire.receive(1.0))

    def _open(self) -> socket.socket:
        host, _, port = self._address.bootstrap.rpartition(":")
        return socket.create_connection((host, int(port)), 5)

    def _hold(self, first: bytes) -> None:
        made = self._open()
        made.setblocking(False)
        self._held.append(made)
        self.done["connections"] += 1
        if first:
            made.send(first)

    def _for_each_held(self, touch: Callable[[socket.socket], object]) -> None:
        """Keep those that the broker has not closed."""
        kept = []
        for each in self._held:
            try:
                is_open = touch(each) != b""
            except BlockingIOError:
                is_open = True
            except OSError:
                is_open = False
            if is_open:
                kept.append(each)
            else:
                each.close()
                self.done["thrown out"] += 1
        self._held = kept

    def _drop(self) -> None:
        if self._client is not None:
            with suppress(OSError):
                self._client.close()
            self._client = None


def _wrong_proof(challenge: bytes) -> bytes:
    nonce = dict(part.split(b"=", 1) for part in challenge.split(b","))[b"r"]
    return b"c=biws,r=" + nonce + b",p=" + base64.b64encode(bytes(32))


KINDS = ("worst", "half", "churn", "slow", "logins", "bombs", "metadata", "hoard")


@contextmanager
def attacking(kinds: Iterable[str], address: Address, frames: Path) -> Iterator[dict[str, Counter[str]]]:
    """Let the clients attack inside the block; what each has done is in the dictionary afterwards."""
    done: dict[str, Counter[str]] = {}
    children = {
        kind: subprocess.Popen(
            [sys.executable, "-m", __name__, kind, address.bootstrap, address.user, str(frames)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for kind in kinds
    }  # fmt: skip
    try:
        for kind, child in children.items():
            assert child.stdout is not None
            if not child.stdout.readline():
                raise RuntimeError(f"the hostile client {kind!r} ended before it began")
        yield done
        for child in children.values():
            assert child.stdin is not None
            child.stdin.close()
            child.stdin = None
        for kind, child in children.items():
            try:
                said, _ = child.communicate(timeout=40)
                done[kind] = Counter(json.loads(said or "{}"))
            except subprocess.TimeoutExpired:
                done[kind] = Counter({"did not end in time": 1})
    finally:
        for child in children.values():
            child.kill()
            child.wait()
            for pipe in (child.stdin, child.stdout):
                if pipe is not None:
                    pipe.close()


@contextmanager
def busy(count: int) -> Iterator[None]:
    """As many processes that only use the processor, at the same priority."""
    program = f"import os\nos.nice({LOWEST_PRIORITY})\nwhile True: pass"
    children = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(count)]
    try:
        yield
    finally:
        for child in children:
            child.kill()
            child.wait()


def main() -> None:
    kind, bootstrap, user, directory = sys.argv[1:]
    frames = [path.read_bytes() for path in sorted(Path(directory).glob("*.frame"))]
    attack = Attack(Address(bootstrap, user), frames)
    attack.prepare(kind)
    os.nice(LOWEST_PRIORITY)
    is_over = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        is_over.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    print("ready", flush=True)
    while not is_over.is_set():
        attack.step(kind)
    print(json.dumps(attack.done))


if __name__ == "__main__":
    main()
