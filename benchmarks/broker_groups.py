"""Offsets of very many groups, committed over the wire as fast as one connection takes them."""

from __future__ import annotations

import struct
import time

from seamark.wire.protocol.frames import decode_response, encode_request
from seamark.wire.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from seamark.wire.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from seamark.wire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tests.support.capture import Wire

TOPIC = "many"
# Requests under way at once: the broker handles them one by one, but need not wait for the next to arrive.
AT_ONCE = 40


def commit_many_groups(bootstrap: str, groups: int, partitions: int) -> None:
    """Return when every group has an offset for every partition of a topic made for it."""
    with Wire(bootstrap, timeout=60) as wire:
        topic = CreateTopicsRequestTopic(name=TOPIC, num_partitions=partitions, replication_factor=1)
        wire.exchange(encode_request(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 5, 1, "many"))
        # The first question for a coordinator makes the offsets topic, which then has to be loaded.
        deadline = time.monotonic() + 30
        while True:
            frame = wire.exchange(encode_request(FindCoordinatorRequest(key="g"), 1, 2, "many"))
            if decode_response(FindCoordinatorResponse, frame[4:], 1)[1].error_code == 0:
                break
            if time.monotonic() > deadline:
                raise RuntimeError("no coordinator was found")
            time.sleep(0.1)
        time.sleep(0.5)
        for first in range(0, groups, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, groups))
            wire.send(b"".join(_commit(number, partitions) for number in numbers))
            for number in numbers:
                _check(wire.receive(), number)


def _commit(number: int, partitions: int) -> bytes:
    offsets = [
        OffsetCommitRequestPartition(partition_index=each, committed_offset=number, committed_metadata="")
        for each in range(partitions)
    ]
    request = OffsetCommitRequest(
        group_id=f"group-{number:06d}", topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=offsets)]
    )
    return encode_request(request, 7, number, "many")


def _check(frame: bytes, number: int) -> None:
    (answered,) = struct.unpack_from(">i", frame, 4)
    if answered != number:
        raise RuntimeError(f"the answer to {answered} came instead of {number}")
    answer = decode_response(OffsetCommitResponse, frame[4:], 7)[1]
    if any(each.error_code for topic in answer.topics for each in topic.partitions):
        raise RuntimeError(f"the commit of group {number} was refused: {answer}")
