"""Closing a producer while others send: what was accepted is settled, and what comes too late is refused."""

import asyncio
import threading

import pytest

from seamark.client import AsyncProducer, Producer
from seamark.client.admin.types import NewTopic
from seamark.client.errors import DeliveryFailed
from seamark.errors import ClosedError
from tests.support.waiting import eventually


@pytest.fixture
def topic(admin, fresh_name):
    name = fresh_name("closing")
    admin.create_topics([NewTopic(name, 1, 1)]).raise_if_failed()
    return name


def finish(answer):
    """Of the blocking producer the answer itself, of the awaitable one what it is awaited to."""
    return asyncio.run(answer) if asyncio.iscoroutine(answer) else answer


def in_thread(work):
    """Start ``work``; the list gets what it returned or raised."""
    ended = []

    def run():
        try:
            ended.append(finish(work()))
        except Exception as error:  # noqa: BLE001 - looked at by the test
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, ended


@pytest.mark.parametrize("kind", [Producer, AsyncProducer])
@pytest.mark.parametrize("call", ["send", "send_many"])
def test_a_send_that_is_under_way_when_the_producer_closes_is_refused(options, topic, end_of, kind, call):
    is_sending, may_go_on = threading.Event(), threading.Event()

    def serialize(value):
        is_sending.set()
        assert may_go_on.wait(60)
        return value

    producer = kind(**options, value=serialize)
    finish(producer.partitions_for(topic))
    thread, ended = in_thread(lambda: getattr(producer, call)(topic, b"x" if call == "send" else [b"x"]))
    assert is_sending.wait(60)
    finish(producer.close())
    may_go_on.set()
    thread.join()
    assert isinstance(ended[0], ClosedError), ended
    assert end_of(topic) == 0


@pytest.mark.parametrize("kind", [Producer, AsyncProducer])
def test_a_send_that_waits_for_room_when_the_producer_closes_is_refused(options, topic, kind):
    producer = kind(**options, buffer_memory=2000, linger_ms=60_000, delivery_timeout_ms=120_000)
    # Nothing goes out, as if the brokers did not answer.
    producer._sender._send_round = lambda now: False
    first = finish(producer.send(topic, b"x" * 1500))
    thread, ended = in_thread(lambda: producer.send(topic, b"x" * 1500))
    eventually(lambda: producer._sender.room_waiters, "the second record waiting for room")
    with pytest.raises(DeliveryFailed, match=r"^1 of 1 record"):
        finish(producer.close(0.2))
    thread.join()
    assert isinstance(ended[0], ClosedError), ended
    assert first.done()


@pytest.mark.parametrize("kind", [Producer, AsyncProducer])
def test_every_record_accepted_before_closing_is_stored_and_told_so(options, topic, end_of, kind):
    async def send_from_a_loop(producer, accepted):
        while True:
            accepted.append(await producer.send(topic, b"r", partition=0))

    def send(producer, accepted):
        try:
            if kind is AsyncProducer:
                asyncio.run(send_from_a_loop(producer, accepted))
            while True:
                accepted.append(producer.send(topic, b"r"))
        except ClosedError:
            pass

    stored = 0
    for _ in range(5):
        producer, accepted = kind(**options, linger_ms=5), []
        threads = [threading.Thread(target=send, args=(producer, accepted)) for _ in range(2)]
        for thread in threads:
            thread.start()
        eventually(lambda deliveries=accepted: len(deliveries) > 200, "some records on their way")
        finish(producer.close())
        for thread in threads:
            thread.join()
        assert all(delivery.done() for delivery in accepted)
        assert [delivery for delivery in accepted if delivery.exception(0)] == []
        stored += len(accepted)
        assert end_of(topic) == stored


def test_flush_after_close_returns_although_there_were_callbacks(options, topic):
    producer = Producer(**options)
    producer.send(topic, b"x", on_delivery=lambda *found: None)
    producer.close()
    producer.flush(60)
