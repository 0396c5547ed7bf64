"""Scripts about records: produce, fetch with and without sessions, offsets by time, epochs, producer ids.

Each function is a script of its own with fresh names; ``SCRIPTS`` lists them. Timestamps are given by the producer, so
that both brokers store the same bytes.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import Any

from seamark.wire.records import Record, encode_batch
from seamark.wire.records.compression import Codec
from seamark.wire.records.crc32c import crc32c
from tests.conformance.differential.cluster_script import ClusterRecorder as Recorder

# Yesterday: a broker deletes at any moment what is older than its retention time.
FIRST_MS = (int(time.time()) // 86_400 - 1) * 86_400_000
NO_ID = bytes(16)


def batch(*values: bytes, at_ms: int = FIRST_MS, key: bytes | None = b"k", **facts: Any) -> bytes:
    records = [Record(number, at_ms + number * 1000, key=key, value=value) for number, value in enumerate(values)]
    return encode_batch(records, **facts)


def patched(made: bytes, position: int, form: str, value: int, *, fix_crc: bool = True) -> bytes:
    """A batch with one header field changed."""
    changed = bytearray(made)
    struct.pack_into(form, changed, position, value)
    if fix_crc:
        struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return bytes(changed)


def produce_fields(topic: str, *records: bytes | None, acks: int = -1, first: int = 0, **more: Any) -> dict[str, Any]:
    """Each of ``records`` goes to the partition of its place, from ``first`` on."""
    partitions = [{"index": number, "records": each} for number, each in enumerate(records, first)]
    return {"acks": acks, "timeout_ms": 5000, "topic_data": [{"name": topic, "partition_data": partitions}], **more}


def fetch_fields(topic: str | bytes, version: int, *partitions: dict[str, Any], **more: Any) -> dict[str, Any]:
    asked = [
        {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20, **each} for each in partitions or ({},)
    ]
    which = {"topic_id": topic} if isinstance(topic, bytes) else {"topic": topic}
    fields: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "topics": [{**which, "partitions": asked}]}
    if version < 15:
        fields["replica_id"] = -1
    if version >= 3:
        fields["max_bytes"] = 1 << 20
    if version >= 7:
        fields["session_epoch"] = -1
    return fields | more


def id_of(r: Recorder, topic: str) -> bytes:
    found: bytes = r.quietly("Metadata", 12, topics=[{"name": topic}]).topics[0].topic_id
    return found


def produces_in_every_version(r: Recorder) -> None:
    topic = r.create_topic("produced", 2)
    for version in range(3, 13):
        r.ask("Produce", version, "good", **produce_fields(topic, batch(b"one", b"two"), batch(b"three")))
    for version in range(3):
        # In the answer of these versions clients are told to use others.
        r.ask("Produce", version, "too old", on=f"old-{version}", **produce_fields(topic, b""))
    for acks in (-1, 1):
        for codec in Codec:
            r.ask(
                "Produce",
                9,
                f"acks {acks} {codec.name}",
                **produce_fields(topic, batch(b"x" * 99, codec=codec), acks=acks),
            )
    r.ask("Produce", 9, "two acks", **produce_fields(topic, batch(b"x"), acks=2))
    r.ask("Produce", 9, "unknown topic", **produce_fields(r.name("absent"), batch(b"x")))
    r.ask("Produce", 9, "unknown partition", **produce_fields(topic, batch(b"x"), batch(b"y"), batch(b"z")))
    r.ask("Produce", 9, "bad name", **produce_fields("a b/c", batch(b"x")))
    r.ask("Produce", 9, "nothing", acks=-1, timeout_ms=1000, topic_data=[])
    r.ask("Produce", 9, "internal topic", **produce_fields("__consumer_offsets", batch(b"x")))
    r.ask("Fetch", 11, "all of it", **fetch_fields(topic, 11))


def offsets_fields(topic: str, timestamp: int, *partitions: int, version: int = 5, **more: Any) -> dict[str, Any]:
    asked = [{"partition_index": number, "timestamp": timestamp} for number in partitions or (0,)]
    fields: dict[str, Any] = {"replica_id": -1, "topics": [{"name": topic, "partitions": asked}]}
    if version >= 2:
        fields["isolation_level"] = 0
    return fields | more


def bad_batches(r: Recorder) -> None:
    topic = r.create_topic("bad")
    good = batch(b"value", b"other")
    cases = {
        "empty": b"",
        "cut": good[:-3],
        "half a header": good[:30],
        "bad crc": patched(good, 17, ">I", 1, fix_crc=False),
        "magic 1": patched(good, 16, ">b", 1),
        "magic 9": patched(good, 16, ">b", 9),
        "wrong count": patched(good, 57, ">i", 5),
        "negative count": patched(good, 57, ">i", -1),
        "wrong last delta": patched(good, 23, ">i", 7),
        "length too short": patched(good, 8, ">i", 10),
        "length too long": patched(good, 8, ">i", 10_000),
        "negative length": patched(good, 8, ">i", -1),
        "control": patched(good, 21, ">h", 0x20),
        "transactional": patched(good, 21, ">h", 0x10),
        "unknown codec": patched(good, 21, ">h", 7),
        "two batches": good + good,
        "log append time": patched(good, 21, ">h", 0x08),
        "base offset is ignored": patched(good, 0, ">q", 77, fix_crc=False),
        "far future": batch(b"x", at_ms=FIRST_MS * 3),
        "no timestamp": batch(b"x", at_ms=-1),
    }
    for note, records in cases.items():
        r.ask("Produce", 9, note, **produce_fields(topic, records))
    r.ask("Produce", 7, "two batches", **produce_fields(topic, good + good))
    r.ask("Fetch", 11, "what is left", **fetch_fields(topic, 11))


def limits_of_topics(r: Recorder) -> None:
    small = r.create_topic("small")
    compacted = r.create_topic("compacted")
    stamped = r.create_topic("stamped")
    for name, key, value in (
        (small, "max.message.bytes", "500"),
        (compacted, "cleanup.policy", "compact"),
        (stamped, "message.timestamp.after.max.ms", "1000"),
    ):
        r.quietly("IncrementalAlterConfigs", 1, resources=[{"resource_type": 2, "resource_name": name, "configs": [
            {"name": key, "config_operation": 0, "value": value}]}])  # fmt: skip
        describe = {"resources": [{"resource_type": 2, "resource_name": name, "configuration_keys": [key]}]}
        r.until(lambda describe=describe, value=value:
                r.quietly("DescribeConfigs", 4, **describe).results[0].configs[0].value == value, key)  # fmt: skip
    r.ask("Produce", 9, "too large", **produce_fields(small, batch(b"x" * 600)))
    r.ask("Produce", 9, "compressed it fits", **produce_fields(small, batch(b"x" * 600, codec=Codec.GZIP)))
    r.ask("Produce", 9, "just fits", **produce_fields(small, batch(b"x" * 400)))
    r.ask("Produce", 9, "without key", **produce_fields(compacted, batch(b"x", key=None)))
    r.ask("Produce", 9, "some without key", **produce_fields(compacted, encode_batch(
        [Record(0, FIRST_MS, key=b"k", value=b"v"), Record(1, FIRST_MS, key=None, value=b"v")])))  # fmt: skip
    r.ask("Produce", 9, "with key", **produce_fields(compacted, batch(b"x")))
    r.ask("Produce", 9, "too far in the future", **produce_fields(stamped, batch(b"x", at_ms=FIRST_MS * 3)))


def idempotent_producers(r: Recorder) -> None:
    topic = r.create_topic("idempotent")
    for version in range(6):
        fields: dict[str, Any] = {"transactional_id": None, "transaction_timeout_ms": 60_000}
        if version >= 3:
            fields |= {"producer_id": -1, "producer_epoch": -1}
        # A broker that has just started still asks for a block of ids.
        r.until(
            lambda version=version, fields=fields: r.quietly("InitProducerId", version, **fields).error_code == 0, "ids"
        )
        answer = r.ask("InitProducerId", version, "a new id", **fields)
    producer = answer.producer_id
    r.ask("InitProducerId", 4, "an id without epoch", transactional_id=None, transaction_timeout_ms=60_000,
          producer_id=producer, producer_epoch=-1)  # fmt: skip
    r.ask("InitProducerId", 4, "empty transactional id", transactional_id="", transaction_timeout_ms=60_000)

    def send(note: str, sequence: int, *values: bytes, epoch: int = 0, of: int = producer) -> None:
        made = batch(*(values or (b"x",)), producer_id=of, producer_epoch=epoch, base_sequence=sequence)
        r.ask("Produce", 9, note, **produce_fields(topic, made))

    send("first", 0, b"a", b"b")
    send("again", 0, b"a", b"b")
    send("next", 2)
    send("a gap", 5)
    send("an old one", 0)
    send("next again", 3)
    for number in range(4, 10):
        send(f"number {number}", number)
    send("older than those remembered", 2)
    send("the last again", 9)
    send("newer epoch, wrong start", 5, epoch=1)
    send("newer epoch", 0, epoch=1)
    send("old epoch", 10, epoch=0)
    send("unknown producer in the middle", 7, of=producer + 100_000)
    send("unknown producer from the start", 0, of=producer + 200_000)
    send("around the end", 2**31 - 1, of=producer + 300_000)
    r.ask("Produce", 9, "no sequence", **produce_fields(topic, batch(b"x", producer_id=producer, producer_epoch=1)))
    r.ask("ListOffsets", 5, "how many", **offsets_fields(topic, -1))


def fetches_in_every_version(r: Recorder) -> None:
    topic = r.create_topic("fetched", 2)
    topic_id = id_of(r, topic)
    for number in range(4):
        r.quietly("Produce", 9, **produce_fields(topic, batch(b"v%d" % number * 30, at_ms=FIRST_MS + number * 10_000)))
    absent = r.name("absent")
    for version in range(4, 18):
        by = topic_id if version >= 13 else topic
        missing = b"\7" * 16 if version >= 13 else absent
        ask = r.ask
        ask("Fetch", version, "all", **fetch_fields(by, version))
        ask("Fetch", version, "at the end", **fetch_fields(by, version, {"fetch_offset": 4}))
        ask("Fetch", version, "in the middle", **fetch_fields(by, version, {"fetch_offset": 2}))
        ask("Fetch", version, "behind the end", **fetch_fields(by, version, {"fetch_offset": 5}))
        ask("Fetch", version, "negative", **fetch_fields(by, version, {"fetch_offset": -1}))
        ask("Fetch", version, "empty partition", **fetch_fields(by, version, {"partition": 1}))
        ask("Fetch", version, "unknown partition", **fetch_fields(by, version, {"partition": 2}))
        ask("Fetch", version, "unknown topic", **fetch_fields(missing, version))
        ask("Fetch", version, "few bytes", **fetch_fields(by, version, {"partition_max_bytes": 10}))
        ask("Fetch", version, "two partitions of few bytes", **fetch_fields(
            by, version, {"partition_max_bytes": 10}, {"partition": 1}, max_bytes=200))  # fmt: skip
        ask("Fetch", version, "waits", **fetch_fields(by, version, {"fetch_offset": 4}, max_wait_ms=50))
        if version >= 9:
            ask("Fetch", version, "right epoch", **fetch_fields(by, version, {"current_leader_epoch": 0}))
            ask("Fetch", version, "epoch of the future", **fetch_fields(by, version, {"current_leader_epoch": 9}))
        if version >= 12:
            ask("Fetch", version, "fetched epoch", **fetch_fields(by, version, {"last_fetched_epoch": 0}))
        ask("Fetch", version, "committed only", **fetch_fields(by, version, isolation_level=1))


def fetch_sessions(r: Recorder) -> None:
    topic = r.create_topic("session", 3)
    r.quietly("Produce", 9, **produce_fields(topic, batch(b"one"), batch(b"two")))
    for version in (7, 11, 12):

        def ask(
            note: str, epoch: int, session: int, *partitions: dict[str, Any], version: int = version, **more: Any
        ) -> Any:
            fields = fetch_fields(topic, version, *partitions, session_id=session, session_epoch=epoch, **more)
            if not partitions:
                fields["topics"] = []
            return r.ask("Fetch", version, note, **fields)

        begun = ask("begin", 0, 0, {}, {"partition": 1}, {"partition": 2})
        session = begun.session_id
        assert session > 0
        ask("nothing new", 1, session)
        ask("positions move", 2, session, {"fetch_offset": 1}, {"partition": 1, "fetch_offset": 1})
        ask("nothing left", 3, session)
        r.quietly("Produce", 9, **produce_fields(topic, batch(b"three"), first=2))
        ask("one is new", 4, session)
        ask("it is still there", 5, session)
        forget: dict[str, Any] = {"forgotten_topics_data": [{"topic": topic, "partitions": [2]}]}
        ask("forgotten", 6, session, **forget)
        ask("an old epoch", 6, session)
        ask("an epoch too far", 99, session)
        ask("unknown session", 7, session ^ (1 << 20))
        ask("still there", 7, session)
        ask("without session", -1, 0, {})
        ask("unknown topic comes in", 8, session, {"partition": 9})
        ask("its error stays", 9, session)
        ask("closed", -1, session, {})
        ask("is gone", 10, session)


def offsets_by_time(r: Recorder) -> None:
    topic = r.create_topic("timed", 2)
    for number in range(3):
        r.quietly("Produce", 9, **produce_fields(topic, batch(b"a", b"b", at_ms=FIRST_MS + number * 10_000)))
    # The highest timestamp is not in the last batch.
    r.quietly("Produce", 9, **produce_fields(topic, batch(b"late", at_ms=FIRST_MS - 60_000)))
    times = {"latest": -1, "earliest": -2, "highest": -3, "local": -4, "tiered": -5, "odd": -9, "zero": 0,
             "first": FIRST_MS, "between": FIRST_MS + 500, "second": FIRST_MS + 1000,
             "gap": FIRST_MS + 5000, "last": FIRST_MS + 21_000,
             "behind": FIRST_MS + 21_001}  # fmt: skip
    for version in range(1, 11):
        for note, timestamp in times.items():
            if (
                (timestamp == -3 and version < 7)
                or (timestamp == -4 and version < 8)
                or (timestamp == -5 and version < 9)
            ):
                continue
            r.ask("ListOffsets", version, note, **offsets_fields(topic, timestamp, version=version))
        r.ask("ListOffsets", version, "empty partition", **offsets_fields(topic, FIRST_MS, 1, version=version))
        r.ask("ListOffsets", version, "empty latest", **offsets_fields(topic, -1, 1, version=version))
        r.ask("ListOffsets", version, "unknown partition", **offsets_fields(topic, -1, 0, 5, version=version))
        r.ask("ListOffsets", version, "unknown topic", **offsets_fields(r.name("absent"), -1, version=version))
        r.ask("ListOffsets", version, "asked twice", **offsets_fields(topic, -1, 0, 0, version=version))
        if version >= 4:
            for epoch in (0, 5):
                asked = [{"partition_index": 0, "timestamp": -1, "current_leader_epoch": epoch}]
                topics = [{"name": topic, "partitions": asked}]
                fields = {**offsets_fields(topic, -1, version=version), "topics": topics}
                r.ask("ListOffsets", version, f"epoch {epoch}", **fields)
        if version >= 2:
            r.ask("ListOffsets", version, "committed", **offsets_fields(topic, -1, version=version, isolation_level=1))


def leader_epochs(r: Recorder) -> None:
    topic = r.create_topic("epochs")
    r.quietly("Produce", 9, **produce_fields(topic, batch(b"a", b"b")))
    for version in range(2, 5):
        for epoch in (0, 1, 7, -1):
            for current in (-1, 0, 3):
                asked = {"partition": 0, "leader_epoch": epoch, "current_leader_epoch": current}
                fields: dict[str, Any] = {"topics": [{"topic": topic, "partitions": [asked]}]}
                if version >= 3:
                    fields["replica_id"] = -1
                r.ask("OffsetForLeaderEpoch", version, f"{epoch} {current}", **fields)
        for name, partition in ((topic, 4), (r.name("absent"), 0)):
            asked = {"partition": partition, "leader_epoch": 0}
            fields = {"topics": [{"topic": name, "partitions": [asked]}]} | ({"replica_id": -1} if version >= 3 else {})
            r.ask("OffsetForLeaderEpoch", version, "unknown", **fields)


def deleted_records(r: Recorder) -> None:
    topic = r.create_topic("deleted", 2)
    for _ in range(5):
        r.quietly("Produce", 9, **produce_fields(topic, batch(b"a", b"b")))
    for version in range(3):
        for offset in (version * 2 + 1, 0, -1 if version == 2 else 1, 99, -5):
            for name, partition in ((topic, 0), (topic, 7), (r.name("absent"), 0)):
                asked = [{"partition_index": partition, "offset": offset}]
                r.ask("DeleteRecords", version, f"{partition} to {offset}", timeout_ms=5000,
                      topics=[{"name": name, "partitions": asked}])  # fmt: skip
        r.ask("ListOffsets", 5, "start", **offsets_fields(topic, -2))
        r.ask("Fetch", 11, "before the start", **fetch_fields(topic, 11))
        r.ask("Fetch", 11, "at the end", **fetch_fields(topic, 11, {"fetch_offset": 10}))
    r.ask("DeleteRecords", 1, "internal", timeout_ms=5000, topics=[
        {"name": "__consumer_offsets", "partitions": [{"partition_index": 0, "offset": 0}]}])  # fmt: skip


SCRIPTS: tuple[Callable[[Recorder], None], ...] = (
    produces_in_every_version,
    bad_batches,
    limits_of_topics,
    idempotent_producers,
    fetches_in_every_version,
    fetch_sessions,
    offsets_by_time,
    leader_epochs,
    deleted_records,
)
