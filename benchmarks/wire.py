"""The message codec: decode plus encode of an OffsetCommit v8 request with four partitions; what an import costs."""

import io
import subprocess
import sys
import time

from benchmarks.claims import compare
from seamark.wire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from seamark.wire.schema.codec import decode, encode

ROUNDS = 3000


def measure() -> list[dict[str, object]]:
    message = OffsetCommitRequest(
        group_id="orders-service",
        generation_id_or_member_epoch=7,
        member_id="consumer-1-5fcb0a6c-6d5a-4fd3-bd4f-5ec5a4ea9f2c",
        topics=[
            OffsetCommitRequestTopic(
                name="orders",
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=1_000_000 + partition, committed_metadata=""
                    )
                    for partition in range(4)
                ],
            )
        ],
    )
    body = message.encode(8)
    _check(encode(decode(OffsetCommitRequest, body, 8), 8), body)
    kafka_python, aiokafka = _kafka_python(message), _aiokafka(message)
    claim = compare(
        "wire.offset_commit",
        "us",
        "lower",
        lambda: _time(lambda: encode(decode(OffsetCommitRequest, body, 8), 8)),
        _kio(body),
        peer_name="kio",
    )
    claim["kafka_python"] = round(kafka_python(), 2)
    claim["aiokafka_encode_only"] = round(aiokafka(), 2)
    return [
        claim,
        compare(
            "wire.import",
            "s",
            "lower",
            lambda: _import_seconds("import seamark.wire"),
            lambda: _import_seconds("import kio.serial"),
            fresh_processes=True,
            peer_name="kio",
            with_all_of_wire=_import_seconds("import seamark.wire.protocol.frames, seamark.wire.records"),
        ),
    ]


def _check(encoded: bytes, body: bytes) -> None:
    if encoded != body:
        raise AssertionError("what was decoded and encoded again is not what it was")


def _time(work) -> float:
    start = time.perf_counter()
    for _ in range(ROUNDS):
        work()
    return (time.perf_counter() - start) / ROUNDS * 1e6


def _import_seconds(statement: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - start


def _kio(body: bytes):
    from kio.schema.offset_commit.v8.request import OffsetCommitRequest as KioRequest
    from kio.serial import entity_reader, entity_writer

    read, write = entity_reader(KioRequest), entity_writer(KioRequest)

    def once() -> bytes:
        result = read(body, 0)
        entity = result[0] if isinstance(result, tuple) else result
        out = io.BytesIO()
        write(out, entity)
        return out.getvalue()

    _check(once(), body)
    return lambda: _time(once)


def _kafka_python(message: OffsetCommitRequest):
    """kafka-python's own classes on the same values, version 8 as well."""
    from kafka.protocol.consumer import OffsetCommitRequest as KafkaPythonRequest

    topic = KafkaPythonRequest.OffsetCommitRequestTopic
    partition = topic.OffsetCommitRequestPartition
    request = KafkaPythonRequest(
        group_id=message.group_id,
        generation_id_or_member_epoch=message.generation_id_or_member_epoch,
        member_id=message.member_id,
        group_instance_id=None,
        topics=[
            topic(
                name=each.name,
                partitions=[
                    partition(
                        partition_index=part.partition_index,
                        committed_offset=part.committed_offset,
                        committed_leader_epoch=-1,
                        committed_metadata="",
                    )
                    for part in each.partitions
                ],
            )
            for each in message.topics
        ],
    )
    body = request.encode(version=8)

    # A decoded request of kafka-python's cannot be encoded again, so the original is.
    def once() -> None:
        KafkaPythonRequest.decode(body, version=8)
        request.encode(version=8)

    return lambda: _time(once)


def _aiokafka(message: OffsetCommitRequest):
    """aiokafka stops at version 3, whose request carries a retention time and no leader epoch; it cannot decode one."""
    from aiokafka.protocol.commit import OffsetCommitRequest_v3

    topics = [
        (topic.name, [(part.partition_index, part.committed_offset, "") for part in topic.partitions])
        for topic in message.topics
    ]

    def once() -> None:
        OffsetCommitRequest_v3(message.group_id, 7, message.member_id, -1, topics).encode()

    return lambda: _time(once)
