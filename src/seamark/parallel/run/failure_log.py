"""Failed attempts and records that are given up, in the log: the first of a kind in full, those that follow as a count.

A kind is what became of the record together with the type of the error. A dependency that is away fails every record;
a line for each would bury everything else, and no line at all would hide that anything is wrong.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from seamark.errors import error_text
from seamark.parallel.core.work import FailedCall, InFlightRecord, RecordState
from seamark.readable_log import readable_logger

_log = readable_logger("seamark.parallel")

# How long the repeats of a kind are counted before they are told.
INTERVAL_S = 10.0

_OUTCOMES = {
    RecordState.RETRYING: "it is retried",
    RecordState.DEAD_LETTERING: "it is written to the dead-letter topic",
    RecordState.PARKED: "it is parked",
    RecordState.OVER: "it is skipped",
    RecordState.WAITING: "its records run one by one",
    RecordState.RUNNING: "its partition was revoked, so its next owner runs it",
}
# Of a batch, each of whose records has come to this.
_OUTCOMES_OF_MANY = {
    **_OUTCOMES,
    RecordState.DEAD_LETTERING: "they are written to the dead-letter topic",
    RecordState.PARKED: "they are parked",
    RecordState.OVER: "they are skipped",
    RecordState.RUNNING: "their partition was revoked, so its next owner runs them",
}
_COMMITTED_BEFORE = "it was committed before it ran and its partition was revoked, so it is lost"
_AFTER_A_RESTART = "it is not committed and runs again after a restart"
# Of several calls that came to the same.
_OUTCOMES_OF_REPEATS = {
    "it is retried": "they are retried",
    "it is written to the dead-letter topic": "they are written to the dead-letter topic",
    "it is parked": "they are parked",
    "it is skipped": "they are skipped",
    "its records run one by one": "their records run one by one",
    "its partition was revoked, so its next owner runs it": "their partition was revoked, so its next owner runs them",
    _COMMITTED_BEFORE: "they were committed before they ran and their partition was revoked, so they are lost",
    _AFTER_A_RESTART: "they are not committed and run again after a restart",
}


@dataclass(slots=True)
class _Kind:
    """What came after the first of a kind; ``last`` is the latest of them."""

    due: float
    count: int = 0
    last: str = ""


class FailureLog:
    def __init__(self, *, is_at_most_once: bool = False) -> None:
        self._is_at_most_once = is_at_most_once
        self._kinds: dict[tuple[str, type[BaseException]], _Kind] = {}
        self._next_due = math.inf

    def failed(self, call: FailedCall, error: BaseException, now: float, *, is_stopping: bool) -> None:
        """A handler call failed, and what follows for its records is decided."""
        what = _place(call.first)
        if call.count > 1:
            what += f" and {call.count - 1} more records of its batch"
        attempt = f" (attempt {call.attempts})" if call.attempts else ""
        outcome = self._outcome(call, is_stopping=is_stopping)
        self._say(outcome, error, f"{what} failed{attempt}: {error_text(error)}", now, with_stack=True)

    def _outcome(self, call: FailedCall, *, is_stopping: bool) -> str:
        if is_stopping and call.state is RecordState.PARKED:
            return "the consumer stops"
        if is_stopping and call.state in (RecordState.RETRYING, RecordState.WAITING):
            return _AFTER_A_RESTART
        if self._is_at_most_once and call.state is RecordState.RUNNING:
            return _COMMITTED_BEFORE
        return (_OUTCOMES if call.count == 1 else _OUTCOMES_OF_MANY)[call.state]

    def dead_letter_written(self, work: InFlightRecord, topic: str, error: BaseException, now: float) -> None:
        self._say(f"written to {topic}", error, f"{_place(work)} was given up: {error_text(error)}", now)

    def dead_letter_refused(self, work: InFlightRecord, topic: str, error: BaseException, now: float) -> None:
        """Told even if the consumer is stopping for another reason, or because it was asked to."""
        text = f"{_place(work)} could not be written to {topic}: {error_text(error)}"
        self._say(_AFTER_A_RESTART, error, text, now)

    def _say(self, outcome: str, error: BaseException, text: str, now: float, *, with_stack: bool = False) -> None:
        key = outcome, type(error)
        kind = self._kinds.get(key)
        if kind is None:
            self._kinds[key] = _Kind(now + INTERVAL_S)
            self._next_due = min(self._next_due, now + INTERVAL_S)
            _log.warning("%s; %s", text, outcome, exc_info=error if with_stack else None)
        else:
            kind.count += 1
            kind.last = text

    def look(self, now: float) -> None:
        """Tell the counts that are due. A kind that did not come again is forgotten: the next is told in full."""
        if now < self._next_due:
            return
        for key, kind in list(self._kinds.items()):
            if now < kind.due:
                continue
            self._tell(key, kind)
            if kind.count:
                self._kinds[key] = _Kind(now + INTERVAL_S)
            else:
                del self._kinds[key]
        self._next_due = min((kind.due for kind in self._kinds.values()), default=math.inf)

    def close(self) -> None:
        """Tell what was counted and not told yet."""
        for key, kind in self._kinds.items():
            self._tell(key, kind)
        self._kinds.clear()

    def _tell(self, key: tuple[str, type[BaseException]], kind: _Kind) -> None:
        if kind.count:
            outcome, error = key
            if kind.count > 1:
                outcome = _OUTCOMES_OF_REPEATS.get(outcome, outcome)
            _log.warning("%d more failed with %s; %s. Last: %s", kind.count, error.__name__, outcome, kind.last)


def _place(work: InFlightRecord) -> str:
    return f"{work.partition} offset {work.offset}"
