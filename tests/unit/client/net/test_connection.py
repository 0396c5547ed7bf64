"""One connection, driven without a socket: answers matched in order, time limits, peers that speak something else."""

import asyncio
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.client.errors import ConnectionFailed, PeerProtocolError, RequestTimedOut
from seamark.client.net import frame_receiver
from seamark.client.net.connection import MAX_IN_FLIGHT, Connection
from seamark.client.net.frame_receiver import FrameReceiver
from seamark.errors import BadLength
from seamark.wire.protocol.frames import FrameParser, decode_request, encode_response
from seamark.wire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from seamark.wire.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self):
        super().__init__()
        self.parser = FrameParser()
        self.frames = []
        self.aborted = False

    def write(self, data):
        self.frames += self.parser.feed(bytes(data))

    def abort(self):
        self.aborted = True

    def requests(self):
        return [decode_request(frame)[0] for frame in self.frames]


def open_connection():
    connection = Connection("broker:9092", "tests", asyncio.get_running_loop())
    wire = Wire()
    connection.connection_made(wire)
    return connection, wire


def deliver(connection, data):
    """Give bytes to the protocol as a loop would, as much as it has room for at a time."""
    while data and connection.closed_with is None:
        room = connection.get_buffer(-1)
        taken = min(len(room), len(data))
        room[:taken] = data[:taken]
        connection.buffer_updated(taken)
        data = data[taken:]


def beat(connection, timeout_s=5.0):
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    return asyncio.ensure_future(connection.request(request, HeartbeatResponse, 3, timeout_s))


def reply(correlation_id, error_code=0, throttle_time_ms=0):
    return encode_response(
        HeartbeatResponse(error_code=error_code, throttle_time_ms=throttle_time_ms), 3, correlation_id
    )


def run(scenario):
    return asyncio.run(asyncio.wait_for(scenario(), 10))


def test_answers_belong_to_requests_in_the_order_they_were_sent():
    async def scenario():
        connection, wire = open_connection()
        waiting = [beat(connection) for _ in range(3)]
        await asyncio.sleep(0)
        assert [header.correlation_id for header in wire.requests()] == [0, 1, 2]
        assert {header.client_id for header in wire.requests()} == {"tests"}
        deliver(connection, reply(0, 1) + reply(1, 2) + reply(2, 3))
        assert [(await each).error_code for each in waiting] == [1, 2, 3]
        assert connection.in_flight_count == 0

    run(scenario)


def test_an_answer_out_of_order_ends_the_connection():
    async def scenario():
        connection, wire = open_connection()
        waiting = [beat(connection), beat(connection)]
        await asyncio.sleep(0)
        deliver(connection, reply(1))
        for each in waiting:
            with pytest.raises(PeerProtocolError, match="correlation id 1, expected 0"):
                await each
        assert wire.aborted
        assert not connection.is_open

    run(scenario)


def test_a_request_without_an_answer_in_time_ends_the_connection_and_says_so():
    async def scenario():
        connection, _ = open_connection()
        slow, behind = beat(connection, 0.05), beat(connection, 60)
        with pytest.raises(RequestTimedOut, match=r"broker:9092: no response to Heartbeat within 0\.05 s"):
            await slow
        with pytest.raises(ConnectionFailed, match="because no response to Heartbeat"):
            await behind
        with pytest.raises(RequestTimedOut):
            await beat(connection)

    run(scenario)


def test_a_caller_that_stops_waiting_does_not_disturb_the_connection():
    async def scenario():
        connection, _ = open_connection()
        impatient, patient = beat(connection), beat(connection)
        await asyncio.sleep(0)
        impatient.cancel()
        await asyncio.sleep(0)
        deliver(connection, reply(0, 7) + reply(1, 8))
        assert (await patient).error_code == 8
        assert connection.is_open

    run(scenario)


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "HTTP"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "speaks TLS"),
        (b"\xff\xff\xff\xff????", "does not speak Kafka's protocol"),
    ],
)
def test_a_peer_of_another_protocol_is_named(sent, said):
    async def scenario():
        connection, _ = open_connection()
        waiting = beat(connection)
        await asyncio.sleep(0)
        deliver(connection, sent)
        with pytest.raises(PeerProtocolError, match=said) as caught:
            await waiting
        assert "broker:9092" in str(caught.value)

    run(scenario)


@pytest.mark.parametrize("body", [b"", b"\x00", b"\x00\x00\x00\x00", b"\x00\x00\x00\x00" + bytes(60)])
def test_an_answer_that_cannot_be_read_ends_the_connection(body):
    async def scenario():
        connection, _ = open_connection()
        waiting = beat(connection)
        await asyncio.sleep(0)
        deliver(connection, struct.pack(">i", len(body)) + body)
        with pytest.raises(PeerProtocolError):
            await waiting
        assert not connection.is_open

    run(scenario)


def test_an_answer_nobody_asked_for_ends_the_connection():
    async def scenario():
        connection, _ = open_connection()
        deliver(connection, reply(0))
        assert isinstance(connection.closed_with, PeerProtocolError)

    run(scenario)


def test_a_lost_connection_fails_what_waits_with_the_reason_and_tells_its_owner():
    async def scenario():
        connection, _ = open_connection()
        told = []
        connection.on_closed = told.append
        waiting = beat(connection)
        await asyncio.sleep(0)
        connection.connection_lost(ConnectionResetError(104, "Connection reset by peer"))
        with pytest.raises(ConnectionFailed, match=r"lost .connection reset by peer. while Heartbeat was waiting"):
            await waiting
        assert told == [connection]
        connection.close()
        assert told == [connection]

    run(scenario)


def test_a_throttled_connection_is_muted_for_the_time_the_broker_says():
    async def scenario():
        connection, _ = open_connection()
        waiting = beat(connection)
        await asyncio.sleep(0)
        deliver(connection, reply(0, throttle_time_ms=5000))
        await waiting
        assert connection.muted_until > connection.last_used + 4

    run(scenario)


def test_writing_waits_while_the_socket_is_full():
    async def scenario():
        connection, wire = open_connection()
        connection.pause_writing()
        waiting = beat(connection)
        await asyncio.sleep(0.01)
        assert not wire.frames
        connection.resume_writing()
        await asyncio.sleep(0.01)
        assert len(wire.frames) == 1
        waiting.cancel()

    run(scenario)


def test_unanswered_requests_are_bounded():
    async def scenario():
        connection, wire = open_connection()
        waiting = [beat(connection) for _ in range(MAX_IN_FLIGHT + 5)]
        await asyncio.sleep(0.05)
        assert len(wire.frames) == MAX_IN_FLIGHT
        for number in range(10):
            deliver(connection, reply(number))
        await asyncio.sleep(0.05)
        assert len(wire.frames) == MAX_IN_FLIGHT + 5
        for each in waiting:
            each.cancel()

    run(scenario)


def test_a_raw_answer_is_the_frame_as_it_came():
    async def scenario():
        connection, _ = open_connection()
        waiting = [asyncio.ensure_future(connection.request_raw(ListGroupsRequest(), version, 5)) for version in (2, 4)]
        await asyncio.sleep(0)
        frames = [encode_response(ListGroupsResponse(), 2, 0), encode_response(ListGroupsResponse(), 4, 1)]
        deliver(connection, b"".join(frames))
        # Without the length that a frame begins with.
        assert [bytes(await each) for each in waiting] == [frame[4:] for frame in frames]

    run(scenario)


def test_correlation_ids_start_over_behind_the_largest():
    async def scenario():
        connection, wire = open_connection()
        connection._next_correlation_id = 2**31 - 1
        waiting = [beat(connection), beat(connection)]
        await asyncio.sleep(0)
        assert [header.correlation_id for header in wire.requests()] == [2**31 - 1, 0]
        deliver(connection, reply(2**31 - 1) + reply(0))
        await asyncio.gather(*waiting)

    run(scenario)


# The receiver of frames


def received(stream, sizes):
    receiver = FrameReceiver()
    frames = []
    sizes = iter(sizes)
    while stream:
        room = receiver.buffer()
        assert len(room) > 0
        taken = min(len(room), len(stream), next(sizes, 1 << 20))
        room[:taken] = stream[:taken]
        frames += receiver.received(taken)
        stream = stream[taken:]
    assert receiver.is_idle
    return [bytes(frame) for frame in frames]


@given(
    frames=st.lists(
        st.binary(max_size=50) | st.integers(16_000, 70_000).map(lambda size: bytes([size % 251]) * size), max_size=8
    ),
    sizes=st.lists(st.integers(1, 40_000), max_size=30),
)
def test_frames_come_out_as_they_went_in_however_the_network_cuts_them(frames, sizes):
    stream = b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)
    assert received(stream, sizes) == frames


def test_a_frame_larger_than_one_step_is_received_whole():
    frame = bytes(range(256)) * (frame_receiver._STEP // 100)
    assert received(struct.pack(">i", len(frame)) + frame, []) == [frame]


def test_an_announced_length_alone_reserves_little_memory():
    receiver = FrameReceiver()
    receiver.buffer()[:5] = struct.pack(">i", frame_receiver.MAX_RESPONSE_BYTES) + b"x"
    assert receiver.received(5) == []
    assert len(receiver.buffer()) <= frame_receiver._STEP


@pytest.mark.parametrize("length", [-1, frame_receiver.MAX_RESPONSE_BYTES + 1])
def test_an_impossible_length_is_refused(length):
    receiver = FrameReceiver()
    receiver.buffer()[:4] = struct.pack(">i", length)
    with pytest.raises(BadLength):
        receiver.received(4)
