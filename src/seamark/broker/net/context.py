"""One request on its way through the broker: who asks, what for, and where the one answer goes.

A handler returns the response, or None and keeps the context; then whoever finishes the work calls ``reply``. Each
context is answered exactly once: a second answer is a bug and raises. An answer to a connection that is gone is
dropped. The context itself is the token under which the coordinator knows a waiting request.

An answer that may be long is written in slices, so that others are served meanwhile, and has a largest size.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, Protocol

from seamark.acls import Operation, ResourceType
from seamark.broker.clock import BrokerClock, Timers
from seamark.broker.config.settings import BrokerSettings
from seamark.broker.net.connections import Connections
from seamark.broker.net.endpoint import Endpoint
from seamark.broker.net.listener import Listener
from seamark.broker.net.slices import Chunks
from seamark.broker.security.sessions import Session
from seamark.broker.sharing.answers_in_progress import SHORT_BYTES, AnswersInProgress
from seamark.broker.sharing.turns import Share, Steps, Turns
from seamark.coordinator.commands import Command, CommitOffsets
from seamark.coordinator.offsets.commit_patterns import CommitAgain
from seamark.counts import number_text
from seamark.errors import EncodeError, SeamarkError
from seamark.log_limits import LogLimits
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.frames import response_header_version
from seamark.wire.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from seamark.wire.schema.codec import encode_in_steps, encode_into
from seamark.wire.schema.schema import Message

_HEAD = Struct(">ii")
# Size and correlation id; behind them, in the newer response header, the empty list of tagged fields.
_FLEXIBLE_HEAD = Struct(">iix")

# A request of more bytes than this may have a long answer, whatever it asks for.
LONG_REQUEST_BYTES = 1 << 14
# Without the records that a Fetch gives, which ``fetch.max.bytes`` limits. Kafka's frames end at 2 GiB, and common
# clients take 100 MB.
MAX_ANSWER_BYTES = 100 << 20
_PIECES_PER_CHUNK = 4096


class Commands(Protocol):
    """The groups of a node, as far as a connection hands commands over by itself."""

    def submit(self, command: Command | CommitAgain, asker: RequestContext) -> None: ...


class CommitsSeen(Protocol):
    """What a connection remembers of its commits, as far as a handler tells it of one."""

    def note(
        self,
        context: RequestContext,
        request: OffsetCommitRequest,
        command: CommitOffsets,
        finish: Callable[[Any], OffsetCommitResponse],
    ) -> None: ...


class RequestFaults(Protocol):
    """Faults that tests inject, asked before a handler runs."""

    @property
    def is_active(self) -> bool: ...

    def intercept(self, node: ServingNode, request: Message, context: RequestContext) -> bool: ...


class NewSessions(Protocol):
    """Where a connection gets the rights of its client."""

    def new_session(self) -> Session: ...


class ServingNode(Protocol):
    """What connections and requests use of the node they came to."""

    @property
    def id(self) -> int: ...

    @property
    def settings(self) -> BrokerSettings: ...

    @property
    def endpoints(self) -> Mapping[int, Endpoint]: ...

    @property
    def connections(self) -> Connections: ...

    @property
    def security(self) -> NewSessions: ...

    @property
    def groups(self) -> Commands: ...

    @property
    def faults(self) -> RequestFaults: ...

    @property
    def delay_seconds(self) -> float: ...

    @property
    def clock(self) -> BrokerClock: ...

    @property
    def timers(self) -> Timers: ...

    @property
    def turns(self) -> Turns: ...

    @property
    def answers_in_progress(self) -> AnswersInProgress: ...

    @property
    def log_limits(self) -> LogLimits: ...

    @property
    def on_answer(self) -> Callable[[RequestContext, int], None] | None: ...

    def note_failure(self, place: str, error: SeamarkError) -> None: ...


class ClientConnection(Protocol):
    """What a request and its handler use of the connection it came by."""

    @property
    def node(self) -> ServingNode: ...

    @property
    def listener(self) -> Listener: ...

    @property
    def session(self) -> Session: ...

    @property
    def share(self) -> Share: ...

    @property
    def commits(self) -> CommitsSeen: ...

    @property
    def peer_host(self) -> str: ...

    @property
    def peer_port(self) -> int: ...

    @property
    def local_host(self) -> str: ...

    @property
    def is_open(self) -> bool: ...

    def begin(self, context: RequestContext) -> None: ...

    def count_reading(self, byte_count: int) -> None: ...

    def answered(self, context: RequestContext, pieces: list[Any], size: int) -> None: ...

    def send(self, data: bytes) -> None: ...

    def allow_frames_of(self, max_bytes: int) -> None: ...

    def close(self, reason: str, *, level: int = logging.WARNING) -> None: ...

    def tell_bug(self, sentence: str) -> None: ...


class RequestContext:
    __slots__ = (
        "_is_answered",
        "client_id",
        "connection",
        "correlation_id",
        "endpoint",
        "finish",
        "is_answer_dropped",
        "on_abandoned",
        "on_end",
        "request",
        "request_bytes",
        "started",
        "version",
    )

    def __init__(
        self,
        connection: ClientConnection,
        endpoint: Endpoint,
        version: int,
        correlation_id: int,
        client_id: str,
        started: float,
        request_bytes: int,
    ) -> None:
        self.connection = connection
        self.endpoint = endpoint
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.started = started
        self.request_bytes = request_bytes
        # Kept where the answer may be too long, to be refused then.
        self.request: Message | None = None
        # What turns a coordinator's reply value into the response; set by a group handler before it waits.
        self.finish: Callable[[Any], Message] | None = None
        # Called once if the connection ends before the answer; what waits for this request may then forget it.
        self.on_abandoned: Callable[[], None] | None = None
        # Called once when the answer is with the connection, or will never be.
        self.on_end: Callable[[], None] | None = None
        # A fault: the request is handled, and the connection closed in place of the answer.
        self.is_answer_dropped = False
        self._is_answered = False

    @property
    def client_host(self) -> str:
        """The client's address as Kafka shows it in a group description."""
        return f"/{self.connection.peer_host}"

    @property
    def is_answered(self) -> bool:
        return self._is_answered

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """May the client do this?"""
        session = self.connection.session
        return session.is_unrestricted or session.authorize(operation, resource_type, name)

    def take_turns(self, steps: Steps, failed: Callable[[], None] | None = None) -> None:
        """Work on the request in the client's share of the loop's time; ``failed`` is called if a step raises."""
        connection = self.connection
        connection.node.turns.run(connection.share, steps, failed)

    def reply(self, response: Message) -> None:
        """Send the response, in its turn on this connection."""
        if self.request_bytes > LONG_REQUEST_BYTES or self.endpoint.has_long_answers:
            self.take_turns(self._write_in_slices(response))
            return
        pieces: list[Any] = [b""]
        try:
            encode_into(response, self.version, pieces.append)
        except EncodeError:
            # A bug of ours that must not leave the client waiting; its connection is all that can be given up.
            self._tell_bug()
            self._is_answered = True
            self.connection.close("was owed an answer that could not be written")
            return
        is_flexible = response_header_version(type(response), self.version) > 0
        size = sum(map(len, pieces)) + (5 if is_flexible else 4)
        pieces[0] = (_FLEXIBLE_HEAD if is_flexible else _HEAD).pack(size, self.correlation_id)
        self._answer(pieces, size + 4)

    def _write_in_slices(self, response: Message) -> Steps:
        """The steps of ``reply``. Elements may be made on the way, so errors of all kinds are met here."""
        chunks = Chunks()
        node = self.connection.node
        record_bytes = self.endpoint.record_bytes(node.settings)
        limit = MAX_ANSWER_BYTES + record_bytes
        noted_bytes = SHORT_BYTES
        try:
            for _ in encode_in_steps(response, self.version, chunks.pieces.append):
                yield None
                if not self.connection.is_open:
                    return
                chunks.join(_PIECES_PER_CHUNK)
                if chunks.size > limit:
                    break
                if chunks.size > noted_bytes and not record_bytes:
                    noted_bytes = chunks.size
                    yield node.answers_in_progress.grown(self, noted_bytes)
            chunks.join()
        except Exception:  # noqa: BLE001 - the edge where a bug becomes an answer, as in dispatch
            self._tell_bug()
            self._refuse_instead(ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        if chunks.size > limit:
            self._refuse_too_long(limit)
            return
        is_flexible = response_header_version(type(response), self.version) > 0
        size = chunks.size + (5 if is_flexible else 4)
        head = (_FLEXIBLE_HEAD if is_flexible else _HEAD).pack(size, self.correlation_id)
        self._answer(chunks.behind(head), size + 4)

    def _tell_bug(self) -> None:
        self.connection.tell_bug(f"{self.endpoint.api.name} version {self.version}: the answer cannot be written")

    def _refuse_too_long(self, limit: int) -> None:
        connection = self.connection
        connection.node.log_limits.write(
            logging.WARNING,
            connection.peer_host,
            f"asked by {self.endpoint.api.name} for more than {number_text(limit)} bytes, the most that an answer may "
            "have, and was refused",
            about=f"{connection.peer_host}:{connection.peer_port} ",
        )
        self._refuse_instead(ErrorCode.INVALID_REQUEST)

    def _refuse_instead(self, code: ErrorCode) -> None:
        """Answer with an error what could not be answered otherwise."""
        request, self.request = self.request, None
        if request is None:
            # A refusal that cannot be written either.
            self.hang_up("was owed an answer that could not be written")
        else:
            self.reply(self.endpoint.handler.refuse(request, self.version, code))

    def reply_value(self, value: Any) -> None:
        """Send what ``finish`` makes of a reply value."""
        assert self.finish is not None
        self.reply(self.finish(value))

    def no_reply(self) -> None:
        """End a request that has no answer: Produce with acks 0."""
        self._answer([], 0)

    def hang_up(self, reason: str) -> None:
        """Close the connection instead of answering."""
        self._is_answered = True
        self.connection.close(reason)

    def abandon(self) -> None:
        """The connection is gone: nobody waits for the answer any more."""
        callback, self.on_abandoned = self.on_abandoned, None
        if callback is not None and not self._is_answered:
            callback()
        if self.on_end is not None:
            self._end()

    def _end(self) -> None:
        callback, self.on_end = self.on_end, None
        if callback is not None:
            callback()

    def _answer(self, pieces: list[Any], size: int) -> None:
        if self._is_answered:
            raise AssertionError(f"{self.endpoint.api.name} was answered twice")
        self._is_answered = True
        if self.on_end is not None:
            self._end()
        if self.is_answer_dropped:
            self.connection.close("was to lose its answer", level=logging.INFO)
        else:
            self.connection.answered(self, pieces, size)
