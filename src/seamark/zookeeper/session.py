"""One session with ZooKeeper through kazoo: many requests under way at once, and kazoo's errors as ours.

``each`` is the one way to ask: it keeps a bounded number of requests in flight and gives the answers in the order of
the questions, so that a hundred thousand nodes cost neither a round trip each nor memory for all. A request whose
connection broke is asked again, within the session's patience; every request here may be made twice without harm.

Kazoo is imported when a session is made; its calls never run on an event loop's thread, they block.
"""

from __future__ import annotations

import contextlib
import logging
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from seamark.errors import ClosedError, ConfigError, MissingExtra
from seamark.readable_log import readable_logger
from seamark.stores.errors import StoreError, StoreRefused, StoreUnavailable
from seamark.zookeeper.security import checked_sasl, checked_tls

if TYPE_CHECKING:
    from kazoo.handlers.threading import SequentialThreadingHandler

# Requests under way in a session: enough that neither side waits for the other. Kazoo wakes its thread with a byte for
# each into a pipe of about 270, which nobody empties while there is no connection: more would block for good.
_IN_FLIGHT = 128
_PAUSE_S = 0.05
_SESSION_S = 10.0
# For ever, and soon: whoever waits has a timeout of his own.
_RECONNECT = {"max_tries": -1, "delay": 0.1, "backoff": 2, "max_delay": 1.0}

# Where kazoo tells of every attempt to connect; without a handler of its own Python would print that on stderr.
_log = readable_logger("seamark.zookeeper")
_log.addHandler(logging.NullHandler())

T = TypeVar("T")


class ZookeeperSession:
    """Connects when it is first used; may be used from any thread.

    ``connect`` is ZooKeeper's connect string, ``host:port,host:port/chroot``. ``digest`` is ``user:password``;
    with it, nodes made here may be changed by that user only. ``sasl`` (``mechanism``, ``username``, ``password``) and
    ``tls`` (``ca``, ``certfile``, ``keyfile``, ``keyfile_password``, ``verify_certs``, ``check_hostname``) are kazoo's.
    """

    def __init__(
        self,
        connect: str,
        *,
        timeout: float = 15.0,
        digest: str | None = None,
        sasl: Mapping[str, Any] | None = None,
        tls: Mapping[str, Any] | None = None,
    ) -> None:
        self.connect = check_connect(connect)
        self.name = f"zookeeper {self.connect}"
        self._timeout_s = timeout
        self._digest = digest
        self._sasl = checked_sasl(sasl)
        self._tls = checked_tls(tls)
        self._lock = threading.Lock()
        self._client: Any = None
        # Of the client that was started last.
        self._complaints: Complaints
        self._is_closed = False
        # Whether the server can be asked for many nodes at once; None until it was tried.
        self.reads_many: bool | None = None
        # Requests that any thread has under way; guarded by the lock.
        self._under_way = 0
        try:
            from kazoo import exceptions
        except ImportError:
            raise MissingExtra("keeping offsets in ZooKeeper", "zookeeper") from None
        self.missing: type[Exception] = exceptions.NoNodeError
        self.exists: type[Exception] = exceptions.NodeExistsError
        self.not_empty: type[Exception] = exceptions.NotEmptyError
        self._unsigned: type[Exception] = exceptions.SessionClosedRequireSaslError
        self._broken = (
            exceptions.ConnectionLoss, exceptions.SessionExpiredError, exceptions.OperationTimeoutError,
            exceptions.ConnectionClosedError, exceptions.SessionMovedError,
        )  # fmt: skip

    @property
    def client(self) -> Any:
        """The connected kazoo client; StoreUnavailable when there is no connection within the timeout."""
        with self._lock:
            if self._is_closed:
                raise ClosedError(f"{self.name} was closed")
            if self._client is None:
                self._client = self._started()
            return self._client

    def _started(self) -> Any:
        from kazoo.client import KazooClient
        from kazoo.exceptions import KazooException

        complaints = self._complaints = Complaints()
        options: dict[str, Any] = {"handler": complaints.threads(), "logger": complaints.logger, **self._tls}
        if self._digest is not None:
            from kazoo.security import CREATOR_ALL_ACL

            options |= {"auth_data": [("digest", self._digest)], "default_acl": CREATOR_ALL_ACL}
        if self._sasl is not None:
            options["sasl_options"] = dict(self._sasl)
        try:
            client = KazooClient(self.connect, timeout=_SESSION_S, connection_retry=_RECONNECT, **options)
            # Not ``start``, which warns of a chroot that does not exist; the first write makes it.
            is_there = client.start_async().wait(self._timeout_s)
        except (ValueError, TypeError, KazooException) as error:
            raise StoreRefused(self.name, f"kazoo refuses its settings: {error}") from error
        if not is_there:
            failure = self._refusal(client) or self._unavailable(f"no connection within {self._timeout_s:g} s")
            _end(client)
            raise failure
        return client

    def _refusal(self, client: Any) -> StoreRefused | None:
        """Why the client tries no more, if that is so."""
        end = self._complaints.end
        if client.client_state == "AUTH_FAILED" or isinstance(end, self._unsigned):
            return StoreRefused(self.name, "the server rejected the authentication")
        return None if end is None else StoreRefused(self.name, f"the session ended: {_told(end)}")

    def _unavailable(self, what: str) -> StoreUnavailable:
        return StoreUnavailable(self.name, f"{what} ({self._complaints.last})" if self._complaints.last else what)

    def each(self, ask: Callable[[Any, T], Any], questions: Iterable[T]) -> Iterator[tuple[T, Any]]:
        """Ask about each with ``ask(client, question)``, which returns kazoo's asynchronous result.

        Gives question and answer in order; an answer that kazoo raises about the node itself is given as the exception.
        """
        client = self.client
        under_way: deque[tuple[T, Any]] = deque()
        try:
            for question in questions:
                while not self._may_ask(client, is_first=not under_way):
                    yield self._take_answer(client, ask, under_way)
                self._count(1)
                under_way.append((question, ask(client, question)))
            while under_way:
                yield self._take_answer(client, ask, under_way)
        finally:
            self._count(-len(under_way))

    def _count(self, change: int) -> None:
        with self._lock:
            self._under_way += change

    def _may_ask(self, client: Any, *, is_first: bool) -> bool:
        """Whether one more may be under way; who has none waits until there is a connection, or raises."""
        if not is_first:
            return client.connected and self._under_way < _IN_FLIGHT
        self._wait_for_connection(client, time.monotonic() + self._timeout_s)
        return True

    def _wait_for_connection(self, client: Any, give_up_at: float) -> None:
        while not client.connected:
            if self._is_closed:
                raise ClosedError(f"{self.name} was closed")
            if refusal := self._refusal(client):
                raise refusal
            if time.monotonic() >= give_up_at:
                raise self._unavailable(f"the connection was lost for {self._timeout_s:g} s")
            time.sleep(_PAUSE_S)

    def _take_answer(self, client: Any, ask: Callable[[Any, T], Any], under_way: deque[tuple[T, Any]]) -> tuple[T, Any]:
        """The first question that is under way, with its answer."""
        from kazoo.exceptions import KazooException
        from kazoo.handlers.threading import KazooTimeoutError

        give_up_at = time.monotonic() + self._timeout_s
        while True:
            question, result = under_way[0]
            answer: Any
            try:
                answer = result.get(timeout=max(0.0, give_up_at - time.monotonic()))
            except self._broken as error:
                if time.monotonic() + _PAUSE_S >= give_up_at:
                    raise StoreUnavailable(self.name, f"the connection was lost: {_told(error)}") from error
                self._ask_again(client, ask, under_way, give_up_at)
                continue
            except KazooTimeoutError as error:
                raise StoreUnavailable(self.name, f"no answer within {self._timeout_s:g} s") from error
            except (KazooException, struct.error) as error:
                # Of the node, or an answer that cannot be read.
                answer = error
            under_way.popleft()
            self._count(-1)
            return question, answer

    def _ask_again(
        self, client: Any, ask: Callable[[Any, T], Any], under_way: deque[tuple[T, Any]], give_up_at: float
    ) -> None:
        """Once there is a connection, ask everything that went down with the last one."""
        time.sleep(_PAUSE_S)
        self._wait_for_connection(client, give_up_at)
        for place, (question, result) in enumerate(under_way):
            if result.ready() and isinstance(result.exception, self._broken):
                under_way[place] = (question, ask(client, question))

    def fault(self, answer: Exception, what: str) -> StoreError:
        """The error for an answer that is an exception about one node."""
        return StoreRefused(self.name, f"{what}: {_told(answer)}")

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            client, self._client = self._client, None
        if client is not None:
            _end(client)


class Complaints(logging.Handler):
    """Why a kazoo client has no connection: its last complaint, and the error that ended its thread.

    Kazoo tells its log and goes on trying; an answer that it does not expect while it signs in ends its thread with a
    traceback on stderr, and whoever waits for a connection waits in vain. So this listens to one client, through the
    logger and the handler of threads that the client is given.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = ""
        self.end: BaseException | None = None
        self.logger = logging.Logger(_log.name)
        self.logger.parent = _log
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        said = record.getMessage()
        # Told after the complaint, and says less.
        if said != "Transition to CONNECTING":
            self.last = said

    def threads(self) -> SequentialThreadingHandler:
        from kazoo.handlers.threading import SequentialThreadingHandler

        complaints = self

        class NotingThreads(SequentialThreadingHandler):  # type: ignore[misc]
            def spawn(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
                return super().spawn(complaints.noting, func, *args, **kwargs)

        return NotingThreads()

    def noting(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        try:
            func(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - whatever ends the thread is what has to be told
            self.end = error


def check_connect(connect: str) -> str:
    """A connect string as it is meant; ConfigError says what is wrong with it.

    >>> check_connect(" zk1:2181,zk2/kafka/ ")
    'zk1:2181,zk2/kafka'
    """
    option = "zookeeper.connect"
    text = connect.strip()
    hosts, slash, chroot = text.partition("/")
    if not hosts or any(not host.strip() or host.strip().startswith(":") for host in hosts.split(",")):
        raise ConfigError(option, connect, "must be host:port,host:port/chroot")
    for host in hosts.split(","):
        port = "" if host.strip().endswith("]") else host.strip().rpartition(":")[2] if ":" in host else ""
        if port and not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536):
            raise ConfigError(option, connect, f"{host.strip()!r} must have a port from 1 to 65535")
    chroot = chroot.rstrip("/")
    if chroot.startswith("/") or "//" in chroot:
        raise ConfigError(option, connect, "the chroot has an empty part")
    return f"{hosts}/{chroot}" if slash and chroot else hosts


def _end(client: Any) -> None:
    from kazoo.exceptions import WriterNotClosedException

    # A session without a connection ends by itself, at the server.
    with contextlib.suppress(WriterNotClosedException):
        client.stop()
    client.close()


def _told(error: BaseException) -> str:
    said = str(error)
    kind = type(error).__name__.removesuffix("Error")
    return f"{kind} {said}" if said and said != "()" else kind
