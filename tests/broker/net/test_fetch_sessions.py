"""Fetch sessions (K16): full and incremental requests, epochs, what is told and what is not."""

import pytest

from seamark import Broker
from seamark.broker.net import fetch_sessions
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.fetch import FetchRequestForgottenTopic
from tests.support.broker_driver import Client, batch_of, fetch_request, fresh_name

VERSION = 12


@pytest.fixture(scope="module")
def broker():
    with Broker(settings={"max.incremental.fetch.session.cache.slots": 20}) as running:
        yield running


@pytest.fixture
def client(broker):
    broker._call(broker._server.nodes[0].fetch_sessions.clear)
    with Client(broker.bootstrap) as connected:
        yield connected


@pytest.fixture
def topic(broker):
    name = fresh_name()
    broker.create_topic(name, 3)
    return name


def told(response):
    return sorted(
        (topic.topic, partition.partition_index) for topic in response.responses for partition in topic.partitions
    )


def open_session(client, wanted):
    response = client.ask(fetch_request(wanted, session_epoch=0), VERSION)
    assert response.session_id > 0
    return response.session_id


def follow(client, session_id, epoch, wanted=None, forget=(), **fields):
    request = fetch_request(wanted or {}, session_id=session_id, session_epoch=epoch, **fields)
    for name, index in forget:
        request.forgotten_topics_data.append(FetchRequestForgottenTopic(topic=name, partitions=[index]))
    return client.ask(request, VERSION)


def test_a_full_request_tells_everything_and_the_next_only_what_changed(client, topic):
    response = client.ask(fetch_request({(topic, 0): 0, (topic, 1): 0}, session_epoch=0), VERSION)
    assert told(response) == [(topic, 0), (topic, 1)]
    session = response.session_id
    assert told(follow(client, session, 1)) == []
    client.produce(topic, batch_of(b"a"), partition=1)
    changed = follow(client, session, 2)
    assert (changed.session_id, told(changed)) == (session, [(topic, 1)])
    assert follow(client, session, 3, {(topic, 1): 1}).responses == []


def test_partitions_are_added_and_forgotten(client, topic):
    client.produce(topic, batch_of(b"a"), partition=2)
    session = open_session(client, {(topic, 0): 0, (topic, 1): 0})
    assert told(follow(client, session, 1, {(topic, 2): 0})) == [(topic, 2)]
    client.produce(topic, batch_of(b"a"), partition=0)
    assert told(follow(client, session, 2, forget=[(topic, 0), (topic, 2)])) == []


def test_a_session_without_partitions_ends(client, topic):
    session = open_session(client, {(topic, 0): 0})
    assert follow(client, session, 1, forget=[(topic, 0)]).session_id == 0
    assert follow(client, session, 2).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_an_unknown_session_and_a_wrong_epoch_are_refused(client, topic):
    session = open_session(client, {(topic, 0): 0})
    refused = follow(client, session, 5)
    assert (refused.error_code, refused.session_id, refused.responses) == (
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        0,
        [],
    )
    assert follow(client, session + 1, 1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_of_names_cannot_be_continued_with_ids(client, topic):
    session = open_session(client, {(topic, 0): 0})
    response = client.ask(fetch_request({}, session_id=session, session_epoch=1), 13)
    assert response.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_session_is_closed_or_replaced_on_request(broker, client, topic):
    sessions = broker._server.nodes[0].fetch_sessions
    session = open_session(client, {(topic, 0): 0})
    again = client.ask(fetch_request({(topic, 0): 0}, session_id=session, session_epoch=0), VERSION)
    assert again.session_id not in (0, session)
    assert len(sessions) == 1
    closing = client.ask(fetch_request({}, session_id=again.session_id, session_epoch=-1), VERSION)
    assert (closing.error_code, closing.session_id) == (0, 0)
    assert len(sessions) == 0


def test_an_error_is_told_each_time_and_its_end_too(broker, client, topic):
    session = open_session(client, {(topic, 0): 0})
    assert told(follow(client, session, 1, {(topic, 0): 7})) == [(topic, 0)]
    assert told(follow(client, session, 2)) == [(topic, 0)]
    assert told(follow(client, session, 3, {(topic, 0): 0})) == [(topic, 0)]
    assert told(follow(client, session, 4)) == []


def test_epochs_wrap_to_one(broker, client, topic):
    session = open_session(client, {(topic, 0): 0})
    broker._server.nodes[0].fetch_sessions._sessions[session].epoch = 2**31 - 1
    assert follow(client, session, 2**31 - 1).session_id == session
    assert follow(client, session, 1).session_id == session


def test_partitions_that_gave_records_go_to_the_end(client, topic):
    for partition in range(3):
        client.produce(topic, batch_of(b"x" * 1000), partition=partition)
    session = open_session(client, {(topic, p): 1 for p in range(3)})
    first = follow(client, session, 1, {(topic, p): 0 for p in range(3)}, max_bytes=1)
    order = [p.partition_index for p in first.responses[0].partitions if p.records]
    assert order == [0]
    second = follow(client, session, 2, {(topic, 0): 0}, max_bytes=1)
    assert [p.partition_index for p in second.responses[0].partitions if p.records][:1] == [1]


def test_when_no_session_is_free_the_client_stays_with_full_requests(broker, client, topic):
    for _ in range(20):
        open_session(client, {(topic, 0): 0})
    assert client.ask(fetch_request({(topic, 0): 0}, session_epoch=0), VERSION).session_id == 0
    broker.advance(121)
    assert client.ask(fetch_request({(topic, 0): 0}, session_epoch=0), VERSION).session_id > 0


def sessions_of(broker):
    return broker._server.nodes[0].fetch_sessions


def test_a_session_that_would_hold_too_much_is_not_opened(broker, client, topic, monkeypatch):
    monkeypatch.setattr(fetch_sessions, "MAX_SESSION_BYTES", 2000)
    wanted = {(topic, number): 0 for number in range(5)}
    response = client.ask(fetch_request(wanted, session_epoch=0), VERSION)
    assert (response.error_code, response.session_id, len(told(response))) == (0, 0, 5)
    assert len(sessions_of(broker)) == 0


def test_a_session_that_grows_too_large_is_no_longer_known(broker, client, topic, monkeypatch):
    monkeypatch.setattr(fetch_sessions, "MAX_SESSION_BYTES", 2000)
    session = open_session(client, {(topic, 0): 0})
    assert follow(client, session, 1, {(topic, 1): 0}).error_code == 0
    grown = follow(client, session, 2, {("x" * 2000, 0): 0})
    assert grown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(sessions_of(broker)), sessions_of(broker).byte_count) == (0, 0)


def test_all_sessions_together_are_bounded_in_bytes(broker, client, topic, monkeypatch):
    session = open_session(client, {(topic, 0): 0, (topic, 1): 0})
    monkeypatch.setattr(fetch_sessions, "MAX_BYTES", sessions_of(broker).byte_count + 100)
    assert client.ask(fetch_request({(topic, 0): 0}, session_epoch=0), VERSION).session_id == 0
    assert follow(client, session, 1, forget=[(topic, 1)]).error_code == 0
    second = open_session(client, {(topic, 0): 0})
    assert client.ask(fetch_request({(topic, 0): 0}, session_epoch=0), VERSION).session_id == 0
    broker.advance(121)
    try:
        open_session(client, {(topic, 0): 0})
    finally:
        broker.restore()
    assert follow(client, session, 2).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert follow(client, second, 1).error_code == 0
