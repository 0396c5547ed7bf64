"""Incremental fetch sessions: what each request says, and what answers make of the session."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.client.fetch.messages import FetchLimits, answered_partitions, fetch_request, version_cap
from seamark.client.fetch.sessions import FetchSession, FetchTarget, SessionRequest, Verdict
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.fetch import FetchResponse, FetchResponsePartition, FetchResponseTopic

A, B, C = (TopicPartition("t", number) for number in range(3))
ID, OTHER_ID, NO_ID = b"i" * 16, b"j" * 16, bytes(16)


def ask(offset: int, topic_id: bytes = ID) -> FetchTarget:
    return FetchTarget(topic_id, offset, 3, 1000)


def opened(partitions: dict[TopicPartition, FetchTarget], session_id: int = 77) -> FetchSession:
    session = FetchSession(1)
    request = session.build(partitions)
    assert session.answered(request, ErrorCode.NONE, session_id, list(partitions)) is Verdict.ACCEPTED
    return session


def test_the_first_request_is_full_and_opens_a_session() -> None:  # covers: K16
    request = FetchSession(1).build({A: ask(0), B: ask(5)})
    assert (request.session_id, request.epoch, dict(request.send)) == (0, 0, {A: ask(0), B: ask(5)})
    assert request.forget == request.replace == ()


def test_later_requests_say_only_what_changed() -> None:  # covers: K16
    session = opened({A: ask(0), B: ask(5)})
    request = session.build({A: ask(9), C: ask(1)})
    assert (request.session_id, request.epoch) == (77, 1)
    assert dict(request.send) == {A: ask(9), C: ask(1)}
    assert request.forget == ((B, ID),)
    assert session.build({A: ask(9), C: ask(1)}).send == {}


def test_epochs_count_up_and_begin_again_at_one() -> None:  # covers: K16
    session = opened({A: ask(0)})
    for expected in (1, 2, 3):
        request = session.build({A: ask(expected)})
        assert request.epoch == expected
        session.answered(request, ErrorCode.NONE, 77, [A])
    session.epoch = 2**31 - 1
    session.answered(session.build({A: ask(9)}), ErrorCode.NONE, 77, [])
    assert session.build({A: ask(9)}).epoch == 1


@pytest.mark.parametrize(
    ("error", "session_id"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 77),
        (ErrorCode.UNKNOWN_SERVER_ERROR, 77),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 77),
    ],
)
def test_a_refused_session_starts_again_with_a_full_request(error: ErrorCode, session_id: int) -> None:
    # covers: K11, K16
    session = opened({A: ask(0)})
    verdict = session.answered(session.build({A: ask(1)}), error, 0, [])
    assert verdict is not Verdict.ACCEPTED
    assert (verdict is Verdict.REJECTED_REFRESH) is (error is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
    request = session.build({A: ask(1), B: ask(2)})
    assert (request.session_id, request.epoch) == (session_id, 0)
    assert dict(request.send) == {A: ask(1), B: ask(2)}


def test_a_lost_connection_keeps_the_id_and_sends_everything_again() -> None:  # covers: K14, K16
    session = opened({A: ask(0)})
    session.build({A: ask(1)})
    session.failed()
    assert session.build({A: ask(1)}) == SessionRequest(77, 0, {A: ask(1)})


def test_without_a_session_all_requests_stay_full() -> None:  # covers: K16
    session = FetchSession(1)
    for offset in range(3):
        request = session.build({A: ask(offset)})
        assert (request.session_id, request.epoch) == (0, 0)
        assert session.answered(request, ErrorCode.NONE, 0, [A]) is Verdict.ACCEPTED
    assert session.closing_request() is None


def test_closing_tells_the_node_with_epoch_minus_one() -> None:  # covers: K16
    request = opened({A: ask(0)}).closing_request()
    assert request == SessionRequest(77, -1, {})


def test_a_full_answer_must_be_about_exactly_the_asked_partitions() -> None:  # covers: K12
    session = FetchSession(1)
    request = session.build({A: ask(0), B: ask(0)})
    assert session.answered(request, ErrorCode.NONE, 9, [A, C]) is Verdict.REJECTED
    assert "full fetch of t-0, t-1" in session.problem
    assert "unexpected t-2" in session.problem
    assert "missing t-1" in session.problem
    assert session.build({A: ask(0)}).session_id == 0


def test_an_incremental_answer_may_leave_out_but_not_add() -> None:  # covers: K12
    session = opened({A: ask(0), B: ask(0)})
    assert session.answered(session.build({A: ask(1), B: ask(0)}), ErrorCode.NONE, 77, []) is Verdict.ACCEPTED
    request = session.build({A: ask(2)})
    assert session.answered(request, ErrorCode.NONE, 77, [A, None]) is Verdict.REJECTED
    assert "an unknown topic id (sent: t-0; forgotten: t-1; replaced: none)" in session.problem


def test_a_topic_made_anew_is_replaced_in_the_session() -> None:  # covers: K8
    session = opened({A: ask(0)})
    request = session.build({A: ask(0, OTHER_ID)})
    assert request.replace == ((A, ID),)
    assert request.forget == ()
    made = fetch_request(request, FetchLimits(), 100).make(13)
    assert [(topic.topic_id, topic.partitions) for topic in made.forgotten_topics_data] == [(ID, [0])]


def test_a_session_does_not_mix_names_and_ids() -> None:  # covers: K7
    session = opened({A: ask(0)})
    request = session.build({A: ask(0), B: ask(0, NO_ID)})
    assert (request.session_id, request.epoch) == (77, 0)


def test_the_version_is_capped_at_12_if_any_topic_lacks_an_id() -> None:  # covers: K7
    assert version_cap(SessionRequest(0, 0, {A: ask(0)})) is None
    assert version_cap(SessionRequest(0, 0, {A: ask(0), B: ask(0, NO_ID)})) == 12
    assert version_cap(SessionRequest(0, 1, {}, forget=((A, NO_ID),))) == 12


def test_a_request_carries_limits_isolation_rack_and_session() -> None:  # covers: K8
    limits = FetchLimits(max_wait_ms=500, min_bytes=7, max_bytes=5000, isolation_level=1, rack="r1")
    request = SessionRequest(5, 6, {A: ask(42), B: ask(43)}, forget=((C, ID),))
    made = fetch_request(request, limits, 3000).make(11)
    assert (made.max_wait_ms, made.min_bytes, made.max_bytes, made.isolation_level) == (500, 7, 3000, 1)
    assert (made.session_id, made.session_epoch, made.rack_id) == (5, 6, "r1")
    [topic] = made.topics
    assert topic.topic == "t"
    found = [(each.partition, each.fetch_offset, each.current_leader_epoch) for each in topic.partitions]
    assert found == [(0, 42, 3), (1, 43, 3)]
    assert fetch_request(request, limits, 10**9).make(11).max_bytes == 5000


def test_answers_are_read_by_name_or_by_id() -> None:
    topic = FetchResponseTopic(topic="t", topic_id=ID, partitions=[FetchResponsePartition(partition_index=1)])
    strange = FetchResponseTopic(topic_id=OTHER_ID, partitions=[FetchResponsePartition(partition_index=0)])
    response = FetchResponse(responses=[topic, strange])
    assert set(answered_partitions(response, 13, {B: ask(0)})) == {B, None}
    assert set(answered_partitions(FetchResponse(responses=[topic]), 12, {})) == {B}


@given(st.lists(st.dictionaries(st.sampled_from([A, B, C]), st.integers(0, 3)), min_size=1, max_size=12), st.randoms())
def test_what_the_node_believes_is_what_was_wanted(wishes, chance) -> None:  # covers: K16
    """A model of the broker's side, told only what requests say, ends with the wanted partitions after each request."""
    session = FetchSession(1)
    believed: dict[TopicPartition, FetchTarget] = {}
    for wish in wishes:
        wanted = {partition: ask(offset) for partition, offset in wish.items()}
        request = session.build(wanted)
        if request.is_full:
            believed = dict(request.send)
        else:
            for partition, _ in request.forget:
                del believed[partition]
            believed.update(request.send)
        assert believed == wanted
        fate = chance.randrange(4)
        if fate == 0:
            session.failed()
        elif fate == 1:
            session.answered(request, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, [])
        else:
            session.answered(request, ErrorCode.NONE, 77, list(wanted))
