"""Takes a move back: every group that the journal knows as begun or moved gets its old offsets again.

The target decides, as with an undo of a plan: an offset that is what the move set goes back to what it was before, one
that is what it was before is left, and one that is anything else was changed by somebody since, which holds its whole
group back. An interrupted rollback is run again. The source was never changed and is not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from seamark.errors import SeamarkError
from seamark.moves.account import ALREADY, FAILED, HELD, RETURNED, Account, GroupOutcome, Summary
from seamark.moves.errors import MoveInterrupted
from seamark.moves.journal import Journal, Progress
from seamark.moves.log_check import LogCheck
from seamark.moves.move import GroupMove, as_stored, good_offsets
from seamark.moves.move_file import MoveFile
from seamark.moves.read_back import lost_connection, unmade
from seamark.moves.sides import Side
from seamark.plans.decisions import Standing, describe, standing_of
from seamark.plans.errors import some
from seamark.plans.plan import Change
from seamark.stores.contract import Outcomes

Numbered = tuple[int, GroupMove]


@dataclass(slots=True)
class Returner:
    """One rollback of one plan; a ``dry_run`` only says what would be done."""

    plan: MoveFile
    target: Side
    journal: Journal
    now_ms: Callable[[], int]
    dry_run: bool = False
    allow_outside_log: bool = False
    _account: Account = field(init=False)
    _log_check: LogCheck = field(init=False)

    def __post_init__(self) -> None:
        self._account = Account(self.journal.count(Progress.BEGUN) + self.journal.count(Progress.MOVED))
        self._log_check = LogCheck(self.target)

    @property
    def summary(self) -> Summary:
        return self._account.summary

    def run(self) -> Summary:
        """Give back what is left, and give the counts alone."""
        for _ in self.outcomes():
            pass
        return self.summary

    def outcomes(self) -> Iterator[GroupOutcome]:
        """Give back what is left, and say of each group what came of it.

        WrongCluster comes before anything is changed, MoveInterrupted when the target stops answering.
        """
        self.target.check_is(self.plan.header.target)
        numbered = (
            (index, move)
            for index, move in enumerate(self.plan)
            if self.journal.state(index) in (Progress.BEGUN, Progress.MOVED)
        )
        yield from self._account.through(numbered, lambda item: len(item[1].moves), self._return, self._interrupted)

    def _interrupted(self, error: SeamarkError) -> MoveInterrupted:
        left = self.journal.count(Progress.MOVED) + self.journal.count(Progress.BEGUN)
        how_far = f"groups not rolled back yet: {left} of {self.summary.groups}"
        return MoveInterrupted(error, how_far, "run the same command again")

    def _return(self, portion: Sequence[Numbered]) -> None:
        names = [move.to_group for _, move in portion]
        obstacles = self.target.obstacles(names)
        stored = self.target.read(names)
        if not self.allow_outside_log:
            self._log_check.look_at(
                Change(change.partition, change.after, change.before) for _, move in portion for change in move.changes
            )
        ready: list[tuple[int, GroupMove, list[Change]]] = []
        done: list[Numbered] = []
        for index, move in portion:
            committed = good_offsets(stored[move.to_group])
            standings = [(change, standing_of(change, committed.get(change.partition))) for change in move.changes]
            moved = [
                f"{change.partition} is at {describe(committed.get(change.partition))}"
                for change, standing in standings
                if standing is Standing.STALE
            ]
            back = [
                Change(change.partition, change.after, change.before)
                for change, standing in standings
                if standing is Standing.DONE
            ]
            if moved:
                self._account.say(move, HELD, f"moved by another client since: {some(moved)}")
            elif not back:
                done.append((index, move))
            elif move.to_group in obstacles:
                self._account.say(move, HELD, obstacles[move.to_group])
            elif problem := "" if self.allow_outside_log else self._log_check.problem(back):
                self._account.say(move, HELD, problem)
            else:
                ready.append((index, move, back))
        if not self.dry_run:
            self.journal.note(Progress.RETURNED, [index for index, _ in done], now_ms=self.now_ms())
        for _, move in done:
            self._account.say(move, ALREADY)
        if self.dry_run:
            for _, move, back in ready:
                self._account.say(move, RETURNED, written=len(back))
        elif ready:
            self._give_back(ready)

    def _give_back(self, ready: Sequence[tuple[int, GroupMove, list[Change]]]) -> None:
        # A group on its way back is no longer moved: a crash here must not let a resume pass over it.
        self.journal.note(Progress.BEGUN, [index for index, _, _ in ready], now_ms=self.now_ms())
        failure: SeamarkError | None = None
        outcomes: dict[str, Outcomes] = {}
        items = (
            (move.to_group, restored)
            for _, move, back in ready
            if (restored := {change.partition: as_stored(change.after) for change in back if change.after is not None})
        )
        try:
            outcomes.update(self.target.store.write_many(items))
            for _, move, back in ready:
                gone = [change.partition for change in back if change.after is None]
                if gone:
                    taken = self.target.store.delete(move.to_group, gone)
                    outcomes[move.to_group] = outcomes.get(move.to_group, {}) | taken
                    if failure := lost_connection(taken):
                        break
        except SeamarkError as error:
            failure = error
        there = self.target.read([move.to_group for _, move, _ in ready])
        finished = []
        for index, move, back in ready:
            reason = unmade(back, there[move.to_group], outcomes.get(move.to_group, {}), failure)
            if reason:
                self._account.say(move, FAILED, reason)
            else:
                finished.append((index, move, back))
        self.journal.note(Progress.RETURNED, [index for index, _, _ in finished], now_ms=self.now_ms())
        for _, move, back in finished:
            self._account.say(move, RETURNED, written=len(back))
