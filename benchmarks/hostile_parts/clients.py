"""The hostile clients, each a process of its own that attacks from the first line of its standard input to its end.

``python -m benchmarks.hostile_parts.clients KIND BOOTSTRAP USER FRAMES CONNECTIONS`` attacks as ``KIND``; ``FRAMES`` is
a directory with requests, one file each: in ``worst`` the worst that were found, in ``bombs`` what ``write_bombs``
makes. Kinds that send whole requests have several connections with several requests under way on each. All run only
when nobody else wants the processor: they stand for other machines, and must not take it from the broker other than by
what they send. At the end each prints what it did.
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
from contextlib import contextmanager
from pathlib import Path

from benchmarks.hostile_parts import batches
from benchmarks.hostile_parts.login import ATTACKS, Address, attacker
from benchmarks.hostile_parts.pipeline import Pipeline
from benchmarks.hostile_parts.world import COMPACTED, PLAIN
from seamark.wire.protocol.frames import encode_request
from seamark.wire.protocol.messages.metadata import MetadataRequest
from seamark.wire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from seamark.wire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from seamark.wire.records.compression import Codec
from tests.support.broker_driver import Client, fetch_request
from tests.support.capture import CaptureError

HALF_REQUESTS = 100
SLOW_READERS = 50
HOARDED = 1000
# Connections of each kind that sends whole requests; those of the others are held by one thread.
CONNECTIONS = 8
PIPELINED = ("worst", "metadata", "bombs")
# Wrong logins that were taken for right; there must be none.
LET_IN = "logins let in"
_LOWEST_PRIORITY = 19
# A step of a pipeline; after it the attacker looks whether it shall end.
_STEP_SECONDS = 0.2
_LAST_SECONDS = 20.0
_ALL_TOPICS = encode_request(MetadataRequest(topics=None), 1, 1, "hostile")


class Attack:
    """One kind of attack; a step is a request, a connection or a round of them."""

    def __init__(self, address: Address, frames: list[bytes]) -> None:
        self._address = address
        self._frames = itertools.cycle(frames)
        self._rng = random.Random(1)
        self._held: list[socket.socket] = []
        self._pipeline: Pipeline | None = None
        self.done: Counter[str] = Counter()

    def connect(self) -> None:
        """Be let in before the attack begins: whoever comes later may have to wait."""
        self._pipeline = Pipeline(self._address, self._frames, self.done)

    def step(self, kind: str) -> None:
        try:
            getattr(self, kind)()
        except (OSError, CaptureError, RuntimeError):
            # Thrown out, or not let in: it comes back.
            self.done["refused"] += 1
            self._drop()
            time.sleep(0.01)

    def worst(self) -> None:
        self._ask(None)

    def metadata(self) -> None:
        self._ask(None)

    def bombs(self) -> None:
        """Produce what unfolds to far more than it is, to as many partitions as fit."""
        self._ask(self._count_stored)

    def _count_stored(self, answer: bytes) -> None:
        codes = batches.produced_codes(answer)
        self.done["bombs stored"] += codes.count(0)
        self.done["bombs refused"] += len(codes) - codes.count(0)

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
            answered, code = b"", 0
            for token in tokens:
                answer = client.ask(SaslAuthenticateRequest(auth_bytes=token(answered)), 1)
                answered, code = answer.auth_bytes, answer.error_code
        self.done["logins refused" if code else LET_IN] += 1

    def _ask(self, heard: Callable[[bytes], None] | None) -> None:
        if self._pipeline is None:
            self.connect()
        assert self._pipeline is not None
        self._pipeline.advance(_STEP_SECONDS, heard)

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
                self.done["bytes sent or read"] += is_open
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
        if self._pipeline is not None:
            self._pipeline.close()
            self._pipeline = None


def _wrong_proof(challenge: bytes) -> bytes:
    nonce = dict(part.split(b"=", 1) for part in challenge.split(b","))[b"r"]
    return b"c=biws,r=" + nonce + b",p=" + base64.b64encode(bytes(32))


# The kinds, and what each must have counted, or it did not do what it is for.
NEEDED = {
    "worst": "answers", "half": "bytes sent or read", "churn": "connections", "slow": "bytes sent or read",
    "logins": "logins refused", "bombs": "bombs stored", "metadata": "answers", "hoard": "connections",
}  # fmt: skip
KINDS = ATTACKS


@contextmanager
def attacking(
    kinds: Iterable[str], bootstrap: str, frames: Path, connections: int = CONNECTIONS
) -> Iterator[dict[str, Counter[str]]]:
    """Let the clients attack inside the block, each as a user of its own; what each has done is in the dictionary
    afterwards.
    """
    done: dict[str, Counter[str]] = {}
    children = {
        kind: subprocess.Popen(
            [sys.executable, "-m", __name__, kind, bootstrap, attacker(kind), str(frames), str(connections)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for kind in kinds
    }  # fmt: skip
    try:
        for kind, child in children.items():
            assert child.stdout is not None
            if not child.stdout.readline():
                raise RuntimeError(f"the hostile client {kind!r} ended before it began")
        for child in children.values():
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
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


def stand_aside() -> bool:
    """Run only when nobody else on this machine wants the processor, or, where that is not allowed, with the smallest
    share of it; whether it is the first.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except (AttributeError, OSError):
        os.nice(_LOWEST_PRIORITY)
        return False
    return True


@contextmanager
def busy(count: int) -> Iterator[None]:
    """As many processes that only use the processor, at the same priority."""
    program = f"from {__name__} import stand_aside\nstand_aside()\nprint(flush=True)\nwhile True: pass"
    children = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) for _ in range(count)]
    try:
        for child in children:
            assert child.stdout is not None
            child.stdout.readline()
        yield
    finally:
        for child in children:
            child.kill()
            child.wait()
            assert child.stdout is not None
            child.stdout.close()


def write_bombs(directory: Path, size: int = batches.UNFOLDED_BYTES, partitions: int = 100) -> None:
    """Requests with bombs of that size, for one partition and for as many as fit."""
    directory.mkdir()
    made = [batches.bomb(content, codec, size) for content in batches.CONTENTS for codec in (Codec.ZSTD, Codec.GZIP)]
    frames = (
        batches.produce_frame(topic, bomb, range(batches.that_fit(bomb, most)))
        for most in (1, partitions)
        for bomb in made
        for topic in (COMPACTED, PLAIN)
    )
    for number, frame in enumerate(frames):
        (directory / f"{number:02d}.frame").write_bytes(frame)


def main() -> None:
    kind, bootstrap, user, directory, connections = sys.argv[1:]
    is_aside = stand_aside()
    frames = [path.read_bytes() for path in sorted((Path(directory) / kind).glob("*.frame"))] or [_ALL_TOPICS]
    # Each begins with another one, so that all are under way at a time.
    turns = [frames[first:] + frames[:first] for first in range(int(connections) if kind in PIPELINED else 1)]
    attacks = [Attack(Address(bootstrap, user), each) for each in turns]
    is_over = threading.Event()

    def go_on(attack: Attack) -> None:
        while not is_over.is_set():
            attack.step(kind)
        # On a busy machine it may not have come to anything yet, which the counts then say.
        deadline = time.monotonic() + _LAST_SECONDS
        while not any(each.done[NEEDED[kind]] for each in attacks) and time.monotonic() < deadline:
            attack.done["steps after the end"] += 1
            attack.step(kind)

    if kind in PIPELINED:
        for attack in attacks:
            attack.connect()
    threads = [threading.Thread(target=go_on, args=(attack,), daemon=True) for attack in attacks]
    print("ready", flush=True)
    sys.stdin.readline()
    for thread in threads:
        thread.start()
    sys.stdin.read()
    is_over.set()
    for thread in threads:
        thread.join()
    done = sum((attack.done for attack in attacks), Counter())
    if not is_aside:
        # Then the attackers take more of the processor than other machines would; the figures must say so.
        done[f"ran at nice {_LOWEST_PRIORITY}"] = 1
    print(json.dumps(done))


if __name__ == "__main__":
    main()
