"""Versions are negotiated, errors have remedies, and the I/O thread serves whoever asks."""

import asyncio
import os
import pickle
import threading
import time

import pytest

from seamark.client import errors
from seamark.client.errors import (
    AuthenticationFailed,
    BrokerError,
    CommitFailed,
    ConnectionFailed,
    CoordinatorMoved,
    MemberFenced,
    NoBrokerAvailable,
    OperationTimedOut,
    PeerProtocolError,
    Refused,
    RetryLater,
    UnsupportedByBroker,
    broker_error,
)
from seamark.client.net.connection import BrokerVersions
from seamark.client.net.handshake import hello, next_hello_version, read_hello
from seamark.client.net.io_thread import IoThread
from seamark.client.records import Offset, Record
from seamark.errors import SeamarkError, UsageError
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.frames import encode_response
from seamark.wire.protocol.messages.api_versions import ApiVersionsResponse, ApiVersionsResponseApi
from seamark.wire.protocol.messages.fetch import FetchRequest
from seamark.wire.protocol.messages.offset_commit import OffsetCommitRequest


def versions(**ranges):
    keys = {"offset_commit": 8, "fetch": 1}
    apis = [
        ApiVersionsResponseApi(api_key=keys[name], min_version=low, max_version=high)
        for name, (low, high) in ranges.items()
    ]
    return BrokerVersions("b:1", ApiVersionsResponse(api_keys=apis))


def test_the_newest_version_of_both_is_spoken():
    assert versions(offset_commit=(0, 7)).choose(OffsetCommitRequest) == 7
    assert versions(offset_commit=(2, 99)).choose(OffsetCommitRequest) == OffsetCommitRequest.versions.last


def test_the_caller_may_cap_the_version():  # K7
    assert versions(fetch=(4, 17)).choose(FetchRequest, most=12) == 12


@pytest.mark.parametrize(
    ("offered", "limits"), [({}, {}), ({"offset_commit": (50, 60)}, {}), ({"offset_commit": (0, 1)}, {"least": 2})]
)
def test_no_common_version_is_an_error_that_names_broker_and_api(offered, limits):
    broker = versions(**offered)
    assert not broker.has(OffsetCommitRequest, **limits)
    with pytest.raises(UnsupportedByBroker, match="b:1: OffsetCommit versions"):
        broker.choose(OffsetCommitRequest, **limits)


def test_an_older_broker_is_asked_again_in_the_version_it_offers():
    refusal = ApiVersionsResponse(
        error_code=35, api_keys=[ApiVersionsResponseApi(api_key=18, min_version=0, max_version=2)]
    )
    frame = encode_response(refusal, 0, 1)[4:]
    assert next_hello_version(read_hello(frame, 4, "b:1"), "b:1") == 2


def test_a_broker_before_2_4_offers_nothing_and_is_asked_in_version_zero():
    frame = encode_response(ApiVersionsResponse(error_code=35), 0, 1)[4:]
    assert next_hello_version(read_hello(frame, 4, "b:1"), "b:1") == 0


def test_an_answer_to_the_first_request_that_is_no_answer_is_an_error_with_the_address():
    with pytest.raises(PeerProtocolError, match="b:1"):
        read_hello(b"\x00\x00\x00\x01\x00", 4, "b:1")
    with pytest.raises(PeerProtocolError, match="CLUSTER_AUTHORIZATION_FAILED"):
        next_hello_version(ApiVersionsResponse(error_code=31), "b:1")


def test_the_first_request_names_the_client():
    assert hello().client_software_name == "seamark"


# Errors


@pytest.mark.parametrize("code", [code for code in ErrorCode if code is not ErrorCode.NONE])
def test_every_code_has_a_remedy_and_a_sentence(code):
    error = broker_error(code, "OffsetCommit", "group 'g'")
    assert isinstance(error, RetryLater | MemberFenced | Refused)
    assert code.name in str(error)
    assert "group 'g'" in str(error)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (16, CoordinatorMoved),
        (15, CoordinatorMoved),
        (14, RetryLater),
        (22, MemberFenced),
        (25, MemberFenced),
        (82, MemberFenced),
        (30, Refused),
        (29, Refused),
        (31000, Refused),
    ],
)
def test_remedies_are_what_the_caller_can_do(code, kind):
    assert type(broker_error(code, "x", "y")) is kind


@pytest.mark.parametrize(
    "error",
    [
        broker_error(16, "OffsetCommit", "group 'g'", "because"),
        CommitFailed("gone", [TopicPartition("t", 1)], "g"),
        NoBrokerAvailable({"a:1": "refused"}, 2.0),
        AuthenticationFailed("a:1", "PLAIN", "no"),
        OperationTimedOut("looking", 3.0, ConnectionFailed("a:1", "gone")),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_survive_pickling_with_their_fields(error):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert {name: str(value) for name, value in vars(copy).items()} == {
        name: str(value) for name, value in vars(error).items()
    }


def test_every_error_of_the_client_is_a_seamark_error():
    kinds = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, Exception)]
    assert len(kinds) > 20
    assert all(issubclass(kind, SeamarkError) for kind in kinds)
    assert issubclass(CoordinatorMoved, BrokerError)


# The I/O thread


async def answer():
    await asyncio.sleep(0)
    return threading.current_thread().name


def test_there_is_one_io_thread_and_it_runs_what_callers_hand_it():
    assert IoThread.get() is IoThread.get()
    assert IoThread.get().run(answer()) == "seamark-io"
    assert asyncio.run(IoThread.get().run_async(answer())) == "seamark-io"


def test_errors_come_back_to_the_caller():
    async def fail():
        raise ConnectionFailed("a:1", "gone")

    with pytest.raises(ConnectionFailed):
        IoThread.get().run(fail())


def test_a_blocking_call_on_the_io_thread_is_refused_and_does_not_hang():
    async def nested():
        IoThread.get().run(answer())

    with pytest.raises(UsageError, match="I/O thread"):
        IoThread.get().run(nested())


def test_a_user_thread_that_computes_does_not_stop_the_io_thread():
    ticks = []

    async def tick():
        for _ in range(10):
            ticks.append(time.monotonic())
            await asyncio.sleep(0.02)

    future = IoThread.get().submit(tick())
    until = time.monotonic() + 20
    while time.monotonic() < until and not future.done():
        sum(range(10_000))
    assert future.done()
    assert len(ticks) == 10


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_starts_its_own_io_thread_and_refuses_the_parents():
    before = IoThread.get()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        outcome = b"bad"
        try:
            fresh = IoThread.get()
            works = fresh is not before and fresh.run(answer()) == "seamark-io"
            try:
                before.submit(answer())
            except UsageError:
                outcome = b"good" if works else b"stuck"
        finally:
            os.write(writer, outcome)
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        assert pipe.read() == b"good"
    os.waitpid(child, 0)
    assert before.run(answer()) == "seamark-io"


# What users hold


def test_an_offset_is_a_value_and_is_never_negative():
    assert Offset(7, "m") == Offset(7, "m")
    assert len({Offset(7), Offset(7), Offset(8)}) == 2
    assert repr(Offset(7, "m", 3)) == "Offset(7, metadata='m', leader_epoch=3)"
    for bad in (-1, 1.5, True, "1", None):
        with pytest.raises(UsageError):
            Offset(bad)


def test_a_record_shows_where_it_is_from():
    record = Record("t", 1, 5, b"k", b"v", (("h", b"x"),), 99)
    assert record.topic_partition == TopicPartition("t", 1)
    assert record == Record("t", 1, 5, b"k", b"v", (("h", b"x"),), 99)
    assert repr(record) == "Record(t-1 @ 5, key=b'k', value=b'v', timestamp_ms=99)"
