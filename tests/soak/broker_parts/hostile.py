"""A million hostile frames over real sockets: nobody else is kept waiting, nothing grows.

Half of the frames have a valid header and a mutated body, so that they get past the first checks; the others are
requests mutated anywhere, half frames, sizes that lie, and other protocols. Attackers are processes of their own with
many connections each. Meanwhile an honest client produces, fetches and commits, and must be answered in time. The
broker's memory is taken after the first tenth, and must not have grown by more than 20 MB at the end.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from functools import cache
from pathlib import Path

from benchmarks.broker_process import BrokerProcess
from seamark.wire.protocol.apis import Api, all_apis
from seamark.wire.protocol.frames import encode_request
from seamark.wire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.broker_driver import Client, batch_of
from tests.support.mutations import mutate
from tests.support.random_messages import random_message

ATTACKERS = 2
CONNECTIONS = 40
MAX_GROWTH_MB = 20
# An honest request takes a millisecond; on starved cores beside the attackers it takes longer.
MAX_WAIT_SECONDS = 10.0
# A request that is parked (a long poll, a join) is given up by its sender.
_PATIENCE_SECONDS = 0.05
_CLIENT_ID = "client"
# Size, api key, version, correlation id, client id, and the empty tags of the newer header.
_HEADER_END = 4 + 2 + 2 + 4 + 2 + len(_CLIENT_ID) + 1
_STRANGERS = (
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    bytes.fromhex("160301020001000001fc0303") + bytes(500),
    struct.pack(">i", 2**31 - 1) + b"x" * 100,
    struct.pack(">i", -1),
    struct.pack(">i", 0),
    b"\0",
    struct.pack(">i", 50_000_000) + bytes(1000),
)


def run(frames: int, seed: int = 0) -> dict[str, object]:
    with (
        tempfile.TemporaryDirectory(prefix="seamark-hostile-") as place,
        BrokerProcess(Path(place) / "broker") as broker,
    ):
        honest = HonestClient(broker.bootstrap)
        reports = []
        settled_mb = 0.0
        for part, count in enumerate((frames // 10, frames - frames // 10)):
            reports += attack(broker.bootstrap, count, seed + part * ATTACKERS)
            broker.check()
            if part == 0:
                settled_mb = broker.resident_mb()
        growth_mb = broker.resident_mb() - settled_mb
        honest.stop()
        said = broker.said
    outcomes = sum((Counter(report["outcomes"]) for report in reports), Counter[str]())
    tracebacks = said.count("Traceback")
    sent = sum(outcomes.values())
    return {
        "ok": sent == frames and growth_mb < MAX_GROWTH_MB and not tracebacks and not honest.failures,
        "frames": sent,
        "outcomes": outcomes,
        "resident_mb": round(settled_mb + growth_mb, 1),
        "growth_mb": round(growth_mb, 1),
        "tracebacks": tracebacks,
        "first_traceback": said[said.find("Traceback") - 300 :][:3000] if tracebacks else "",
        "honest_requests": honest.requests,
        "honest_longest_s": round(honest.longest, 2),
        "failures": honest.failures[:5],
    }


class HonestClient:
    """Goes about its business beside the attack."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._is_stopping = threading.Event()
        self.requests = 0
        self.longest = 0.0
        self.failures: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_stopping.set()
        self._thread.join(MAX_WAIT_SECONDS * 3)

    def _run(self) -> None:
        try:
            with Client(self._bootstrap, timeout=MAX_WAIT_SECONDS) as client:
                assert client.create_topic("honest", 1).error_code == 0
                offset = 0
                while not self._is_stopping.is_set():
                    begin = time.monotonic()
                    assert client.produce("honest", batch_of(b"%d" % offset)).base_offset == offset
                    assert client.values("honest", offset) == [b"%d" % offset]
                    self._commit(client, offset)
                    self.longest = max(self.longest, time.monotonic() - begin)
                    self.requests += 3
                    offset += 1
                    time.sleep(0.02)
        except Exception as error:  # noqa: BLE001 - whatever it is, the run has failed by it
            self.failures.append(f"{type(error).__name__}: {error}")

    def _commit(self, client: Client, offset: int) -> None:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        topics = [OffsetCommitRequestTopic(name="honest", partitions=[partition])]
        answer = client.ask(OffsetCommitRequest(group_id="honest", topics=topics), 7)
        assert answer.topics[0].partitions[0].error_code in (0, 14, 15, 16), answer


def attack(bootstrap: str, frames: int, seed: int) -> list[dict[str, Counter[str]]]:
    shares = [frames // ATTACKERS + (number < frames % ATTACKERS) for number in range(ATTACKERS)]
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.soak.broker_parts.hostile", bootstrap, str(seed + number), str(share)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number, share in enumerate(shares)
    ]
    return [json.loads(child.communicate()[0]) for child in children]


# -- the attacker's side


@cache
def _apis() -> list[Api]:
    return list(all_apis().values())


@cache
def _request(key: int, version: int, variant: int) -> bytes:
    message = random_message(all_apis()[key].request, version, random.Random(f"{key} {version} {variant}"))
    return encode_request(message, version, variant, _CLIENT_ID)


def hostile_frame(rng: random.Random) -> bytes:
    """One frame as it goes onto the wire; the first half of all cases has a header that is in order."""
    if rng.random() < 0.04:
        return rng.choice(_STRANGERS)
    api = rng.choice(_apis())
    frame = _request(api.key, rng.choice(list(api.versions)), rng.randrange(8))
    if rng.random() < 0.52:
        body = frame[4:_HEADER_END] + mutate(frame[_HEADER_END:], rng)
        return struct.pack(">i", len(body)) + body
    if rng.random() < 0.1:
        # The size stands, and not all of it comes.
        return frame[: rng.randrange(len(frame))]
    body = mutate(frame[4:], rng)
    return struct.pack(">i", len(body)) + body


class Attacker:
    def __init__(self, bootstrap: str, seed: int, frames: int) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._address = (host, int(port))
        self._rng = random.Random(seed)
        self._left = frames
        self.outcomes: Counter[str] = Counter()

    async def run(self) -> None:
        await asyncio.gather(*(self._connection() for _ in range(CONNECTIONS)))

    async def _connection(self) -> None:
        loop = asyncio.get_running_loop()
        open_socket: socket.socket | None = None
        while self._left > 0:
            self._left -= 1
            frame = hostile_frame(self._rng)
            if open_socket is None:
                open_socket = await self._connect(loop)
            try:
                await loop.sock_sendall(open_socket, frame)
                answer = await asyncio.wait_for(loop.sock_recv(open_socket, 1 << 16), _PATIENCE_SECONDS)
                outcome = "answered" if answer else "closed"
            except TimeoutError:
                outcome = "no answer"
            except OSError:
                outcome = "closed"
            self.outcomes[outcome] += 1
            # What is left of a long answer would be taken for the next one; that is no matter to an attacker.
            if outcome != "answered" or self._rng.random() < 0.02:
                open_socket.close()
                open_socket = None
        if open_socket is not None:
            open_socket.close()

    async def _connect(self, loop: asyncio.AbstractEventLoop) -> socket.socket:
        while True:
            made = socket.socket()
            made.setblocking(False)
            # Closing resets: a million connections in TIME_WAIT would use up the ports.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with suppress(OSError):
                await loop.sock_connect(made, self._address)
                return made
            made.close()
            await asyncio.sleep(0.01)


if __name__ == "__main__":
    attacker = Attacker(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    asyncio.run(attacker.run())
    print(json.dumps({"outcomes": attacker.outcomes}))
