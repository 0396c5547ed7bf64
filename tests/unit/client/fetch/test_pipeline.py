"""The fetcher's shell over a network that answers as a test says: pending marks, terms, sessions, farewells."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from seamark.client.cluster_view import ClusterView, Node, PartitionView, TopicView
from seamark.client.config.config import ConsumerConfig
from seamark.client.core import lasting_failures
from seamark.client.core.assignment_state import Position
from seamark.client.core.fetch_port import FailureKind, Fetcher
from seamark.client.errors import ClientError, ConnectionFailed, CorruptRecords, PeerProtocolError
from seamark.client.fetch.pipeline import Pipeline, make_fetcher
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.messages.fetch import FetchRequest, FetchResponse, FetchResponsePartition, FetchResponseTopic
from seamark.wire.records import Record as WireRecord
from seamark.wire.records import encode_batch

A = TopicPartition("t", 0)
ID = b"i" * 16
Answer = Callable[[FetchRequest], FetchResponse]


def records(offset: int, count: int = 2) -> bytes:
    return encode_batch([WireRecord(offset + n, 0, 0, None, b"v") for n in range(count)])


def response(content: bytes | None = None, *, error: int = 0, session_id: int = 9, **fields: object) -> FetchResponse:
    known = {"high_watermark": -1, **fields}
    partition = FetchResponsePartition(partition_index=0, error_code=error, records=content, **known)
    return FetchResponse(
        session_id=session_id, responses=[FetchResponseTopic(topic="t", topic_id=ID, partitions=[partition])]
    )


class Network:
    """Just what the pipeline uses; answers come from a queue, and wait while it is empty."""

    is_closed = False

    def __init__(self) -> None:
        partition = PartitionView(0, 1, 4, (1,), (1,))
        self.view = ClusterView(1, "c", 1, {1: Node(1, "h", 1)}, {"t": TopicView("t", ID, False, {0: partition})})
        self.answers: asyncio.Queue[Answer | ClientError | FetchResponse] = asyncio.Queue()
        self.requests: list[FetchRequest] = []
        self.refreshes = 0

    async def exchange(self, node_id, message, response, *, timeout_ms=None, max_version=None):
        made = message.make(13)
        self.requests.append(made)
        answer = await self.answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer, 13

    async def send(self, node_id, message, response, lane):
        assert lane != "main", "a fetch waits there"
        answer, _ = await self.exchange(node_id, message, response)
        return answer

    def request_refresh(self) -> None:
        self.refreshes += 1

    def connection_to(self, node_id, lane="main"):
        return self

    is_ready = True


def run(story: Callable[[Pipeline, Network], object], **options: object) -> None:
    async def tell() -> None:
        network = Network()
        config = ConsumerConfig.from_options({"bootstrap.servers": "h:1"}, {"retry_backoff_ms": 1, **options})
        pipeline = make_fetcher(config, network)  # type: ignore[arg-type]
        pipeline.start(A, Position(0), 1)
        await settle()
        await story(pipeline, network)  # type: ignore[misc]
        network.answers.put_nowait(FetchResponse())
        await pipeline.close()

    asyncio.run(asyncio.wait_for(tell(), 10))


async def settle(rounds: int = 10) -> None:
    for _ in range(rounds):
        await asyncio.sleep(0)


def test_it_is_a_fetcher() -> None:
    fetcher: Fetcher = make_fetcher(ConsumerConfig.from_options({"bootstrap.servers": "h:1"}), Network())  # type: ignore[arg-type]
    assert not fetcher.has_something


def test_one_request_is_outstanding_and_the_next_follows_the_answer() -> None:  # covers: K2, K3, K9
    async def story(pipeline: Pipeline, network: Network) -> None:
        arrivals: list[None] = []
        pipeline.on_arrival(lambda: arrivals.append(None))
        pipeline.metadata_changed()
        await settle()
        assert len(network.requests) == 1
        network.answers.put_nowait(response(records(0)))
        await settle()
        assert arrivals
        assert [request.topics[0].partitions[0].fetch_offset for request in network.requests] == [0, 2]
        taken = pipeline.take(10)
        assert [record.offset for record in taken.records] == [0, 1]
        assert taken.positions == {A: (1, Position(2, -1))}

    run(story)


def test_records_beyond_the_high_watermark_of_their_answer_are_sound() -> None:
    """A broker looks at its high watermark first and reads afterwards: others write in between."""

    async def story(pipeline: Pipeline, network: Network) -> None:
        network.answers.put_nowait(response(records(0, 3) + records(3, 2), high_watermark=0))
        await settle()
        taken = pipeline.take(10)
        assert [record.offset for record in taken.records] == [0, 1, 2, 3, 4]
        assert taken.failures == []
        assert network.requests[-1].topics[0].partitions[0].fetch_offset == 5

    run(story)


@pytest.mark.parametrize(
    "answer",
    [
        ConnectionFailed("h:1", "gone"),
        response(error=6),
        response(error=75),
        response(session_id=0, error=-1),
        FetchResponse(error_code=70),
        FetchResponse(error_code=71),
        FetchResponse(error_code=-1),
    ],
    ids=["lost", "not leader", "unknown epoch", "unknown error", "no session", "wrong epoch", "top-level error"],
)
def test_the_node_is_fetchable_again_whatever_came(answer) -> None:  # covers: K14, K15
    async def story(pipeline: Pipeline, network: Network) -> None:
        network.answers.put_nowait(answer)
        await asyncio.sleep(0.05)
        await settle()
        assert len(network.requests) == 2
        network.answers.put_nowait(response(records(0)))
        await settle()
        assert len(pipeline.take(10).records) == 2

    run(story)


def test_the_pending_mark_goes_even_if_reading_the_answer_fails() -> None:  # covers: K15
    async def story(pipeline: Pipeline, network: Network) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        network.answers.put_nowait("nonsense")  # type: ignore[arg-type]
        await settle()
        assert not pipeline._planning.pending or len(network.requests) == 2
        network.answers.put_nowait(response(records(0)))
        await settle()
        assert len(pipeline.take(10).records) == 2

    run(story)


def test_an_answer_without_a_session_of_ours_is_ignored() -> None:  # covers: K10
    async def story(pipeline: Pipeline, network: Network) -> None:
        pipeline._sessions.clear()
        network.answers.put_nowait(response(records(0)))
        await settle()
        assert not pipeline.has_something
        assert len(network.requests) == 2

    run(story)


def test_what_was_asked_before_a_seek_is_dropped() -> None:
    async def story(pipeline: Pipeline, network: Network) -> None:
        pipeline.start(A, Position(50), 1)
        network.answers.put_nowait(response(records(0)))
        await settle()
        assert not pipeline.has_something
        assert network.requests[-1].topics[0].partitions[0].fetch_offset == 50

    run(story)


def test_a_topic_id_error_of_the_session_asks_for_metadata() -> None:  # covers: K11
    async def story(pipeline: Pipeline, network: Network) -> None:
        network.answers.put_nowait(FetchResponse(error_code=106))
        await settle()
        assert network.refreshes == 1

    run(story)


def test_troubles_are_told_in_their_place() -> None:
    async def story(pipeline: Pipeline, network: Network) -> None:
        network.answers.put_nowait(response(records(0)))
        await settle()
        network.answers.put_nowait(response(error=1))
        await settle()
        taken = pipeline.take(10)
        assert (len(taken.records), taken.failures) == (2, [])
        [failure_kind] = pipeline.take(10).failures
        assert (failure_kind.kind, failure_kind.position.offset, failure_kind.term) == (FailureKind.OUT_OF_RANGE, 2, 1)

    run(story)


def test_a_peer_that_speaks_nonsense_is_told_to_the_caller() -> None:
    async def story(pipeline: Pipeline, network: Network) -> None:
        network.answers.put_nowait(PeerProtocolError("h:1", "nonsense"))
        await settle()
        [failure_kind] = pipeline.take(10).failures
        assert isinstance(failure_kind.error, PeerProtocolError)

    run(story)


def test_closing_ends_the_session_at_the_node() -> None:  # covers: K16
    async def story(pipeline: Pipeline, network: Network) -> None:
        network.answers.put_nowait(response(records(0)))
        await settle()
        network.answers.put_nowait(FetchResponse())
        await pipeline.close()
        assert [(each.session_id, each.session_epoch) for each in network.requests] == [(0, 0), (9, 1), (9, -1)]

    run(story)


def test_bytes_that_lead_no_further_are_not_fetched_again_until_they_were_taken() -> None:
    async def story(pipeline: Pipeline, network: Network) -> None:
        damaged = bytearray(records(0))
        damaged[8:12] = b"\x00\x00\xff\xff"  # the length of the batch
        for _ in range(5):
            network.answers.put_nowait(response(bytes(damaged)))
        await asyncio.sleep(0.05)
        assert len(network.requests) == 1
        for _ in range(3):
            [failure_kind] = pipeline.take(10).failures
            assert isinstance(failure_kind.error, CorruptRecords)
        await asyncio.sleep(0.05)
        assert len(network.requests) == 1
        pipeline.start(A, Position(2), 1)
        await settle()
        assert network.requests[-1].topics[0].partitions[0].fetch_offset == 2

    run(story)


def test_batches_before_the_position_are_passed_over_and_fetching_goes_on() -> None:
    async def story(pipeline: Pipeline, network: Network) -> None:
        pipeline.start(A, Position(2), 1)
        network.answers.put_nowait(response(records(0)))
        await settle()
        network.answers.put_nowait(response(records(0)))
        await settle()
        asked = len(network.requests)
        assert pipeline.take(10) == ([], {}, [])
        network.answers.put_nowait(response(records(2)))
        await asyncio.sleep(0.05)
        assert len(network.requests) > asked
        assert [record.offset for record in pipeline.take(10).records] == [2, 3]

    run(story)


@pytest.mark.parametrize(
    "answer",
    [
        FetchResponse(error_code=70),
        FetchResponse(error_code=71),
        response(preferred_read_replica=77),
        response(error=29),
    ],
    ids=["no session", "wrong epoch", "unknown replica", "an error that is raised"],
)
def test_an_answer_that_comes_again_and_again_is_not_asked_for_without_a_pause(answer) -> None:
    async def story(pipeline: Pipeline, network: Network) -> None:
        for _ in range(10):
            network.answers.put_nowait(answer)
            await settle()
            pipeline.take(10)
        # At most one of them is followed by another request at once.
        assert len(network.requests) <= 2

    run(story, retry_backoff_ms=60_000, retry_backoff_max_ms=60_000)


def test_a_node_that_does_not_answer_is_named_once_it_lasts_and_when_it_is_over(monkeypatch, caplog) -> None:
    monkeypatch.setattr(lasting_failures, "AFTER_MS", 20)

    async def story(pipeline: Pipeline, network: Network) -> None:
        await asyncio.sleep(0.1)
        network.answers.put_nowait(ConnectionFailed("h:1", "gone"))
        await asyncio.sleep(0.05)
        network.answers.put_nowait(response(records(0)))
        await settle()

    run(story, fetch_max_wait_ms=1)
    lines = [(record.event, record.getMessage()) for record in caplog.records if record.levelname == "WARNING"]
    assert [event for event, _ in lines] == ["node_waits", "node_goes_on"]
    assert "node 1 has not responded to Fetch for" in lines[0][1]
