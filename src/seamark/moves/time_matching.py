"""Where a group goes on in a log that is not equal to the one it has read: by the time of records. Pure.

The time asked for is that of the first record which the group has not processed; the target's first record of that
time, less an overlap, is where it goes on. A mirror keeps the order of a partition, and a copy carries the time of its
original or a later one, so the copy of the first unread record is never before that place: nothing unread is passed,
something read may be repeated. The overlap is for clocks that are less exact than that, and for a target that has lost
the first unread record: what comes behind it is not passed either, if times go back by no more than the overlap.

Where nothing is unread, the time of the last processed record is asked for. Where no record tells a time, the target is
read from its start.
"""

from __future__ import annotations

from typing import NamedTuple

from seamark.moves.log_matching import Found
from seamark.plans.plan import LogRange
from seamark.plans.plan_text import time_text


class TimeAsked(NamedTuple):
    """``is_unread`` says that the time is that of a record which must not be passed."""

    timestamp_ms: int
    is_unread: bool


class TimeAnswer(NamedTuple):
    """The target's first record at or after a time; ``offset`` is -1 where all are older."""

    offset: int
    timestamp_ms: int


class TimeAim(NamedTuple):
    """``problem`` says why the offset should not be used unless that is wanted all the same."""

    offset: int
    note: str
    problem: str = ""


def time_to_ask(committed: int, source_records: Found) -> TimeAsked | None:
    """The time that tells where a group stands which has processed everything below ``committed``.

    ``source_records`` are records of the source, among them those asked for at and before the committed offset.
    """
    records = sorted(record for record in source_records.values() if record is not None)
    unread = next((record for record in records if record.offset >= committed), None)
    last_processed = next((record for record in reversed(records) if record.offset < committed), None)
    chosen = unread or last_processed
    if chosen is None or chosen.timestamp_ms < 0:
        return None
    return TimeAsked(chosen.timestamp_ms, unread is not None)


def aim_by_time(asked: TimeAsked, overlap_ms: int, answer: TimeAnswer, target: LogRange) -> TimeAim:
    """Where to go on; ``target`` is how the log was before the time was asked for."""
    which = "first unread" if asked.is_unread else "last processed"
    by = f"by the time of the {which} record, {time_text(asked.timestamp_ms)} less {overlap_ms / 1000:g} s"
    if answer.offset < 0:
        # All that is there is older; what came since the end was looked at is behind it.
        return TimeAim(target.log_end, f"{by}: the target has no record that new yet")
    offset = max(answer.offset, target.log_start)
    problem = ""
    if offset == target.log_start:
        by += ": the target's log begins there"
    if asked.is_unread and offset == target.log_start and answer.timestamp_ms > asked.timestamp_ms:
        problem = (
            f"the target begins at {offset} with a record of {time_text(answer.timestamp_ms)}, after the first unread "
            f"record of {time_text(asked.timestamp_ms)}: records in between may be missing"
        )
    return TimeAim(offset, by, problem)
