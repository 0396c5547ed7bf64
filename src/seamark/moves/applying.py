"""Makes a planned move: look again, write down that it begins, write, read both sides back, write down that it is done.

A group is moved as a whole or, if anything is not as planned, not begun at all, with the reason in its outcome. After a
crash or a lost connection the same call goes on: groups that the journal knows as moved are left alone, the offsets of
those that had begun are compared with the plan again. An offset is written only where the target still has what it had
when the plan was made, and only to what the plan says: at no point can a wrong one be written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from seamark.errors import SeamarkError
from seamark.moves.account import ALREADY, FAILED, HELD, MOVED, Account, GroupOutcome, Summary
from seamark.moves.errors import MoveInterrupted
from seamark.moves.journal import Journal, Progress
from seamark.moves.log_check import LogCheck
from seamark.moves.move import GroupMove, as_stored, good_offsets
from seamark.moves.move_file import MoveFile
from seamark.moves.read_back import lost_connection, unmade
from seamark.moves.sides import Side
from seamark.plans.decisions import Standing, describe, difference, standing_of
from seamark.plans.errors import some
from seamark.plans.plan import Change, is_same
from seamark.stores.contract import GroupOffsets, Outcomes


class _Numbered(NamedTuple):
    number: int
    move: GroupMove


@dataclass(slots=True)
class Mover:
    """One application of one plan; ``source_is_fresh`` says that the plan was made just now, by this process."""

    plan: MoveFile
    source: Side
    target: Side
    journal: Journal
    now_ms: Callable[[], int]
    partial: bool = False
    allow_active_source: bool = False
    source_is_fresh: bool = False
    allow_outside_log: bool = False
    _account: Account = field(init=False)
    _log_check: LogCheck = field(init=False)
    _lost_topics: dict[str, str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._account = Account(self.plan.totals.groups)
        # Both sides mean the same logs where one of them has none.
        self._log_check = LogCheck(self.target if self.target.admin is not None else self.source)

    @property
    def summary(self) -> Summary:
        return self._account.summary

    def run(self) -> Summary:
        """Move what is left of the plan, and give the counts alone."""
        for _ in self.outcomes():
            pass
        return self.summary

    def outcomes(self) -> Iterator[GroupOutcome]:
        """Move what is left of the plan, and say of each group what came of it.

        WrongCluster comes before anything is changed, MoveInterrupted when a side stops answering.
        """
        self.source.check_is(self.plan.header.source)
        self.target.check_is(self.plan.header.target)
        self._lost_topics = self._changed_topics()
        numbered = (_Numbered(number, move) for number, move in enumerate(self.plan))
        yield from self._account.through(numbered, lambda item: len(item.move.moves), self._apply, self._interrupted)

    def _interrupted(self, error: SeamarkError) -> MoveInterrupted:
        moved, begun = self.journal.count(Progress.MOVED), self.journal.count(Progress.BEGUN)
        unsure = f", {begun} more begun and not verified" if begun else ""
        how_far = f"groups moved: {moved} of {self.plan.totals.groups}{unsure}"
        return MoveInterrupted(error, how_far, "use --resume to continue")

    def _changed_topics(self) -> dict[str, str]:
        """Topics that are not those of the plan any more, with what is wrong."""
        logs = self.target if self.target.admin is not None else self.source
        planned = self.plan.totals.topic_ids
        now = logs.topics(planned)
        lost = {}
        for topic, topic_id in planned.items():
            if topic not in now:
                lost[topic] = f"topic {topic!r} no longer exists"
            elif "" not in (topic_id, now[topic].topic_id) and now[topic].topic_id != topic_id:
                lost[topic] = (
                    f"topic {topic!r} was recreated since the plan was made, its offsets refer to other records"
                )
        return lost

    def _apply(self, portion: Sequence[_Numbered]) -> None:
        waiting = []
        for numbered in portion:
            if self.journal.state(numbered.number) is Progress.MOVED:
                self._account.say(numbered.move, ALREADY, "moved by an earlier run")
            elif obstacle := self._obstacle(numbered.move):
                self._hold(numbered, obstacle)
            else:
                waiting.append(numbered)
        if waiting:
            self._move(self._checked(waiting))

    def _obstacle(self, move: GroupMove) -> str:
        lost = [
            self._lost_topics[change.partition.topic]
            for change in move.changes
            if change.partition.topic in self._lost_topics
        ]
        return move.obstacle(partial=self.partial) or (lost[0] if lost else "")

    def _checked(self, waiting: list[_Numbered]) -> list[tuple[_Numbered, list[Change]]]:
        """What has to be written, of the groups that may be; the others are reported."""
        names = [numbered.move.to_group for numbered in waiting]
        obstacles = self.target.obstacles(names)
        stored = self.target.read(names)
        here: Mapping[str, str] = {}
        source: Mapping[str, GroupOffsets] = {}
        if not self.source_is_fresh:
            groups = [numbered.move.group for numbered in waiting]
            here = {} if self.allow_active_source else self.source.obstacles(groups)
            source = {} if self.allow_active_source else self.source.read(groups)
        # What was planned just now was aimed at these logs just now.
        if is_log_checked := not (self.source_is_fresh or self.allow_outside_log):
            self._log_check.look_at(change for numbered in waiting for change in numbered.move.changes)
        ready, done = [], []
        for numbered in waiting:
            move = numbered.move
            committed = good_offsets(stored[move.to_group])
            standings = [(change, standing_of(change, committed.get(change.partition))) for change in move.changes]
            stale = [
                f"{change.partition} is at {describe(committed.get(change.partition))} on the target, "
                f"not at {describe(change.before)}"
                for change, standing in standings
                if standing is Standing.STALE
            ]
            left = [change for change, standing in standings if standing is Standing.OPEN]
            if stale:
                self._hold(numbered, f"changed since the plan was made: {some(stale)}")
            elif problem := self._source_moved(move, source):
                self._hold(numbered, problem)
            elif not left:
                done.append(numbered)
            elif problem := self._not_now(move, left, obstacles, here, is_log_checked):
                self._hold(numbered, problem)
            else:
                ready.append((numbered, left))
        # Nothing to write is as good as written: the target is as planned.
        self.journal.note(Progress.MOVED, [numbered.number for numbered in done], now_ms=self.now_ms())
        for numbered in done:
            self._account.say(numbered.move, ALREADY)
        return ready

    def _not_now(
        self,
        move: GroupMove,
        left: Sequence[Change],
        there: Mapping[str, str],
        here: Mapping[str, str],
        is_log_checked: bool,
    ) -> str:
        """Who or what stands in the way of writing; empty if nothing does."""
        busy = there.get(move.to_group) or here.get(move.group, "")
        return busy or (self._log_check.problem(left) if is_log_checked else "")

    def _source_moved(self, move: GroupMove, source: Mapping[str, GroupOffsets]) -> str:
        if move.group not in source:
            return ""
        now = good_offsets(source[move.group])
        moved = [
            f"{partition_move.partition} {difference(now.get(partition_move.partition), partition_move.source)}"
            for partition_move in move.moves
            if partition_move.change is not None
            and not is_same(now.get(partition_move.partition), partition_move.source)
        ]
        return f"the source has changed since the plan was made: {some(moved)}; make a new plan" if moved else ""

    def _move(self, ready: list[tuple[_Numbered, list[Change]]]) -> None:
        if not ready:
            return
        self.journal.note(Progress.BEGUN, [numbered.number for numbered, _ in ready], now_ms=self.now_ms())
        outcomes: dict[str, Outcomes] = {}
        failure: SeamarkError | None = None
        items = (
            (numbered.move.to_group, {change.partition: as_stored(change.after) for change in left if change.after})
            for numbered, left in ready
        )
        try:
            for group, outcome in self.target.store.write_many(items):
                outcomes[group] = outcome
                if failure := lost_connection(outcome):
                    # Every further group would wait for its own timeout.
                    break
        except SeamarkError as error:
            # What was written before it is found by reading back.
            failure = error
        there = self.target.read([numbered.move.to_group for numbered, _ in ready])
        source = {} if self.allow_active_source else self.source.read([numbered.move.group for numbered, _ in ready])
        finished = []
        for numbered, left in ready:
            move = numbered.move
            reason = unmade(left, there[move.to_group], outcomes.get(move.to_group, {}), failure)
            if reason:
                self._account.say(move, FAILED, reason)
            elif reason := self._source_moved(move, source):
                self._account.say(move, FAILED, f"{reason}, or roll back", written=len(left))
            else:
                finished.append((numbered, left))
        self.journal.note(Progress.MOVED, [numbered.number for numbered, _ in finished], now_ms=self.now_ms())
        for numbered, left in finished:
            self._account.say(numbered.move, MOVED, written=len(left))

    def _hold(self, numbered: _Numbered, reason: str) -> None:
        is_begun = self.journal.state(numbered.number) is Progress.BEGUN
        self._account.say(
            numbered.move, HELD, f"{reason}; an earlier run has set some of its offsets" if is_begun else reason
        )
