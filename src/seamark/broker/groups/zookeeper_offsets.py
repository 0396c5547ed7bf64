"""Offsets of the oldest clients, in ZooKeeper: what OffsetCommit and OffsetFetch version 0 store and read (G3, G4).

``offsets.zookeeper.connect`` turns it on; without it version 0 is not served. The two stores know nothing of each
other: what version 0 commits, later versions do not see (G9). There are no members and no generations here, so any node
answers, and nobody is fenced.

ZooKeeper is asked on a thread of its own, in the order of the requests; the event loop never waits for it. While it
cannot be reached, requests are answered COORDINATOR_NOT_AVAILABLE, which clients retry.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from seamark.errors import ConfigError, SeamarkError
from seamark.readable_log import readable_logger
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from seamark.zookeeper.store import ZookeeperStore

_log = readable_logger("seamark.broker")

SETTING = "offsets.zookeeper.connect"
# Below request.timeout.ms of any client: it shall hear that ZooKeeper is away, not nothing.
_PATIENCE_S = 6.0
# Requests that may wait for ZooKeeper; one connection has at most one of them.
_MOST_WAITING = 10_000

_NONE = ErrorCode.NONE
_AWAY = ErrorCode.COORDINATOR_NOT_AVAILABLE
_UNREADABLE = ErrorCode.UNKNOWN_SERVER_ERROR

T = TypeVar("T")


class ZookeeperOffsets:
    """Owned by the event loop's thread; only ``_work`` runs on the other one."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connect: object) -> None:
        from seamark.zookeeper.store import ZookeeperStore

        self._loop = loop
        try:
            self._store: ZookeeperStore = ZookeeperStore(str(connect), timeout=_PATIENCE_S)
        except ConfigError as error:
            raise ConfigError(SETTING, connect, error.reason) from None
        self._thread = ThreadPoolExecutor(1, "seamark-zookeeper")
        self._waiting = 0
        self._is_closed = False
        # Written by the other thread: until when requests that came have waited for a ZooKeeper that did not answer.
        self._away_until = 0.0
        # The last complaint, which is not repeated.
        self._told = ""

    def commit(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int],
        done: Callable[[dict[TopicPartition, ErrorCode]], None],
    ) -> None:
        """Store offsets; ``done`` is called on the event loop with a code for each."""

        def write() -> dict[TopicPartition, ErrorCode]:
            from seamark.stores.contract import StoredOffset

            wanted = {partition: StoredOffset(offset) for partition, offset in offsets.items()}
            outcomes = self._store.write(group, wanted)
            for error in outcomes.values():
                if error is not None:
                    self._note(error)
            return {each: _code(error) for each, error in outcomes.items()}

        self._submit(write, done, lambda code: dict.fromkeys(offsets, code))

    def fetch(
        self,
        group: str,
        partitions: list[TopicPartition],
        done: Callable[[dict[TopicPartition, int | ErrorCode]], None],
    ) -> None:
        """Read offsets; ``done`` is called on the event loop with what is stored, or the code that says why not."""

        def read() -> dict[TopicPartition, int | ErrorCode]:
            from seamark.stores.contract import BadOffset

            found: dict[TopicPartition, int | ErrorCode] = {}
            for partition, stored in self._store.read_partitions(group, partitions).items():
                if isinstance(stored, BadOffset):
                    _log.error("group %r: %s", group, stored)
                    found[partition] = _UNREADABLE
                else:
                    found[partition] = stored.offset
            return found

        self._submit(read, done, lambda code: dict.fromkeys(partitions, code))

    def _submit(self, ask: Callable[[], T], done: Callable[[T], None], failed: Callable[[ErrorCode], Any]) -> None:
        if self._is_closed or self._waiting >= _MOST_WAITING:
            done(failed(_AWAY))
            return
        self._waiting += 1
        self._thread.submit(self._work, ask, done, failed, time.monotonic())

    def _work(
        self, ask: Callable[[], T], done: Callable[[T], None], failed: Callable[[ErrorCode], Any], came: float
    ) -> None:
        answer: Any
        if came < self._away_until:
            # It waited as long as the one before it, which found ZooKeeper away.
            answer = failed(_AWAY)
        else:
            try:
                answer = ask()
            except SeamarkError as error:
                answer = failed(_code(error))
                self._note(error)
            except Exception:  # noqa: BLE001 - the edge where a bug becomes an answer, as in dispatch
                _log.exception("ZooKeeper could not be asked")
                answer = failed(ErrorCode.UNKNOWN_SERVER_ERROR)
        # The loop is gone when the broker was closed meanwhile, and with it who asked.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._finish, done, answer)

    def _note(self, error: SeamarkError) -> None:
        if _code(error) is _AWAY:
            self._away_until = time.monotonic()
        if str(error) != self._told:
            self._told = str(error)
            _log.warning("%s", error)

    def _finish(self, done: Callable[[Any], None], answer: Any) -> None:
        self._waiting -= 1
        done(answer)

    def close(self) -> None:
        """Answer nobody any more; the session ends on its own thread, which may take a moment."""
        if not self._is_closed:
            self._is_closed = True
            self._thread.submit(self._store.close)
            self._thread.shutdown(wait=False)


def _code(error: SeamarkError | None) -> ErrorCode:
    if error is None:
        return _NONE
    return _AWAY if getattr(error, "is_retriable", False) else _UNREADABLE
