"""A template recognises the commits it was made for, reads what the decoder reads, and is fooled by nothing else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.broker.api.endpoints import load_endpoints
from seamark.broker.api.handlers import offset_commit
from seamark.broker.net.commit_template import MAX_REQUEST_BYTES, CommitMemory
from seamark.broker.net.context import RequestContext
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.frames import decode_request, encode_request, encode_response
from seamark.wire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.unit.broker.groups.group_harness import finished

ENDPOINT = load_endpoints()[8]
VERSIONS = range(1, 10)

texts = st.text(st.characters(codec="utf-8"), max_size=12)
topic_lists = st.lists(
    st.tuples(texts, st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(-1, 9), texts), min_size=1, max_size=4)),
    min_size=1,
    max_size=3,
)


class Sink:
    """A connection as far as an answer needs one."""

    connection_count = 1

    def __init__(self) -> None:
        self.commits = CommitMemory()
        self.session = SimpleNamespace(is_unrestricted=True)
        self.sent = b""
        self.submitted: list[Any] = []

    def answered(self, _context: RequestContext, pieces: list[bytes], size: int) -> None:
        self.sent = b"".join(pieces)
        assert len(self.sent) == size

    @property
    def node(self) -> Any:
        groups = SimpleNamespace(submit=lambda command, _: self.submitted.append(command))
        return SimpleNamespace(groups=groups, connections=range(self.connection_count))


def request(offset: int, topics: list, group: str = "g", member: str = "m", generation: int = 3) -> OffsetCommitRequest:
    counter = iter(range(offset, offset + 100))
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=next(counter),
                        committed_leader_epoch=epoch,
                        committed_metadata=metadata,
                    )
                    for index, epoch, metadata in partitions
                ],
            )
            for name, partitions in topics
        ],
    )


def commit(sink: Sink, frame: bytes) -> Any:
    """The general way; what reached the coordinator."""
    header, decoded = decode_request(frame[4:])
    version = header.request_api_version
    context = RequestContext(
        sink,
        ENDPOINT,
        version,
        header.correlation_id,
        header.client_id or "",
        0.0,
        len(frame) - 4,  # type: ignore[arg-type]
    )
    assert finished(offset_commit.handle(sink.node, decoded, context)) is None
    return sink.submitted[-1]


PLAIN = [("t", [(0, -1, ""), (1, 4, "note")])]


def frame_of(offset: int, version: int, topics: list = PLAIN, correlation_id: int = 7, client: str = "c") -> bytes:
    return encode_request(request(offset, topics), version, correlation_id, client)


def taught(version: int, topics: list = PLAIN, client: str = "c") -> Sink:
    sink = Sink()
    for offset in (1, 2):
        commit(sink, frame_of(offset, version, topics, client=client))
    return sink


# covers: A1, A31
@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=25, deadline=None)
@given(
    topics=topic_lists, offset=st.integers(-(2**62), 2**62), correlation=st.integers(-(2**31), 2**31 - 1), client=texts
)
def test_a_repeated_request_is_read_as_the_decoder_reads_it(version, topics, offset, correlation, client):
    sink = taught(version, topics, client)
    data = frame_of(offset, version, topics, correlation, client)
    found = sink.commits.recognise(sink, data, 5.0)  # type: ignore[arg-type]
    assert found is not None
    command, context = found
    assert command.spelled_out() == commit(sink, data)
    assert (context.correlation_id, context.version, context.client_id) == (correlation, version, client)
    assert (context.request_bytes, context.started, context.endpoint) == (len(data) - 4, 5.0, ENDPOINT)


# covers: A8, A34
@pytest.mark.parametrize("version", VERSIONS)
def test_the_ready_made_answer_is_what_the_encoder_writes(version):
    sink = taught(version)
    command, context = sink.commits.recognise(sink, frame_of(9, version, correlation_id=-5), 0.0)  # type: ignore[misc,arg-type]
    context.reply_value(command.pattern.reply)
    assert sink.sent == encode_response(offset_commit.respond(command.pattern.reply), version, -5)


def test_a_repeated_request_that_fails_is_answered_with_its_errors():
    sink = taught(9)
    _, context = sink.commits.recognise(sink, frame_of(9, 9), 0.0)  # type: ignore[misc,arg-type]
    context.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert sink.sent == encode_response(
        offset_commit.refuse(request(0, PLAIN), 9, ErrorCode.UNKNOWN_SERVER_ERROR), 9, 7
    )


@pytest.mark.parametrize("version", [1, 2, 5, 7, 9])
def test_no_changed_byte_is_taken_for_the_same_commit(version):
    sink = taught(version)
    data = frame_of(77, version)
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 0x41
        found = sink.commits.recognise(sink, bytes(changed), 0.0)  # type: ignore[arg-type]
        if found is not None:
            assert found[0].spelled_out() == commit(Sink(), bytes(changed)), position


@pytest.mark.parametrize(
    "data",
    [
        frame_of(9, 9, [("t", [(0, -1, ""), (2, 4, "note")])]),
        frame_of(9, 9, [("u", [(0, -1, ""), (1, 4, "note")])]),
        frame_of(9, 9, [("t", [(0, -1, ""), (1, 5, "note")])]),
        frame_of(9, 9, [("t", [(0, -1, ""), (1, 4, "Note")])]),
        frame_of(9, 9, client="d"),
        frame_of(9, 8),
        encode_request(request(9, PLAIN, group="h"), 9, 7, "c"),
        encode_request(request(9, PLAIN, generation=4), 9, 7, "c"),
        encode_request(request(9, PLAIN, member="n"), 9, 7, "c"),
        frame_of(9, 9)[:-1],
        frame_of(9, 9) + b"\x00",
    ],
)
def test_another_commit_is_not_recognised(data):
    sink = taught(9)
    assert sink.commits.recognise(sink, frame_of(9, 9), 0.0) is not None  # type: ignore[arg-type]
    assert sink.commits.recognise(sink, data, 0.0) is None  # type: ignore[arg-type]


def test_nothing_is_remembered_of_the_first_commit():
    sink = Sink()
    commit(sink, frame_of(1, 9))
    assert sink.commits.template is None


def test_a_client_whose_commits_never_repeat_is_looked_at_ever_more_rarely():
    sink = Sink()
    templates = []
    for number in range(300):
        commit(sink, frame_of(number, 9, [("t", [(0, -1, f"note {number:05}")])]))
        if sink.commits.template is not None and (not templates or templates[-1] is not sink.commits.template):
            templates.append(sink.commits.template)
    assert 3 <= len(templates) <= 8


def test_a_client_that_changes_its_commit_is_remembered_anew():
    sink = taught(9)
    other = [("u", [(5, -1, "")])]
    for number in range(6):
        commit(sink, frame_of(number, 9, other))
    assert sink.commits.recognise(sink, frame_of(50, 9, other), 0.0) is not None  # type: ignore[arg-type]


def test_large_commits_are_not_remembered():
    sink = taught(9, [("t", [(index, -1, "m" * 100) for index in range(MAX_REQUEST_BYTES // 100)])])
    assert sink.commits.template is None


def test_the_more_connections_there_are_the_less_each_may_keep(monkeypatch):
    topics = [("t", [(index, -1, "m" * 100) for index in range(20)])]
    assert taught(9, topics).commits.template is not None
    monkeypatch.setattr(Sink, "connection_count", 10_000)
    assert taught(9, topics).commits.template is None
    assert taught(9, [("t", [(0, -1, "")])]).commits.template is not None


def test_a_request_that_is_not_written_as_we_write_it_is_not_remembered():
    sink = Sink()
    plain = frame_of(1, 9)
    # An empty list of tagged fields, its zero written in two bytes.
    odd = (len(plain) - 3).to_bytes(4) + plain[4:-1] + b"\x80\x00"
    for _ in range(4):
        commit(sink, odd)
    assert sink.commits.template is None
