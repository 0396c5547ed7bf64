"""The callbacks of asynchronous commits: each runs once, in the order of the commits, whatever another one raises.

Kept apart from the core, which knows commits, not functions. Used by the caller's thread, except ``keep``.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from seamark.client.consumer.steps import Call, OnIo, UserCode
from seamark.client.core.commits.commits import Commit, Commits
from seamark.client.errors import ClientError
from seamark.client.records import Offset
from seamark.readable_log import readable_logger
from seamark.topic_partition import TopicPartition

log = readable_logger("seamark.client")

CommitCallback = Callable[[dict[TopicPartition, Offset], ClientError | None], Any]
OnIoThread = Callable[[Callable[[], list[Commit]]], Coroutine[Any, Any, list[Commit]]]


class CommitCallbacks:
    def __init__(self, commits: Commits, on_io: OnIoThread) -> None:
        self._commits = commits
        self._on_io = on_io
        self._functions: dict[Commit, CommitCallback] = {}

    def keep(self, commit: Commit, callback: CommitCallback) -> None:
        """On the I/O thread, before an answer can come."""
        self._functions[commit] = callback

    def run(self) -> Call[Exception | None]:
        """I15: run what is due; F30: nothing once the identity was taken, which is raised.

        The first error of a callback is returned, for the caller to raise; further ones are logged. What ends the whole
        call, an interrupt or a cancellation, leaves the remaining callbacks to the next one.
        """
        self._commits.raise_if_fenced()
        if not self._commits.has_finished:
            return None
        first: Exception | None = None
        due: list[Commit] = yield OnIo(self._on_io(self._commits.finished))
        try:
            while due:
                commit = due.pop(0)
                callback = self._functions.pop(commit, None)
                if callback is None:
                    continue
                try:
                    yield UserCode(partial(callback, commit.offsets, commit.error))
                except Exception as error:  # noqa: BLE001 - raised by the caller when all have run
                    if first is None:
                        first = error
                    else:
                        log_error(error)
        except BaseException:
            self._commits.hand_back(due)
            if first is not None:
                log_error(first)
            raise
        return first


def log_error(error: Exception) -> None:
    """Something else is raised."""
    log.error("a commit callback failed", exc_info=error)


@contextmanager
def raised_at_the_end(error: Exception | None) -> Iterator[None]:
    """Raise the error of a callback when this is done, or log it if something else is raised."""
    try:
        yield
    except BaseException:
        if error is not None:
            log_error(error)
        raise
    if error is not None:
        raise error
