"""Incremental fetch sessions with one node: what the next request says, and what an answer makes of the session (K16).

A full request (epoch 0) lists every partition and may open a session; later ones (epochs 1, 2, … and 1 again behind the
last) list only what changed, what is forgotten, and what is replaced because its topic was made anew. A session that
the node does not know starts over with id 0; any other mishap closes the old session and opens a new one in the same
request (old id, epoch 0). An answer with session id 0 means that the node keeps no session: all requests stay full.

A pure core: it keeps what the node believes and never what anybody wants.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode

NO_SESSION = 0
FULL = 0
CLOSING = -1
_LAST_EPOCH = 2**31 - 1
_NO_TOPIC_ID = bytes(16)


class FetchTarget(NamedTuple):
    """What is asked of one partition; a change of any field is told to the node."""

    topic_id: bytes
    offset: int
    leader_epoch: int
    max_bytes: int


class SessionRequest(NamedTuple):
    """The part of a Fetch request that the session decides."""

    session_id: int
    epoch: int
    send: Mapping[TopicPartition, FetchTarget]
    # Partitions with the topic ids they were asked under.
    forget: tuple[tuple[TopicPartition, bytes], ...] = ()
    replace: tuple[tuple[TopicPartition, bytes], ...] = ()

    @property
    def is_full(self) -> bool:
        return self.epoch in (FULL, CLOSING)


class Verdict(Enum):
    ACCEPTED = "the response matches the session"
    REJECTED = "drop the response"
    REJECTED_REFRESH = "drop the response, and refresh metadata"


class FetchSession:
    """Our side of the session with one node; one request is outstanding at a time."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.session_id = NO_SESSION
        self.epoch = FULL
        # What the node would send data for, once the request that was built last has reached it.
        self.partitions: dict[TopicPartition, FetchTarget] = {}
        self.problem = ""
        self._used_topic_ids: bool | None = None

    @property
    def is_open(self) -> bool:
        return self.session_id != NO_SESSION

    def build(self, wanted: Mapping[TopicPartition, FetchTarget]) -> SessionRequest:
        """The next request, for a node that is to send data for exactly the wanted partitions."""
        uses_topic_ids = all(target.topic_id != _NO_TOPIC_ID for target in wanted.values())
        if self.epoch != FULL and self._used_topic_ids is not None and uses_topic_ids != self._used_topic_ids:
            # A session speaks either in names or in ids (K7).
            self._reopen()
        self._used_topic_ids = uses_topic_ids
        before = self.partitions
        self.partitions = dict(wanted)
        if self.epoch == FULL:
            return SessionRequest(self.session_id, FULL, self.partitions)
        send = {partition: target for partition, target in wanted.items() if before.get(partition) != target}
        forget = tuple((partition, target.topic_id) for partition, target in before.items() if partition not in wanted)
        replace = tuple(
            (partition, before[partition].topic_id)
            for partition, target in send.items()
            if partition in before and before[partition].topic_id != target.topic_id
        )
        return SessionRequest(self.session_id, self.epoch, send, forget, replace)

    def closing_request(self) -> SessionRequest | None:
        """What tells the node that the session is over, if there is one."""
        return SessionRequest(self.session_id, CLOSING, {}) if self.is_open else None

    def answered(
        self,
        request: SessionRequest,
        error: ErrorCode,
        session_id: int,
        returned: Collection[TopicPartition | None],
        throttle_ms: int = 0,
    ) -> Verdict:
        """Judge an answer by its error, its session id and its partitions; None stands for an unknown topic id."""
        if error is not ErrorCode.NONE:
            self.problem = f"the node returned {error.name}"
            if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._forget()
            else:
                self._reopen()
            return Verdict.REJECTED_REFRESH if error is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR else Verdict.REJECTED
        self.problem = self._mismatch(request, returned)
        if request.is_full:
            if not returned and self.partitions and throttle_ms > 0:
                self.problem = "the node throttled a full fetch and returned nothing"
            if self.problem:
                self._forget()
                return Verdict.REJECTED
        elif self.problem:
            self._reopen()
            return Verdict.REJECTED
        if session_id == NO_SESSION:
            self._forget()
        else:
            self.session_id = session_id
            self.epoch = 1 if request.epoch in (FULL, _LAST_EPOCH) else request.epoch + 1
        return Verdict.ACCEPTED

    def _mismatch(self, request: SessionRequest, returned: Collection[TopicPartition | None]) -> str:
        """What is wrong with the returned partitions (K12)."""
        extra = [partition for partition in returned if partition not in self.partitions]
        missing = [partition for partition in self.partitions if partition not in returned] if request.is_full else []
        if not extra and not missing:
            return ""
        what = "; ".join(
            f"{word} {', '.join('an unknown topic id' if partition is None else str(partition) for partition in some)}"
            for word, some in (("unexpected", extra), ("missing", missing))
            if some
        )
        if request.is_full:
            return f"the response to a full fetch of {_listed(self.partitions)} has other partitions: {what}"
        return (
            f"the response to an incremental fetch has partitions outside the session: {what} (sent: "
            f"{_listed(request.send)}; forgotten: {_listed(partition for partition, _ in request.forget)}; replaced: "
            f"{_listed(partition for partition, _ in request.replace)})"
        )

    def failed(self) -> None:
        """No answer came: the node may or may not have seen the request."""
        self.problem = "no response"
        self._reopen()

    def _forget(self) -> None:
        self.session_id = NO_SESSION
        self.epoch = FULL

    def _reopen(self) -> None:
        self.epoch = FULL


def _listed(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(map(str, partitions)) or "none"
