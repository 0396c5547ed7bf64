"""The requests that the search begins with: shapes of every API and version, bombs, and what strangers may send."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from benchmarks.hostile_parts import batches
from benchmarks.hostile_parts.shapes import CLIENT_ID, Shape, array_paths, first_fillings, fitted, mutated
from benchmarks.hostile_parts.world import COMPACTED, PLAIN, World
from seamark.wire.apis import api_named
from seamark.wire.compression import Codec
from seamark.wire.frames import encode_request
from seamark.wire.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from seamark.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from seamark.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.broker_driver import fetch_request

# Served versions by API, oldest and newest.
Served = dict[str, tuple[int, int]]
# Makes a frame; the number makes names new that must not have been there before.
Maker = Callable[[int], bytes]
# The attacked broker looks every half second for what is to be cleaned, once it is synced.
CLEANING_SECONDS = 4.0


@dataclass(frozen=True)
class Case:
    """One request; ``before`` is sent and answered first, on the same connection."""

    api: str
    version: int
    text: str
    frame: Maker
    before: tuple[Maker, ...] = ()
    shape: Shape | None = None
    # How long the broker is watched at least: what it does later with what it was sent.
    watched_s: float = 0.0
    # Whether what it leaves behind would count for the next case.
    leaves_records: bool = False


def of_shape(shape: Shape, world: World) -> Case:
    return Case(shape.api, shape.version, str(shape), lambda salt: shape.frame(world, salt), shape=shape)


def filled(shape: Shape, path: str, world: World) -> Case:
    return of_shape(fitted(shape, path, world), world)


def neighbour(case: Case, world: World, rng: random.Random) -> Case:
    assert case.shape is not None
    return of_shape(mutated(case.shape, world, rng), world)


def in_version(case: Case, version: int, world: World) -> Case:
    """The same shape in another version, filled up again; what has another name there is filled in its place."""
    assert case.shape is not None
    shape = replace(case.shape, version=version)
    paths = array_paths(api_named(shape.api).request, version)
    if shape.counts and paths:
        path, _ = max(shape.counts, key=lambda each: each[1])
        if path not in paths:
            shape, path = replace(shape, counts=()), paths[-1]
        shape = fitted(shape, path, world)
    return of_shape(shape, world)


def rounds(served: Served, world: World, rng: random.Random) -> Iterator[Case]:
    """All first shapes in the oldest and the newest version, one of each API in turn.

    The order is by chance, but full arrays of what is smallest or different each time come first: if the time is
    short, these are most often the worst.
    """
    waiting = [list(first_fillings(api, each)) for api, versions in served.items() for each in sorted({*versions})]
    for fillings in waiting:
        rng.shuffle(fillings)
        fillings.sort(key=lambda each: each.path is not None and each.shape.names in ("empty", "distinct", "existing"))
    while waiting:
        rng.shuffle(waiting)
        for fillings in waiting:
            yield of_shape(fillings.pop().fitted(world), world)
        waiting = [fillings for fillings in waiting if fillings]


def produced(world: World) -> Iterator[Case]:
    """Bombs and lies: sent to a plain topic and to a compacted one, asked for again, searched by time, cleaned."""
    for text, make in (batches.bombs() | batches.lies()).items():
        for topic in (PLAIN, COMPACTED):
            for partitions in (1, 100):
                yield Case("Produce", 9, f"{topic} partitions={partitions} {text}", _produce(topic, make, partitions))
        store = (_produce(PLAIN, make, 50),)
        by_time, fetch = (lambda _: _by_time(world)), (lambda _: _fetch())
        yield Case("ListOffsets", 6, f"by time after {text}", by_time, before=store, leaves_records=True)
        yield Case("Fetch", 12, f"of {text}", fetch, before=store, leaves_records=True)
    # Two of these do not fit into one segment.
    large = _produce(COMPACTED, partial(batches.bomb, "zeros", Codec.NONE, 600_000))
    for text, make in batches.bombs().items():
        bomb = _produce(COMPACTED, make)
        before = (bomb, large, bomb, large)
        yield Case(
            "Produce", 9, f"compaction of {text}", large, before, watched_s=CLEANING_SECONDS, leaves_records=True
        )  # fmt: skip


def _produce(topic: str, make: Callable[[], bytes], partitions: int = 1) -> Maker:
    return lambda _: batches.produce_frame(topic, make(), partitions)


def _by_time(world: World) -> bytes:
    time_ms = batches.TIMESTAMP_MS + 500
    asked = [ListOffsetsRequestPartition(partition_index=each, timestamp=time_ms) for each in range(100)]
    topics = [ListOffsetsRequestTopic(name=name, partitions=asked) for name in (PLAIN, COMPACTED, world.topics[0])]
    return encode_request(ListOffsetsRequest(replica_id=-1, topics=topics), 6, 1, CLIENT_ID)


def _fetch() -> bytes:
    wanted: dict[tuple[str | bytes, int], int] = {(PLAIN, each): 0 for each in range(100)}
    return encode_request(fetch_request(wanted, max_bytes=2**31 - 1), 12, 1, CLIENT_ID)


def of_strangers() -> Iterator[Case]:
    """What somebody who has not logged in may send to a broker that asks for a login."""
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "x" * 30_000):
        frame = encode_request(SaslHandshakeRequest(mechanism=mechanism), 1, 1, CLIENT_ID)
        yield Case("SaslHandshake", 1, f"mechanism of {len(mechanism)} characters", lambda _, frame=frame: frame)
    for mechanism in ("PLAIN", "SCRAM-SHA-256"):
        for version in (0, 2):
            hello = encode_request(SaslHandshakeRequest(mechanism=mechanism), 1, 1, CLIENT_ID)
            for size in (100, 500_000, 1_000_000):
                for text, token in _tokens(size):
                    request = SaslAuthenticateRequest(auth_bytes=token)
                    frame = encode_request(request, version, 2, CLIENT_ID)
                    yield Case(
                        "SaslAuthenticate", version, f"{mechanism} {text} of {size} bytes",
                        lambda _, frame=frame: frame, before=(lambda _, hello=hello: hello,),
                    )  # fmt: skip
    yield Case("SaslAuthenticate", 0, "half a frame of 100 MB", lambda _: struct.pack(">i", 100 << 20) + bytes(900_000))


def _tokens(size: int) -> Iterator[tuple[str, bytes]]:
    yield "user and password", b"\0user\0" + b"p" * size
    yield "NULs", bytes(size)
    yield "attributes", b"n,," + b"n=a,r=b," * (size // 8)
    yield "nonce", b"n,,n=user,r=" + b"r" * size
