"""A client's OffsetCommit as bytes with gaps, so that the next one like it need not be decoded.

From one commit to the next only the correlation id and the offsets change. Once a client has committed twice, its
request is encoded anew with other offsets to see where they stand; what arrives later and is equal in all other bytes
is the same commit with the offsets that stand there. The answer in which all went well is kept as bytes, too. A
request that differs in anything else takes the general way, as does every one that is not canonical.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any

from seamark.broker.net.context import ClientConnection, RequestContext
from seamark.broker.net.endpoint import Endpoint
from seamark.coordinator.commands import CommitOffsets
from seamark.coordinator.offsets.commit_patterns import CommitAgain, CommitPattern
from seamark.coordinator.replies import CommitReply
from seamark.errors import EncodeError
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.frames import encode_request, encode_response
from seamark.wire.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from seamark.wire.protocol.template import gaps_between

# Larger commits are rare and take the general way: a connection keeps about ten times the bytes of its commit.
MAX_REQUEST_BYTES = 1 << 13
_KEPT_PER_BYTE = 10
# For all connections of a node.
MAX_KEPT_BYTES = 32 << 20
# Commits of a connection before the first template is made; doubled each time one was made in vain.
_FIRST_LOOK = 2
_LAST_LOOK = 1 << 10

# Makes the response of a reply value.
Finish = Callable[[Any], OffsetCommitResponse]


class CommitTemplate:
    """One commit without its numbers: ``size`` bytes on the wire, length included; ``fields_in`` gives the numbers."""

    __slots__ = (
        "_fixed",
        "_unpack",
        "answer_bytes",
        "answer_end",
        "answer_start",
        "client_id",
        "endpoint",
        "finish",
        "pack_answer",
        "pattern",
        "size",
        "version",
    )

    def __init__(
        self, context: RequestContext, request: OffsetCommitRequest, pattern: CommitPattern, finish: Finish
    ) -> None:
        self.pattern = pattern
        self.endpoint: Endpoint = context.endpoint
        self.version = context.version
        self.client_id = context.client_id
        clear, set_ = (_request_with(context, request, offset) for offset in (0, -1))
        layout = ">8si"
        # Length, API and version; the correlation id is no part of it.
        fixed = [clear[:8]]
        end = 12
        for start in gaps_between(clear, set_, 8):
            fixed.append(clear[end:start])
            layout += f"{start - end}sq"
            end = start + 8
        fixed.append(clear[end:])
        layout += f"{len(clear) - end}s"
        self._fixed = tuple(fixed)
        self._unpack = Struct(layout).unpack
        self.size = len(clear)
        # What stands before and behind the correlation id of the answer.
        response = encode_response(finish(pattern.reply), context.version, 0)
        self.answer_start, self.answer_end = response[:4], response[8:]
        self.answer_bytes = len(response)
        self.pack_answer = Struct(f">4si{len(self.answer_end)}s").pack
        self.finish = finish

    def fields_in(self, data: bytes) -> tuple[Any, ...] | None:
        """The numbers in bytes of the template's ``size``: correlation id and offsets. None for another request."""
        fields = self._unpack(data)
        return fields[1::2] if fields[::2] == self._fixed else None


class RepeatedCommit(RequestContext):
    """The request that a template recognised."""

    __slots__ = ("_template",)

    def __init__(
        self, connection: ClientConnection, template: CommitTemplate, correlation_id: int, started: float
    ) -> None:
        # All that the general constructor sets, without the call: this runs for every commit.
        self.connection = connection
        self.endpoint = template.endpoint
        self.version = template.version
        self.correlation_id = correlation_id
        self.client_id = template.client_id
        self.started = started
        self.request_bytes = template.size - 4
        self.finish = template.finish
        self.on_abandoned = None
        self.on_end = None
        self.is_answer_dropped = False
        self._is_answered = False
        self._template = template

    def reply_value(self, value: Any) -> None:
        template = self._template
        if value is not template.pattern.reply or self._is_answered or self.is_answer_dropped:
            super().reply_value(value)
            return
        self._is_answered = True
        answer = template.pack_answer(template.answer_start, self.correlation_id, template.answer_end)
        self.connection.answered(self, [answer], template.answer_bytes)

    def refuse(self, code: ErrorCode) -> None:
        """Answer with this error for every partition."""
        topics = self._template.pattern.reply.topics
        super().reply_value(CommitReply([(topic, [(entry[0], code) for entry in codes]) for topic, codes in topics]))


def _largest(context: RequestContext) -> int:
    """What a commit may have to be remembered: the more connections there are, the less each may keep."""
    share = MAX_KEPT_BYTES // max(1, len(context.connection.node.connections))
    return min(MAX_REQUEST_BYTES, share // _KEPT_PER_BYTE)


class CommitMemory:
    """What a connection remembers of its commits; owned by the event loop's thread, as the connection is."""

    __slots__ = ("_look_after", "_seen", "template")

    def __init__(self) -> None:
        self.template: CommitTemplate | None = None
        # Commits that took the general way since the last template was made, and how many it takes for the next.
        self._seen = 0
        self._look_after = _FIRST_LOOK

    def note(
        self, context: RequestContext, request: OffsetCommitRequest, command: CommitOffsets, finish: Finish
    ) -> None:
        """Take note of a commit that went the general way, which may be the one to be remembered."""
        self._seen += 1
        if self._seen < self._look_after or context.request_bytes > _largest(context):
            return
        self._seen = 0
        self._look_after = min(2 * self._look_after, _LAST_LOOK)
        pattern = CommitPattern.of(command)
        if pattern is None:
            return
        try:
            template = CommitTemplate(context, request, pattern, finish)
        except EncodeError:
            return
        # Of another size is a request that was not written as we would write it.
        self.template = template if template.size == context.request_bytes + 4 else None

    def recognise(
        self, connection: ClientConnection, data: bytes, now: float
    ) -> tuple[CommitAgain, RepeatedCommit] | None:
        """The commit that ``data`` is, if it is one like the last."""
        template = self.template
        if template is None or len(data) != template.size:
            return None
        fields = template.fields_in(data)
        if fields is None:
            return None
        self._look_after = _FIRST_LOOK
        return CommitAgain(template.pattern, fields[1:]), RepeatedCommit(connection, template, fields[0], now)


def _request_with(context: RequestContext, request: OffsetCommitRequest, offset: int) -> bytes:
    for topic in request.topics:
        for partition in topic.partitions:
            partition.committed_offset = offset
    return encode_request(request, context.version, 0, context.client_id)
