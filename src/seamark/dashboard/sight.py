"""One cluster as the dashboard sees it: looks at it all the time, keeps the last board, history and alerts.

Two threads meet here: the poller's, which makes a board of each look, and those of requests, which read the last one.
A history file or a webhook that fails is shown on the pages and never stops the looking.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass

from seamark.client import Admin
from seamark.counts import counted, number_text, some_of
from seamark.dashboard.board import TROUBLES, Board, GroupRow, findings, make_board
from seamark.errors import SeamarkError
from seamark.monitor.alerts import AlertBook, Trouble
from seamark.monitor.history import Event, GroupSample, History, HistoryError, Point
from seamark.monitor.poller import Look, Poller
from seamark.monitor.watching import Watching
from seamark.monitor.webhook import Webhook
from seamark.rules.status import PATIENT, Status
from seamark.suggest import absent
from seamark.topic_partition import TopicPartition

# What states are judged by; with ten thousand groups more of it would cost hundreds of megabytes.
_WATCHED_S = 2 * PATIENT.seconds
_LEAST_LOOKS, _MOST_LOOKS = 10, 150
_TOLD_FINDINGS = 5
_END_S = 2.0


class NotFound(SeamarkError):
    """There is nothing of that name."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Lag that is too much, whatever the group's state; None is no limit."""

    records: int | None = None
    seconds: float | None = None


class Sight:
    """A cluster called ``name``; ``start`` begins to look, ``close`` ends it."""

    def __init__(
        self,
        name: str,
        admin: Admin,
        history: History,
        *,
        every: float = 10.0,
        reset: str | None = None,
        limits: Limits | None = None,
        webhook: Webhook | None = None,
    ) -> None:
        self.name = name
        self.admin = admin
        self.every = every
        self.webhook = webhook
        self.history_error: str | None = history.not_kept
        self._limits = limits or Limits()
        self._history = history
        self._cluster_id = ""
        self._board: Board | None = None
        # Boards are made by the poller's thread, and by that of a request that acknowledges something.
        self._making = threading.Lock()
        self._kept_rewinds: dict[tuple[str, TopicPartition], int] = {}
        self._is_restored = False
        self._alerts = AlertBook(name)
        looks = min(_MOST_LOOKS, max(_LEAST_LOOKS, math.ceil(_WATCHED_S / every) + 1))
        self._poller = Poller(admin, every=every, reset=reset, on_look=self._looked, watching=Watching(looks))

    def start(self) -> None:
        self._poller.start()

    def look_once(self) -> None:
        """One look on the caller's thread, for those who have not started it."""
        self._poller.look_once()

    def close(self) -> None:
        # A cluster that is away would hold up the end for as long as one call may take.
        self._poller.close(_END_S)
        self.admin.close()

    @property
    def board(self) -> Board | None:
        return self._board

    @property
    def cluster_id(self) -> str:
        """As the cluster calls itself; empty until it was seen."""
        return self._cluster_id

    @property
    def error(self) -> str | None:
        """Why the last look failed, if it did."""
        return self._poller.seen.error

    @property
    def version(self) -> str:
        """Another text after every look, whether it succeeded or not."""
        seen = self._poller.seen
        # A board is made after its look has ended: pages must not be told before it is there.
        made = self._board.look.at_ms if self._board else 0
        return f"{made}.{seen.failures}"

    @property
    def firing(self) -> int:
        return len(self._alerts.firing)

    def group_row(self, board: Board, name: str) -> GroupRow:
        """The row of a group that was seen; NotFound with the nearest name, or with the reason, otherwise."""
        if refusal := board.look.scan.failed.get(name):
            raise NotFound(f"group {name!r} cannot be read: {refusal}")
        if name not in board.views:
            raise NotFound(absent("group", name, board.views, f" on cluster {self.name!r}"))
        return next(row for row in board.rows if row.name == name)

    def sparks(self, groups: list[str], seconds: float) -> dict[str, list[int | None]]:
        now_ms = int(time.time() * 1000)
        try:
            # A dashboard that has just been started draws the little that it knows over the whole width.
            since_ms = self._history.first_look(self._cluster_id, now_ms - int(seconds * 1000))
            return self._history.sparks(self._cluster_id, groups, since_ms, now_ms)
        except HistoryError as error:
            self.history_error = str(error)
            return {}

    def series(self, group: str, seconds: float) -> list[Point]:
        now_ms = int(time.time() * 1000)
        try:
            return self._history.series(self._cluster_id, group, now_ms - int(seconds * 1000), now_ms)
        except HistoryError as error:
            self.history_error = str(error)
            return []

    def events(self, group: str) -> list[Event]:
        try:
            return self._history.events(self._cluster_id, group)
        except HistoryError as error:
            self.history_error = str(error)
            return []

    def acknowledge_rewind(self, group: str) -> None:
        """Somebody knows that offsets of the group went back: it is no trouble any more, until they do again."""
        with self._making:
            partitions = self._poller.watching.acknowledge(group)
            if not partitions or self._board is None:
                return
            look = self._board.look
            self._board = make_board(look, self._poller.watching, self._board)
            text = f"rewind acknowledged by a user: {some_of(list(map(str, partitions)))}"
            said = Event(group, int(time.time() * 1000), "acknowledged", text)
            self._keep(look.at_ms, [], [*self._board.events, said])

    def _looked(self, look: Look) -> None:
        with self._making:
            self._know_cluster()
            board = make_board(look, self._poller.watching, self._board)
            samples = [GroupSample(row.name, row.lag, row.behind.seconds if row.behind else None) for row in board.rows]
            self._keep(look.at_ms, samples, board.events)
            self._board = board
        told = self._alerts.update(self._troubles(board), look.at_ms, look.scan.unreadable)
        if self.webhook is not None:
            self.webhook.put(told)

    def _know_cluster(self) -> None:
        """Ask once what the cluster calls itself, and what an earlier run remembered of it."""
        try:
            if not self._cluster_id:
                self._cluster_id = self.admin.describe_cluster().cluster_id
            if not self._is_restored:
                self._kept_rewinds = self._history.rewinds(self._cluster_id)
                self._poller.watching.restore(self._kept_rewinds)
                self._is_restored = True
        except SeamarkError as error:
            self.history_error = str(error)

    def _keep(self, at_ms: int, samples: list[GroupSample], events: Iterable[Event]) -> None:
        if not self._cluster_id:
            return
        rewinds = self._poller.watching.rewinds
        try:
            self._history.add(self._cluster_id, at_ms, samples, events, every=self.every)
            if self._is_restored and rewinds != self._kept_rewinds:
                self._history.keep_rewinds(self._cluster_id, rewinds)
                self._kept_rewinds = rewinds
            self.history_error = self._history.not_kept
        except HistoryError as error:
            self.history_error = str(error)

    def _troubles(self, board: Board) -> dict[str, Trouble]:
        troubles = {}
        for row in board.rows:
            behind = row.behind.seconds if row.behind else None
            over = self._over(row.lag, behind)
            if row.status not in TROUBLES and not over:
                continue
            # Members may be on their way back; that they are away is no part of an alarm.
            told = [finding for finding in findings(board, row.name) if finding[1] is not Status.NO_MEMBERS]
            sentences = [f"{partition}: {text}" for partition, _, text in told] + over
            status = row.status.value if row.status in TROUBLES else "too far behind"
            troubles[row.name] = Trouble(status, tuple(sentences[:_TOLD_FINDINGS]), row.lag, behind)
        return troubles

    def _over(self, lag: int | None, behind: float | None) -> list[str]:
        limits = self._limits
        over = []
        if limits.records is not None and lag is not None and lag > limits.records:
            over.append(f"it is {counted(lag, 'record')} behind, more than {number_text(limits.records)}")
        if limits.seconds is not None and behind is not None and behind > limits.seconds:
            over.append(f"it is {behind:.0f} s behind, more than {limits.seconds:.0f} s")
        return over
