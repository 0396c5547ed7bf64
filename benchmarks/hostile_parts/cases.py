"""The requests that the search begins with: shapes of every API and version, bombs, and what strangers may send."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from benchmarks.hostile_parts import batches
from benchmarks.hostile_parts.shapes import CLIENT_ID, LIMIT_BYTES, Shape, array_paths, first_fillings, fitted, mutated
from benchmarks.hostile_parts.world import COMPACTED, FIRST_RECORDS, PLAIN, World
from seamark.wire.protocol.apis import api_named
from seamark.wire.protocol.frames import decode_response, encode_request
from seamark.wire.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
)
from seamark.wire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from seamark.wire.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from seamark.wire.records.compression import Codec
from seamark.wire.records.record_batch import read_header
from seamark.wire.schema.schema import Message
from tests.support.broker_driver import Client, fetch_request

# Served versions by API, oldest and newest.
Served = dict[str, tuple[int, int]]
# Makes a frame; the number makes names new that must not have been there before.
Maker = Callable[[int], bytes]
# The attacked broker looks every half second for what is to be cleaned, once it is synced.
CLEANING_SECONDS = 4.0
# Partitions that hold a bomb each before they are searched or read.
STORED_PARTITIONS = 20
# Looks at an answer; a sentence says why it is not what the case needs.
Check = Callable[[bytes], str]
# Asks the broker afterwards, in the same way.
Aftermath = Callable[[Client], str]


@dataclass(frozen=True)
class Step:
    """A request that must be answered in a certain way, or what follows is not what it says."""

    frame: Maker
    check: Check


@dataclass(frozen=True)
class Case:
    """One request; ``before`` is sent and answered first, on the same connection."""

    api: str
    version: int
    text: str
    frame: Maker
    before: tuple[Step, ...] = ()
    shape: Shape | None = None
    # How long the broker is watched at least: what it does later with what it was sent.
    watched_s: float = 0.0
    # Whether what it leaves behind would count for the next case.
    leaves_records: bool = False
    # Whether the client reads the answer; if not, the broker has to keep it.
    reads: bool = True
    # Whether it did what it says, by its answer and by what the broker holds afterwards.
    check: Check | None = None
    aftermath: Aftermath | None = None


def of_shape(shape: Shape, world: World) -> Case:
    return Case(shape.api, shape.version, str(shape), lambda salt: shape.frame(world, salt), shape=shape)


def filled(shape: Shape, path: str, world: World, limit: int = LIMIT_BYTES) -> Case:
    return of_shape(fitted(shape, path, world, limit), world)


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


def unread(case: Case) -> Case:
    """The same from a client that does not read the answer."""
    return replace(case, text=f"{case.text} answer not read", reads=False, check=None)


def produced(world: World, size: int = batches.UNFOLDED_BYTES) -> list[Case]:
    """Bombs and lies: sent to a plain topic and to a compacted one, asked for again, searched by time, cleaned.

    Making them takes longer than sending them, which must not be part of a search's time: so this is a list.
    """
    bombs = batches.bombs(size)
    kinds = [
        *(_sent(bombs, topic, partitions) for topic in (PLAIN, COMPACTED) for partitions in (1, 10)),
        [_searched(text, bomb, world) for text, bomb in bombs.items()],
        [_fetched(text, bomb) for text, bomb in bombs.items()],
        [_cleaned(text, bomb) for text, bomb in bombs.items()],
        *(_lied(topic, partitions) for topic in (PLAIN, COMPACTED) for partitions in (1, 100)),
    ]
    return [case for kind in kinds for case in kind]


def in_turn(chosen: Iterable[Case], rng: random.Random) -> list[Case]:
    """By chance, but one of each kind after the other."""
    kinds: dict[str, list[Case]] = {}
    for case in chosen:
        kinds.setdefault(case.text.partition(":")[0], []).append(case)
    for kind in kinds.values():
        rng.shuffle(kind)
    rounds = zip_longest(*kinds.values())
    return [case for each in rounds for case in each if case is not None]


def _sent(bombs: dict[str, bytes], topic: str, partitions: int) -> list[Case]:
    return [
        Case(
            "Produce",
            9,
            f"to {topic}, partitions={partitions}: {text}",
            _full(topic, bomb, partitions),
            # They would be there when the next case searches or cleans the topic.
            leaves_records=True,
            check=all_stored,
        )
        for text, bomb in bombs.items()
    ]


def _lied(topic: str, partitions: int) -> list[Case]:
    return [
        Case("Produce", 9, f"false, to {topic}, partitions={partitions}: {text}", _full(topic, lie, partitions))
        for text, lie in batches.lies().items()
    ]


def _full(topic: str, records: bytes, partitions: int) -> Maker:
    """To as many of the partitions as fit into one request."""
    return _produce(topic, records, range(batches.that_fit(records, partitions)))


def _searched(text: str, bomb: bytes, world: World) -> Case:
    last = batches.last_offset(bomb)
    wanted = [last + FIRST_RECORDS] + [last] * (STORED_PARTITIONS - 1)

    def check(answer: bytes) -> str:
        plain = _answered(ListOffsetsResponse, answer, 6).topics[0].partitions
        found = {each.partition_index: each.offset for each in plain}
        missed = [found[index] for index, offset in enumerate(wanted) if found[index] != offset]
        return f"the search by time found offset {missed[0]}, not {last}" if missed else ""

    return Case(
        "ListOffsets", 6, f"by time after: {text}", lambda _: _by_time(world),
        before=_stored(PLAIN, bomb, STORED_PARTITIONS), leaves_records=True, check=check,
    )  # fmt: skip


def _fetched(text: str, bomb: bytes) -> Case:
    def check(answer: bytes) -> str:
        # The answer may end, in the first partition, with the records that were there before.
        return "" if len(answer) >= (STORED_PARTITIONS - 1) * len(bomb) else f"the answer has only {len(answer)} bytes"

    return Case(
        "Fetch", 12, f"of: {text}", lambda _: _fetch(),
        before=_stored(PLAIN, bomb, STORED_PARTITIONS), leaves_records=True, check=check,
    )  # fmt: skip


def _cleaned(text: str, bomb: bytes) -> Case:
    # Two of these do not fit into one segment, and only segments that are full are cleaned.
    large = batches.bomb("zeros", Codec.NONE, 600_000)
    before = tuple(step for each in (bomb, large, bomb, large) for step in _stored(COMPACTED, each))
    return Case(
        "Produce", 9, f"compaction of: {text}", _produce(COMPACTED, large), before,
        watched_s=CLEANING_SECONDS, leaves_records=True, check=all_stored, aftermath=_is_cleaned,
    )  # fmt: skip


def _is_cleaned(client: Client) -> str:
    kept = bytes(client.fetch(COMPACTED, 0).records or b"")
    is_cleaned = kept and read_header(kept).base_offset > 0
    return "" if is_cleaned else f"nothing was cleaned in {CLEANING_SECONDS:g} s"


def _stored(topic: str, records: bytes, partitions: int = 1) -> tuple[Step, ...]:
    """In as many requests as it takes."""
    most = batches.that_fit(records, partitions)
    parts = [range(first, min(first + most, partitions)) for first in range(0, partitions, most)]
    return tuple(Step(_produce(topic, records, part), all_stored) for part in parts)


def all_stored(answer: bytes) -> str:
    refused = {code for code in batches.produced_codes(answer) if code}
    return f"the broker refused the batches with {sorted(refused)}" if refused else ""


def _produce(topic: str, records: bytes, partitions: Iterable[int] = (0,)) -> Maker:
    return lambda _: batches.produce_frame(topic, records, partitions)


def _by_time(world: World) -> bytes:
    time_ms = batches.TIMESTAMP_MS + batches.LAST_IS_LATER_MS
    asked = [ListOffsetsRequestPartition(partition_index=each, timestamp=time_ms) for each in range(100)]
    topics = [ListOffsetsRequestTopic(name=name, partitions=asked) for name in (PLAIN, COMPACTED, world.topics[0])]
    return encode_request(ListOffsetsRequest(replica_id=-1, topics=topics), 6, 1, CLIENT_ID)


def _fetch() -> bytes:
    wanted: dict[tuple[str | bytes, int], int] = {(PLAIN, each): 0 for each in range(100)}
    return encode_request(fetch_request(wanted, max_bytes=2**31 - 1), 12, 1, CLIENT_ID)


def _answered(response: type[Message], answer: bytes, version: int) -> Any:
    return decode_response(response, answer[4:], version)[1]


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
                        lambda _, frame=frame: frame, before=(Step(lambda _, hello=hello: hello, _is_served),),
                    )  # fmt: skip
    yield Case("SaslAuthenticate", 0, "half a frame of 100 MB", lambda _: struct.pack(">i", 100 << 20) + bytes(900_000))


def _is_served(answer: bytes) -> str:
    code = _answered(SaslHandshakeResponse, answer, 1).error_code
    return f"the handshake was refused with {code}" if code else ""


def _tokens(size: int) -> Iterator[tuple[str, bytes]]:
    yield "user and password", b"\0user\0" + b"p" * size
    yield "NULs", bytes(size)
    yield "attributes", b"n,," + b"n=a,r=b," * (size // 8)
    yield "nonce", b"n,,n=user,r=" + b"r" * size
