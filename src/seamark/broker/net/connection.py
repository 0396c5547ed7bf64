"""One client connection: frames in, answers out in the order of the requests, nothing that grows without bound.

As Kafka does, a connection handles one request at a time: the next is looked at when the answer of the last one is on
its way. So answers need no reordering, a waiting fetch holds up what the client sent behind it, and a client that
does not read its answers stops being read.
"""

from __future__ import annotations

import asyncio
import logging
import select
from collections import deque
from typing import Any

from seamark.broker.net.commit_template import CommitMemory
from seamark.broker.net.context import RequestContext, ServingNode
from seamark.broker.net.dispatch import READ_AT_ONCE_BYTES, serve
from seamark.broker.net.endpoint import Frame
from seamark.broker.net.listener import Listener
from seamark.broker.security.sessions import ANONYMOUS
from seamark.broker.sharing.file_limits import descriptor_of
from seamark.broker.sharing.turns import Rest, Share, Steps
from seamark.errors import DecodeError
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.frames import FrameParser

# Frames that wait behind the one being handled, and their bytes; reading stops above either.
MAX_WAITING_FRAMES = 64
MAX_WAITING_BYTES = 1 << 20
# What may lie in the send buffer before no further request is looked at.
SEND_BUFFER_BYTES = 1 << 18
# Pieces of an answer smaller than this in sum are joined: one buffer is cheaper than a row of them.
_JOIN_BELOW = 1 << 16
_HAS_POLL = hasattr(select, "poll")
# Every TLS connection begins with a handshake record: type 22, version 3.x.
_TLS_HANDSHAKE = b"\x16\x03"
_HTTP_METHODS = (b"GET ", b"HEAD ", b"POST ", b"PUT ", b"OPTIONS ", b"DELETE ", b"CONNECT ", b"PRI * HTTP")


class Connection(asyncio.Protocol):
    """Owned by the event loop's thread."""

    def __init__(self, node: ServingNode, listener: Listener) -> None:
        self.node = node
        self.listener = listener
        self.session = node.security.new_session()
        self.peer_host = ""
        self.peer_port = 0
        # As the client called itself last.
        self.client_id = ""
        # The address that the client connected to, for answers on a listener that is bound to all of them.
        self.local_host = ""
        # All on the machine's own clock: clients do not know of the time that tests add.
        self.opened_at = 0.0
        self.last_active = 0.0
        self._is_stranger = True
        self.share = node.turns.own
        # When the client stopped reading; None while it reads.
        self.stalled_since: float | None = None
        # What of the next frame has arrived, since when, and how often in a row a sweep found that it had not grown.
        self.partial_bytes = 0
        self.partial_since = 0.0
        self.swept = (0.0, 0)
        self.sweeps_without_progress = 0
        self.was_gone = False
        # What is held of requests, as it was last told to all connections.
        self._held_bytes = 0
        self._parser = FrameParser(self.session.max_frame_bytes or node.settings.socket_request_max_bytes)
        self._transport: asyncio.Transport | None = None
        self.commits = CommitMemory()
        self._waiting: deque[Frame] = deque()
        self._waiting_bytes = 0
        self._reading_bytes = 0
        self._current: RequestContext | None = None
        self._is_serving = False
        # Whether the requests that wait have their turn coming.
        self._is_in_line = False
        self.is_reading = True
        self._is_abandoned = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self._transport = transport  # type: ignore[assignment]
        transport.set_write_buffer_limits(high=SEND_BUFFER_BYTES)  # type: ignore[attr-defined]
        peer = transport.get_extra_info("peername") or ("unknown", 0)
        self.peer_host, self.peer_port = peer[0], peer[1]
        self.local_host = (transport.get_extra_info("sockname") or ("",))[0]
        self.session.opened(self.peer_host, transport.get_extra_info("ssl_object"))
        # No party: who is not known yet is nobody's company.
        self.share = self.node.turns.share(f"unauthenticated clients at {self.peer_host}", "")
        refusal = self.node.connections.admit(self, descriptor_of(transport))
        if refusal:
            self.close(refusal)

    def connection_lost(self, exc: Exception | None) -> None:
        # A client that goes away without a word is none of our business; whatever else ends a connection is told.
        if exc is not None and self._transport is not None and not isinstance(exc, ConnectionError):
            about = f"lost connection of {self.peer_host}:{self.peer_port}: "
            self.node.log_limits.write(logging.INFO, self.peer_host, str(exc), about=about)
        self._transport = None
        self._let_go()

    def _let_go(self) -> None:
        """Forget the client, once, whoever ended the connection."""
        if not self._is_abandoned:
            self._is_abandoned = True
            self._waiting.clear()
            self.node.connections.forget(self)
            if self._current is not None:
                self._current.abandon()
                # They name each other, and a request may be large: nothing waits for the collector, which comes rarely.
                self._current = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    @property
    def is_waiting(self) -> bool:
        """Whether a request of this connection is being handled."""
        return self._current is not None

    @property
    def has_gone_unseen(self) -> bool:
        """Has the client ended the connection? The event loop does not notice that while nothing is read."""
        if self._transport is None or (descriptor := descriptor_of(self._transport)) < 0 or not _HAS_POLL:
            return False
        poll = select.poll()
        # Beside errors: that it sends no more, where the system tells.
        poll.register(descriptor, getattr(select, "POLLRDHUP", 0))
        return bool(poll.poll(0))

    @property
    def is_expected_to(self) -> str:
        """What a stranger has to do to stay."""
        return "send a complete request" if self.is_known else "authenticate"

    @property
    def is_known(self) -> bool:
        """Is the client logged in, where it has to be?"""
        return self.session.is_known

    def close(self, reason: str, *, level: int = logging.WARNING) -> None:
        """End the connection; the reason is the one line that the log gets, and a warning unless the end is an ordinary
        one. What was answered before is still sent.
        """
        transport, self._transport = self._transport, None
        if transport is not None:
            self._tell_end(reason, level)
            if self.stalled_since is None:
                transport.close()
                if transport.get_write_buffer_size():
                    self.node.connections.let_linger(transport)
            else:
                transport.abort()
            self._let_go()

    def abort(self, reason: str) -> None:
        """End the connection and drop what the client has not read."""
        transport, self._transport = self._transport, None
        if transport is not None:
            self._tell_end(reason, logging.WARNING)
            transport.abort()
            self._let_go()

    def _tell_end(self, reason: str, level: int) -> None:
        about = f"closed connection of {self.peer_host}:{self.peer_port}: it "
        self.node.log_limits.write(level, self.peer_host, reason, about=about)

    def tell_bug(self, sentence: str) -> None:
        """Log the error that is being handled; clients may cause it as often as they like."""
        self.node.log_limits.write(logging.ERROR, self.peer_host, sentence, exc_info=True)

    def data_received(self, data: bytes) -> None:
        if self._transport is None:
            return
        template = self.commits.template
        if template is not None and len(data) == template.size and self._is_quiet and self._commit_again(data):
            return
        try:
            frames = self._parser.feed(data)
        except DecodeError as error:
            foreign = None if self.partial_bytes else foreign_protocol(data)
            self.close(foreign or f"sent data that is not a request: {error}")
            return
        partial = self.partial_bytes + len(data)
        if frames:
            arrived = sum(map(len, frames))
            partial -= arrived + 4 * len(frames)
            self._waiting.extend(frames)
            self._waiting_bytes += arrived
        if partial and (frames or not self.partial_bytes):
            self.partial_since = self.node.clock.real_monotonic()
        self.partial_bytes = partial
        if frames:
            self._serve_waiting()
        else:
            self._count_held()

    @property
    def _is_quiet(self) -> bool:
        """Whether what arrives now is the start of a request, and one that may be handled at once."""
        return (
            self._current is None
            and not self._waiting
            # Not even the start of a frame is held.
            and not self.partial_bytes
            and self.stalled_since is None
            and not self._is_serving
            and not self._is_in_line
        )

    def _commit_again(self, data: bytes) -> bool:
        """Handle a commit that is like the last one but for its offsets; False if it is anything else."""
        node = self.node
        session = self.session
        if node.faults.is_active or not session.is_unrestricted or session.expects_token:
            return False
        clock = node.clock
        now = clock.monotonic()
        recognised = self.commits.recognise(self, data, now)
        if recognised is None:
            return False
        command, context = recognised
        if not session.may_call(context.endpoint.api.name):
            return False
        self.last_active = now - clock.ahead
        if not node.turns.admit_short(self.share, self.last_active):
            return False
        self._current = context
        try:
            node.groups.submit(command, context)
        except Exception:  # noqa: BLE001 - the edge where a bug becomes an answer, as in dispatch
            self.tell_bug("a commit failed")
            if not context.is_answered:
                context.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
        return True

    def _serve_waiting(self) -> None:
        """Handle the requests that are there: at once while the client has used little of the loop's time."""
        if self._is_serving:
            return
        if self._is_in_line:
            # More has come while the first of it waits for its turn.
            self._after_serving()
            return
        turns, share = self.node.turns, self.share
        clock = self.node.clock
        now = clock.monotonic()
        began = self.last_active = now - clock.ahead
        mark = turns.begin(share, began)
        if mark is not None:
            try:
                while self._has_request and not self._must_rest:
                    self._serve_next(now)
                    if turns.is_over:
                        break
            finally:
                turns.end(share, began, mark)
        if self._has_request:
            self._is_in_line = True
            turns.add(self.share, self._serve_in_line())
        self._after_serving()

    def _serve_in_line(self) -> Steps:
        try:
            while self._has_request:
                if self._must_rest:
                    yield Rest(self.share)
                    continue
                self._serve_next(self.node.clock.monotonic())
                yield None
        finally:
            self._is_in_line = False
            self._after_serving()

    @property
    def _has_request(self) -> bool:
        """Whether there is one that may be handled now."""
        return (
            bool(self._waiting) and self._current is None and self.stalled_since is None and self._transport is not None
        )

    @property
    def _must_rest(self) -> bool:
        """Whether the next request waits because its client kept others waiting."""
        share = self.share
        if not share.is_resting:
            return False
        frame = self._waiting[0]
        return len(frame) > READ_AT_ONCE_BYTES or int.from_bytes(frame[:2]) == share.resting_api

    def _serve_next(self, now: float) -> None:
        frame = self._waiting.popleft()
        self._waiting_bytes -= len(frame)
        self._is_serving = True
        try:
            serve(self.node, self, frame, now)
        finally:
            self._is_serving = False
        if self._is_stranger and self.session.is_known:
            self._is_stranger = False
            self.node.connections.know(self)
            principal = self.session.principal
            self.share = (
                Share(f"{self.peer_host}:{self.peer_port}", f"{self.client_id} at {self.peer_host}")
                if principal == ANONYMOUS
                else self.node.turns.share(principal)
            )

    def _after_serving(self) -> None:
        if self.partial_bytes + self._waiting_bytes + self._reading_bytes != self._held_bytes:
            self._count_held()
        self._regulate_reading()

    def _count_held(self) -> None:
        if self._transport is not None:
            self._held_bytes = self.partial_bytes + self._waiting_bytes + self._reading_bytes
            self.node.connections.hold(self, self._held_bytes)

    def count_reading(self, byte_count: int) -> None:
        """Take note of the size of a request that is being read in steps; 0 when that is done."""
        self._reading_bytes = byte_count
        self._count_held()

    def begin(self, context: RequestContext) -> None:
        self._current = context
        self.client_id = context.client_id

    def answered(self, context: RequestContext, pieces: list[Any], size: int) -> None:
        """The current request has its answer: send it and go on with the next."""
        self._current = None
        on_answer = self.node.on_answer
        if on_answer is not None:
            on_answer(context, size)
        transport = self._transport
        if transport is None:
            return
        if size:
            if len(pieces) == 1:
                transport.write(pieces[0])
            elif size < _JOIN_BELOW:
                transport.write(b"".join(pieces))
            else:
                transport.writelines(pieces)
        if self._waiting:
            self._serve_waiting()

    def send(self, data: bytes) -> None:
        """Send what is no answer to a request: a bare token of SASL."""
        if self._transport is not None:
            self._transport.write(data)

    def allow_frames_of(self, max_bytes: int) -> None:
        """Change the limit of frames, now that the client is known."""
        self._parser.max_frame_bytes = max_bytes

    def pause_writing(self) -> None:
        if self._transport is not None:
            self.node.connections.stalled(self, self._transport.get_write_buffer_size())
        self._regulate_reading()

    def resume_writing(self) -> None:
        self.node.connections.reads_again(self)
        self._serve_waiting()

    def _regulate_reading(self) -> None:
        """Read only while the backlog is small and the client takes its answers."""
        wanted = (
            self.stalled_since is None
            and len(self._waiting) < MAX_WAITING_FRAMES
            and self._waiting_bytes < MAX_WAITING_BYTES
        )
        if self._transport is not None and wanted != self.is_reading:
            self.is_reading = wanted
            if wanted:
                # While nothing was read its client could not go on.
                self.partial_since = self.node.clock.real_monotonic()
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()


def foreign_protocol(first: bytes) -> str | None:
    """What a client did that came to the wrong port, for "it …"; None if its bytes are of no protocol known here.

    >>> foreign_protocol(b"GET / HTTP/1.1")
    'sent an HTTP request to a Kafka port'
    """
    if first.startswith(_TLS_HANDSHAKE):
        return "started a TLS handshake on a port without TLS (the client's security.protocol is wrong)"
    if first.startswith(_HTTP_METHODS):
        return "sent an HTTP request to a Kafka port"
    return None
