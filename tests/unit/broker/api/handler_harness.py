"""Handlers at work on a cluster in memory: requests and answers go through dispatch and the codec, without a socket.

``Served`` is the ``World`` of the groups whose nodes have all that a handler may use (``Services``). A ``Client`` is a
connection that keeps what it is answered. Nothing happens by itself: ``ask`` lets the loop come to rest, ``send`` does
not, so that a test may change the world in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from seamark.acls import Operation, ResourceType
from seamark.broker.api.endpoints import load_endpoints
from seamark.broker.log.partition import Partition
from seamark.broker.net.commit_template import CommitMemory
from seamark.broker.net.context import RequestContext
from seamark.broker.net.dispatch import serve
from seamark.broker.net.fetch_sessions import FetchSessions
from seamark.broker.net.listener import Address, Listener
from seamark.broker.security.gatekeeper import Gatekeeper
from seamark.broker.security.security import Security
from seamark.broker.security.sessions import Session
from seamark.broker.sharing.answers_in_progress import AnswersInProgress
from seamark.broker.sharing.fetch_budget import FetchBudget
from seamark.broker.sharing.reading_thread import OneAtATime
from seamark.broker.sharing.turns import Share
from seamark.errors import SeamarkError
from seamark.log_limits import LogLimits
from seamark.readable_log import readable_logger
from seamark.storage.aside import Aside
from seamark.wire.protocol.apis import api
from seamark.wire.protocol.frames import decode_response, encode_request
from seamark.wire.schema.schema import Message
from tests.unit.broker.groups.group_harness import World

# An operation, a type of resource and its name, in words.
Rights = set[tuple[str, str, str]]


class Limited(Session):
    """The session of a client with these rights and no others."""

    def __init__(self, rights: Rights) -> None:
        super().__init__()
        self.is_unrestricted = False
        self._rights = rights

    def authorize(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        return (operation.name, resource_type.name, name) in self._rights

    def authorize_some(self, operation: Operation, resource_type: ResourceType) -> bool:
        return any(right[:2] == (operation.name, resource_type.name) for right in self._rights)


class ReadingInPlace:
    """Stands in for the reading thread: the work is done at once, and told in a later turn of the loop."""

    def __init__(self, soon: list[Callable[[], None]]) -> None:
        self._soon = soon

    def begin(self, aside: Aside[Any], done: Callable[[], None]) -> None:
        aside.run()
        self._soon.append(done)


class Served(World):
    """``failures`` are those that a server would tell in its log, by place."""

    def __init__(
        self, nodes: int = 1, settings: Mapping[str, object] | None = None, security: Security | None = None
    ) -> None:
        super().__init__(nodes, settings)
        self.failures: list[tuple[str, SeamarkError]] = []
        endpoints = load_endpoints()
        self.security = Gatekeeper(security)
        unfolding = OneAtATime()
        answers_in_progress = AnswersInProgress()
        for number, node in enumerate(self.cluster.nodes):
            listener = Listener("PLAINTEXT", "127.0.0.1", 9092 + number)
            vars(node).update(
                rack=None,
                bootstrap=f"127.0.0.1:{listener.port}",
                listeners=[listener],
                address_for=lambda _caller, listener=listener: Address(listener.host, listener.port),
                endpoints=endpoints,
                security=self.security,
                log_limits=LogLimits(readable_logger("seamark.broker")),
                unfolding=unfolding,
                answers_in_progress=answers_in_progress,
                connections=[],
                faults=SimpleNamespace(is_active=False),
                fetch_sessions=FetchSessions(node),  # type: ignore[arg-type]
                fetch_budget=FetchBudget(self.settings, []),
                reading_thread=ReadingInPlace(self.soon),
                zookeeper_offsets=None,
                note_failure=lambda place, error: self.failures.append((place, error)),
                note_storage_failure=self._note_storage_failure,
            )

    def _note_storage_failure(self, partition: Partition, error: SeamarkError) -> None:
        self.failures.append((partition.name, error))

    def client(self, node: int = 0, rights: Rights | None = None) -> Client:
        """A client with these rights; without any, one that the broker's security treats as it does strangers."""
        session = self.security.new_session() if rights is None else Limited(rights)
        session.opened("127.0.0.1", None)
        return Client(self, node, session)


class Client:
    """A connection to one node that keeps its answers."""

    def __init__(self, world: Served, node: int, session: Session) -> None:
        self._world = world
        self.node: Any = world.cluster.nodes[node]
        self.session = session
        self.listener = Listener("PLAINTEXT", "127.0.0.1", 9092 + node)
        self.local_host = self.peer_host = "127.0.0.1"
        self.peer_port = 40_000
        self.share = Share("the client")
        self.commits = CommitMemory()
        self.max_frame_bytes = session.max_frame_bytes
        self.is_open = True
        # Why it was closed.
        self.closed = ""
        self.contexts: list[RequestContext] = []
        self._versions: list[tuple[type[Message], int]] = []
        self._answers: list[bytes] = []

    def send(self, request: Message, version: int) -> None:
        """Have the request begun; what it waits for has not come when this returns."""
        self._versions.append((api(type(request).api_key).response, version))
        frame = encode_request(request, version, len(self._versions), "c")[4:]
        serve(self.node, self, frame, self._world.clock.monotonic())

    def ask(self, request: Message, version: int) -> Any:
        """The answer, once nothing more happens by itself."""
        self.send(request, version)
        self._world.settle()
        return self.answer

    @property
    def answer(self) -> Any:
        """The one answer since this was last looked at; None for a request that has none yet."""
        if not self._answers:
            return None
        [content] = self._answers
        self._answers.clear()
        response, version = self._versions[-1]
        return decode_response(response, content[4:], version)[1]

    def leave(self) -> None:
        """Close the connection from the client's side."""
        self.is_open = False
        for context in self.contexts:
            context.abandon()

    # -- what a request asks of its connection

    def begin(self, context: RequestContext) -> None:
        self.contexts.append(context)

    def count_reading(self, byte_count: int) -> None:
        """Nothing is held of requests here."""

    def answered(self, context: RequestContext, pieces: list[Any], size: int) -> None:
        self.contexts.remove(context)
        if self.is_open and size:
            self._answers.append(b"".join(pieces))

    def allow_frames_of(self, max_bytes: int) -> None:
        self.max_frame_bytes = max_bytes

    def close(self, reason: str, *, level: int = 0) -> None:
        self.closed = reason
        self.is_open = False

    def tell_bug(self, sentence: str) -> None:
        raise AssertionError(sentence)
