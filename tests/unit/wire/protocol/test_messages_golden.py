"""Bytes worked out by hand from Kafka's field tables, for what requirements quote and versions that kio lacks."""

from __future__ import annotations

import pytest

from seamark.errors import OutOfRange
from seamark.wire.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    ControlledShutdownResponseRemainingPartition,
)
from seamark.wire.protocol.messages.find_coordinator import FindCoordinatorRequest
from seamark.wire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from seamark.wire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from seamark.wire.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseTopic,
)
from seamark.wire.schema.schema import Message

GROUP = "0009 64656d6f47726f7570"  # demoGroup
TOPIC = "0009 64656d6f546f706963"  # demoTopic
FIRST_METADATA = "0013 6173736f636961746564206d65746164617461"  # associated metadata
SECOND_METADATA = "000d 6d6f7265206d65746164617461"  # more metadata


def commit_of_the_example(timestamp: int = -1) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id="demoGroup",
        topics=[
            OffsetCommitRequestTopic(
                name="demoTopic",
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=0,
                        committed_offset=100,
                        commit_timestamp=timestamp,
                        committed_metadata="associated metadata",
                    ),
                    OffsetCommitRequestPartition(
                        partition_index=1,
                        committed_offset=200,
                        commit_timestamp=timestamp,
                        committed_metadata="more metadata",
                    ),
                ],
            )
        ],
    )


COMMIT_ANSWER = OffsetCommitResponse(
    topics=[
        OffsetCommitResponseTopic(
            name="demoTopic",
            partitions=[
                OffsetCommitResponsePartition(partition_index=0, error_code=0),
                OffsetCommitResponsePartition(partition_index=1, error_code=12),
            ],
        )
    ]
)
FETCH = OffsetFetchRequest(
    group_id="demoGroup", topics=[OffsetFetchRequestTopic(name="demoTopic", partition_indexes=[0])]
)
FETCH_ANSWER = OffsetFetchResponse(
    topics=[
        OffsetFetchResponseTopic(
            name="demoTopic",
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=0, committed_offset=100, metadata="associated metadata", error_code=0
                )
            ],
        )
    ]
)
SHUTDOWN_ANSWER = ControlledShutdownResponse(
    error_code=3,
    remaining_partitions=[ControlledShutdownResponseRemainingPartition(topic_name="demoTopic", partition_index=5)],
)
PRODUCE = ProduceRequest(
    acks=-1,
    timeout_ms=1500,
    topic_data=[
        ProduceRequestTopic(
            name="demoTopic",
            partition_data=[
                ProduceRequestPartition(index=2, records=b"\xca\xfe"),
                ProduceRequestPartition(index=3, records=None),
            ],
        )
    ],
)


def produce_answer(**later: int) -> ProduceResponse:
    throttle = {"throttle_time_ms": later.pop("throttle_time_ms")} if "throttle_time_ms" in later else {}
    return ProduceResponse(
        responses=[
            ProduceResponseTopic(
                name="demoTopic",
                partition_responses=[ProduceResponsePartition(index=2, error_code=6, base_offset=77, **later)],
            )
        ],
        **throttle,
    )


GOLDEN: list[tuple[Message, int, str]] = [
    # A33: the example commit, generation -1 and no member
    (
        commit_of_the_example(),
        7,
        "000964656d6f47726f7570ffffffff0000ffff00000001000964656d6f546f70696300000002000000000000000000000064ffffffff"
        "00136173736f636961746564206d657461646174610000000100000000000000c8ffffffff000d6d6f7265206d65746164617461",
    ),
    (
        commit_of_the_example(),
        8,
        "0a64656d6f47726f7570ffffffff0100020a64656d6f546f70696303000000000000000000000064ffffffff146173736f636961746564"
        "206d65746164617461000000000100000000000000c8ffffffff0e6d6f7265206d65746164617461000000",
    ),
    # A34: its response
    (COMMIT_ANSWER, 7, "0000000000000001000964656d6f546f7069630000000200000000000000000001000c"),
    (COMMIT_ANSWER, 8, "00000000020a64656d6f546f706963030000000000000000000001000c000000"),
    # A35: reading it back
    (FETCH, 1, "000964656d6f47726f757000000001000964656d6f546f7069630000000100000000"),
    (FETCH, 7, "0a64656d6f47726f7570020a64656d6f546f7069630200000000000000"),
    (
        FETCH_ANSWER,
        1,
        "00000001000964656d6f546f7069630000000100000000000000000000006400136173736f636961746564206d657461646174610000",
    ),
    # A36
    (FindCoordinatorRequest(key="demoGroup", key_type=0), 3, "0a64656d6f47726f75700000"),
    (FindCoordinatorRequest(coordinator_keys=["demoGroup"], key_type=0), 4, "00020a64656d6f47726f757000"),
    # A17: the commit of its era, with the client's timestamp
    (
        commit_of_the_example(timestamp=1_400_000_000_000),
        1,
        f"{GROUP} ffffffff 0000 00000001 {TOPIC} 00000002"
        f"00000000 0000000000000064 00000145f680b000 {FIRST_METADATA}"
        f"00000001 00000000000000c8 00000145f680b000 {SECOND_METADATA}",
    ),
    (
        commit_of_the_example(),
        0,
        f"{GROUP} 00000001 {TOPIC} 00000002"
        f"00000000 0000000000000064 {FIRST_METADATA}"
        f"00000001 00000000000000c8 {SECOND_METADATA}",
    ),
    (COMMIT_ANSWER, 0, f"00000001 {TOPIC} 00000002 00000000 0000 00000001 000c"),
    (COMMIT_ANSWER, 1, f"00000001 {TOPIC} 00000002 00000000 0000 00000001 000c"),
    # A18, A19: reading offsets from ZooKeeper looked like v1
    (FETCH, 0, f"{GROUP} 00000001 {TOPIC} 00000001 00000000"),
    (FETCH_ANSWER, 0, f"00000001 {TOPIC} 00000001 00000000 0000000000000064 {FIRST_METADATA} 0000"),
    # A12: controlled shutdown
    (ControlledShutdownRequest(broker_id=7), 0, "00000007"),
    (ControlledShutdownRequest(broker_id=7), 1, "00000007"),
    (ControlledShutdownRequest(broker_id=7, broker_epoch=258), 2, "00000007 0000000000000102"),
    (ControlledShutdownRequest(broker_id=7, broker_epoch=258), 3, "00000007 0000000000000102 00"),
    (SHUTDOWN_ANSWER, 0, f"0003 00000001 {TOPIC} 00000005"),
    (SHUTDOWN_ANSWER, 1, f"0003 00000001 {TOPIC} 00000005"),
    (SHUTDOWN_ANSWER, 2, f"0003 00000001 {TOPIC} 00000005"),
    (SHUTDOWN_ANSWER, 3, "0003 02 0a64656d6f546f706963 00000005 00 00"),
    # The oldest produce versions, with records of the old formats
    *[
        (PRODUCE, version, f"ffff 000005dc 00000001 {TOPIC} 00000002 00000002 00000002 cafe 00000003 ffffffff")
        for version in (0, 1, 2)
    ],
    (produce_answer(), 0, f"00000001 {TOPIC} 00000001 00000002 0006 000000000000004d"),
    (
        produce_answer(throttle_time_ms=9),
        1,
        f"00000001 {TOPIC} 00000001 00000002 0006 000000000000004d 00000009",
    ),
    (
        produce_answer(throttle_time_ms=9, log_append_time_ms=258),
        2,
        f"00000001 {TOPIC} 00000001 00000002 0006 000000000000004d 0000000000000102 00000009",
    ),
]


@pytest.mark.parametrize(
    ("message", "version", "text"),
    GOLDEN,
    ids=[f"{type(message).__name__}-v{version}" for message, version, _ in GOLDEN],
)
def test_message_has_exactly_these_bytes_both_ways(message: Message, version: int, text: str) -> None:
    # A12, A17, A18, A19, A33, A34, A35, A36
    assert message.encode(version).hex() == text.replace(" ", "")
    assert type(message).decode(bytes.fromhex(text), version) == message


def test_example_commit_has_one_topic_entry_with_both_partitions() -> None:
    # A1, A2, A3, A4, A5, A7
    again = OffsetCommitRequest.decode(commit_of_the_example().encode(7), 7)
    (topic,) = again.topics
    assert topic.name == "demoTopic"
    assert [(p.partition_index, p.committed_offset, p.committed_leader_epoch) for p in topic.partitions] == [
        (0, 100, -1),
        (1, 200, -1),
    ]
    assert again.group_instance_id is None
    assert again.retention_time_ms == -1


def test_commit_timestamp_cannot_be_lost_in_a_version_without_it() -> None:
    # A17
    with pytest.raises(OutOfRange, match="commit_timestamp"):
        commit_of_the_example(timestamp=1).encode(2)
