"""Brokers that answer wrongly on purpose: a client is not driven in circles, and says in one line what it met.

Requests are counted while the client is left alone for a moment. A client that goes in circles sends thousands.
"""

from __future__ import annotations

import logging
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from seamark.client import Admin, ColumnReader, Consumer, TopicPartition
from seamark.client.errors import CorruptRecords, NoBrokerAvailable, OperationTimedOut, PeerProtocolError
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.fetch import FetchResponseDivergingEpoch
from seamark.wire.protocol.messages.join_group import JoinGroupResponseMember
from seamark.wire.protocol.messages.metadata import MetadataResponse
from seamark.wire.protocol.messages.sync_group import SyncGroupResponse
from tests.support.costly_batches import record, record_bomb, sealed
from tests.support.scripted_broker import CLOSE, TOPIC, ScriptedBroker, assigned
from tests.support.waiting import eventually

FIRST, SECOND = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
LAST_OFFSET = 2**63 - 1
# Several times what the backoffs allow in the time that is waited, and a hundredth of what circles give.
FEW = 15
MOMENT_S = 0.7


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        yield broker


def consumer_of(broker: ScriptedBroker, **options: Any) -> Consumer:
    options = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **options}
    return Consumer(bootstrap_servers=broker.bootstrap, **options)


def everywhere(broker: ScriptedBroker, records: bytes | None = None, **fields: Any) -> Callable[[Any], object]:
    """An answer to Fetch that says the same of every partition that was asked for."""

    def answer(request: Any) -> object:
        asked = [each.partition for topic in request.topics for each in topic.partitions]
        return broker.fetch_response(*(broker.fetched(index, records, **fields) for index in asked))

    return answer


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"high_watermark": 100},
        {"preferred_read_replica": 0},
        {"diverging_epoch": FetchResponseDivergingEpoch(epoch=0, end_offset=0)},
        {"error_code": int(ErrorCode.NOT_LEADER_OR_FOLLOWER)},
        {"records": record_bomb(1), "high_watermark": 100},
    ],
    ids=["nothing", "nothing of a long log", "read from here", "cut at the position", "not leader", "the same again"],
)
def test_answers_that_lead_nowhere_are_waited_for(broker: ScriptedBroker, fields: dict[str, Any]) -> None:
    broker.answer("Fetch", everywhere(broker, **fields))
    with consumer_of(broker) as consumer:
        consumer.assign([FIRST])
        deadline = time.monotonic() + MOMENT_S
        while (left := deadline - time.monotonic()) > 0:
            consumer.poll(left)
    assert 2 <= broker.requests["Fetch"] <= FEW
    assert broker.requests["Metadata"] <= FEW


def test_a_range_that_the_broker_never_has_is_not_asked_for_in_circles(broker: ScriptedBroker) -> None:
    broker.answer("Fetch", everywhere(broker, b"", high_watermark=100))
    with (
        ColumnReader(bootstrap_servers=broker.bootstrap, default_api_timeout_ms=700, request_timeout_ms=500) as reader,
        pytest.raises(OperationTimedOut),
    ):
        list(reader.fetch_columns(FIRST, 0, 5))
    assert broker.requests["Fetch"] <= FEW


@pytest.mark.parametrize("api", ["Metadata", "FindCoordinator"])
def test_connections_that_end_at_the_first_request_are_made_ever_more_slowly(broker: ScriptedBroker, api: str) -> None:
    broker.answer(api, lambda _: CLOSE)
    with consumer_of(broker, group_id="g", reconnect_backoff_ms=10) as consumer:
        consumer.subscribe([TOPIC])
        consumer.poll(MOMENT_S)
    assert 2 <= broker.connections <= FEW


def test_the_largest_offset_stops_one_partition_and_neither_commit_nor_close(broker: ScriptedBroker) -> None:
    broker.answer("OffsetFetch", lambda request: broker.offset_fetch(request, LAST_OFFSET - 1))
    broker.answer("Fetch", everywhere(broker, sealed(record(), base_offset=LAST_OFFSET), high_watermark=LAST_OFFSET))
    with consumer_of(broker, group_id="g", enable_auto_commit=True) as consumer:
        consumer.assign([FIRST])
        with pytest.raises(CorruptRecords, match=f"end at offset {LAST_OFFSET}"):
            consumer.poll(10.0)
        consumer.commit()
        assert consumer.position(FIRST) == LAST_OFFSET - 1


def test_a_frame_that_is_too_large_is_refused_by_its_announcement(broker: ScriptedBroker) -> None:
    broker.answer("Fetch", lambda _: struct.pack(">i", 2**31 - 1) + b"x" * 100)
    with consumer_of(broker) as consumer:
        consumer.assign([FIRST])
        with pytest.raises(
            PeerProtocolError, match="a response has a length of 2147483647 bytes, allowed are 0 to 268435456"
        ):
            consumer.poll(10.0)


def test_names_and_messages_of_a_broker_cannot_forge_lines(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    def metadata(_: Any) -> MetadataResponse:
        answer = broker.metadata()
        answer.brokers[0].host = "evil\n2026 ERROR all is lost \x1b[2J" + "h" * 10_000
        return answer

    broker.answer("Metadata", metadata)
    with caplog.at_level(logging.INFO, "seamark.client"), consumer_of(broker, group_id="g") as consumer:
        consumer.subscribe([TOPIC])
        assert consumer.partitions_for(TOPIC)
        # Which of the two it is depends on what was tried last when the time was over.
        with pytest.raises((NoBrokerAvailable, OperationTimedOut), match="evil") as caught:
            consumer.end_offsets([FIRST], timeout=1.2)
    lines = [each.getMessage() for each in caplog.records] + [str(caught.value)]
    assert lines
    for line in lines:
        assert line.isprintable()
        assert len(line) < 5_000


@pytest.mark.parametrize("port", [-1, 0, 65_536 + 80, 2**31 - 1])
def test_a_port_that_is_none_is_not_connected_to(broker: ScriptedBroker, port: int) -> None:
    def metadata(_: Any) -> MetadataResponse:
        answer = broker.metadata()
        answer.brokers[0].port = port
        return answer

    broker.answer("Metadata", metadata)
    with (
        Admin(bootstrap_servers=broker.bootstrap, request_timeout_ms=300) as admin,
        pytest.raises(Exception, match=f"port {port} is not from 1 to 65535"),
    ):
        admin.list_offsets({FIRST: "latest"}, timeout=0.5).raise_if_failed()


def test_a_throttle_of_weeks_is_said_once_and_a_request_ends_with_its_own_time(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    def metadata(_: Any) -> MetadataResponse:
        answer = broker.metadata()
        answer.throttle_time_ms = 2**31 - 1
        return answer

    broker.answer("Metadata", metadata)
    with caplog.at_level(logging.WARNING, "seamark.client"), Admin(bootstrap_servers=broker.bootstrap) as admin:
        for _ in range(2):
            with pytest.raises(Exception, match="the broker throttles this client for another 21474"):
                admin.list_offsets({FIRST: "latest"}, timeout=0.3).raise_if_failed()
    assert [each.event for each in caplog.records if hasattr(each, "event")].count("throttled") == 1


def test_partitions_of_a_topic_that_is_not_subscribed_to_are_refused_with_a_warning(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.answer("SyncGroup", lambda _: SyncGroupResponse(assignment=assigned("other", 0)))
    with caplog.at_level(logging.WARNING, "seamark.client"), consumer_of(broker, group_id="g") as consumer:
        consumer.subscribe([TOPIC])
        consumer.poll(MOMENT_S)
        assert consumer.assignment() == set()
    assert any(
        "assigned partitions of other, to which this member is not subscribed" in each.getMessage()
        for each in caplog.records
    )
    assert broker.requests["JoinGroup"] <= FEW


def test_a_member_that_sends_garbage_gets_nothing_and_the_others_their_partitions(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    def joined(request: Any) -> object:
        answer = broker.join_group(request)
        garbage = [b"\xff" * 20, b"", b"\x00\x01" + b"\x7f\xff\xff\xff" * 3, b"\x7f\xff" + bytes(8)]
        answer.members += [
            JoinGroupResponseMember(member_id=f"other {number}", metadata=each) for number, each in enumerate(garbage)
        ]
        return answer

    broker.answer("JoinGroup", joined)
    with caplog.at_level(logging.WARNING, "seamark.client"), consumer_of(broker, group_id="g") as consumer:
        consumer.subscribe([TOPIC])
        eventually(lambda: bool(consumer.poll(0.05)) or bool(consumer.assignment()), "the assignment")
        assert consumer.assignment() == {FIRST, SECOND}
    lines = [each.getMessage() for each in caplog.records]
    assert any("member other 0 is assigned no partitions: its subscription cannot be decoded" in each for each in lines)


def test_asking_for_committed_offsets_names_the_address_that_is_dead() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    with Consumer(bootstrap_servers=address, group_id="g") as consumer:
        with pytest.raises(OperationTimedOut) as caught:
            consumer.committed([FIRST], timeout=0.5)
        assert f"{address}: cannot connect (connection refused)" in str(caught.value)
        assert "COORDINATOR_NOT_AVAILABLE" not in str(caught.value)
