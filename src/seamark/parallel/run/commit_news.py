"""What is told of commits: to the user's callback, to the log and to the status."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from seamark.counts import counted
from seamark.parallel.core.ports import ToCommit
from seamark.parallel.run.trouble_log import TroubleLog
from seamark.readable_log import readable_logger
from seamark.topic_partition import TopicPartition

_log = readable_logger("seamark.parallel")

OnCommit = Callable[[Mapping[Any, int], BaseException | None], object]


class CommitNews:
    """The callback is called once for what was accepted, and once for each error; what it raises is logged."""

    def __init__(self, on_commit: OnCommit | None) -> None:
        self._on_commit = on_commit
        self._refusals = TroubleLog("Commits are accepted again")
        self.last_seconds = 0.0

    def ended(
        self,
        offsets: Mapping[TopicPartition, ToCommit],
        results: Mapping[TopicPartition, BaseException | None],
        seconds: float,
        now: float,
    ) -> None:
        """A commit that took so long has ended."""
        self.last_seconds = seconds
        outcomes: dict[int, tuple[BaseException | None, dict[TopicPartition, int]]] = {}
        for partition, to_commit in offsets.items():
            # A partition that the answer does not mention was refused.
            error = results[partition] if partition in results else LookupError("the answer does not mention it")
            outcomes.setdefault(id(error), (error, {}))[1][partition] = to_commit.offset
        for error, committed in outcomes.values():
            if error is not None:
                self._refusals.failed(f"A commit of {counted(len(committed), 'partition')} was refused", error, now)
            self._tell(committed, error)
        if all(error is None for error, _ in outcomes.values()):
            self._refusals.succeeded()

    def _tell(self, committed: Mapping[TopicPartition, int], error: BaseException | None) -> None:
        if self._on_commit is None:
            return
        try:
            self._on_commit(committed, error)
        except Exception:  # noqa: BLE001 - user code: a callback that fails must not stop commits
            _log.exception("The on_commit callback failed.")
