"""Where each committed offset has to point in another cluster: the same number if the logs are equal, else by time.

Logs are compared by samples (``log_matching``), the place in an unequal log is found by record times
(``time_matching``). What a partition's new offset was found by, and every doubt about it, is in its aim. A place that
would pass records which the group has not read is a problem, never a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from seamark.client.errors import ClientError
from seamark.counts import counted
from seamark.moves.aims import REMEDY, Aim, Aims, ClusterLogs, Wanted
from seamark.moves.log_matching import Found, Match, match, sample_points, shared_range
from seamark.moves.move import How
from seamark.moves.record_points import FoundAt, read_points
from seamark.moves.time_matching import TimeAnswer, TimeAsked, aim_by_time, time_to_ask
from seamark.plans.plan import LogRange, outside_log
from seamark.topic_partition import TopicPartition

if TYPE_CHECKING:
    from seamark.client import Admin, Consumer

# One request asks for one time per partition; so many are under way together.
_TIMES_AT_ONCE = 8

Place = tuple[TopicPartition, int]


class OtherCluster:
    """Aims into another cluster; ``consumers`` read the records of the source and of the target."""

    def __init__(
        self,
        admins: tuple[Admin, Admin],
        names: tuple[str, str],
        consumers: tuple[Consumer, Consumer],
        *,
        overlap_ms: int,
        allow_outside_log: bool = False,
    ) -> None:
        self._source = ClusterLogs(admins[0], names[0])
        self._target = ClusterLogs(admins[1], names[1])
        self._target_admin = admins[1]
        self._consumers = consumers
        self._overlap_ms = overlap_ms
        self._allow_outside_log = allow_outside_log

    def topic_ids(self) -> dict[str, str]:
        return self._target.topic_ids()

    def aims(self, wanted: Wanted) -> Aims:
        asked = {partition: sorted(set(offsets)) for partition, offsets in wanted.items()}
        # The target's end is looked at before its records and times are: what comes later is behind it.
        self._target.look_at(asked)
        self._source.look_at(asked)
        aims: Aims = {}
        logs: dict[TopicPartition, tuple[LogRange, LogRange]] = {}
        for partition, offsets in asked.items():
            problem = self._target.problem(partition) or self._source.problem(partition)
            if problem:
                aims |= {(partition, offset): Aim(None, problem=problem) for offset in offsets}
            else:
                logs[partition] = (self._source.logs[partition], self._target.logs[partition])
        source, target = self._read(logs, asked, aims)
        by_time: dict[Place, tuple[TimeAsked, str]] = {}
        for partition in logs:
            if partition not in source or partition not in target:
                continue
            for offset in asked[partition]:
                place = (partition, offset)
                aim = self._decide(place, logs[partition], source[partition], target[partition])
                if isinstance(aim, Aim):
                    aims[place] = aim
                else:
                    by_time[place] = aim
        return aims | self._by_time(by_time)

    def _read(
        self,
        logs: Mapping[TopicPartition, tuple[LogRange, LogRange]],
        asked: Mapping[TopicPartition, list[int]],
        aims: Aims,
    ) -> tuple[FoundAt, FoundAt]:
        """Records of both sides at the points to look at; partitions that do not answer get their aim at once."""
        shared = {partition: sample_points(*pair, asked[partition]) for partition, pair in logs.items()}
        own = {partition: {*shared[partition], *_around(asked[partition], pair[0])} for partition, pair in logs.items()}
        source, not_here = read_points(
            self._consumers[0], own, {partition: pair[0].log_end for partition, pair in logs.items()}
        )
        target, not_there = read_points(
            self._consumers[1], shared, {partition: pair[1].log_end for partition, pair in logs.items()}
        )
        for name, missing in ((self._source.name, not_here), (self._target.name, not_there)):
            for partition, reason in missing.items():
                problem = f"the records in {name} cannot be read ({reason})"
                aims |= {(partition, offset): Aim(None, problem=problem) for offset in asked[partition]}
        return source, target

    def _decide(
        self, place: Place, logs: tuple[LogRange, LogRange], source: Found, target: Found
    ) -> Aim | tuple[TimeAsked, str]:
        """The aim, or the time to ask the target for and why."""
        partition, offset = place
        here, there = logs
        if offset > here.log_end:
            return Aim(None, problem=f"{outside_log(offset, here)} in {self._source.name}")
        if there.log_start == there.log_end:
            return self._into_empty(offset, here, there)
        matched = self._match(offset, here, there, source, target)
        if matched.is_equal:
            return self._equal(offset, here, there, matched)
        reason = matched.reason + _already_lost(offset, here)
        if self._source.topics[partition.topic].partition_count != self._target.topics[partition.topic].partition_count:  # type: ignore[union-attr]
            problem = f"{reason}, and the topic has a different number of partitions: its records may be in any of them"
            return Aim(None, problem=problem)
        asked = time_to_ask(offset, source)
        if asked is None:
            count = there.log_end - there.log_start
            note = f"{reason}; the source has no record with a time: the target is read from its start"
            return Aim(there.log_start, How.LOG_START, note, repeated=count, keeps_text=False, repeats_all=True)
        return asked, reason

    def _match(self, offset: int, here: LogRange, there: LogRange, source: Found, target: Found) -> Match:
        return match(sample_points(here, there, [offset]), source, target, shared_range(here, there))

    def _equal(self, offset: int, here: LogRange, there: LogRange, matched: Match) -> Aim:
        both = shared_range(here, there)
        of = counted(both.log_end - both.log_start, "record")
        note = f"{matched.compared} of {of} compared{_already_lost(offset, here)}"
        beyond = outside_log(offset, there)
        if beyond and not self._allow_outside_log:
            return Aim(None, problem=f"{beyond} in {self._target.name}; {REMEDY}")
        return Aim(offset, How.EQUAL_LOGS, f"{note}; {beyond}" if beyond else note, repeated=0)

    def _into_empty(self, offset: int, here: LogRange, there: LogRange) -> Aim:
        if offset == there.log_end:
            return Aim(offset, How.LOG_START, "the target's log is empty and ends there", repeated=0)
        if offset < there.log_end and here.log_end > offset:
            # The target once held records up to its end and has lost them, unread ones perhaps among them.
            problem = f"the target's log is empty and begins at {there.log_start}, after offset {offset}"
            if not self._allow_outside_log:
                return Aim(None, problem=f"{problem}; --allow-outside-log starts there")
            return Aim(there.log_start, How.LOG_START, problem, keeps_text=False)
        note = "the target's log is empty: all new records will be read"
        return Aim(there.log_start, How.LOG_START, note, repeated=max(0, offset - here.log_start), keeps_text=False)

    def _by_time(self, wanted: Mapping[Place, tuple[TimeAsked, str]]) -> Aims:
        earlier = self._times(
            {place: max(0, asked.timestamp_ms - self._overlap_ms) for place, (asked, _) in wanted.items()}
        )
        exact = self._times({place: asked.timestamp_ms for place, (asked, _) in wanted.items()})
        aims: Aims = {}
        for place, (asked, reason) in wanted.items():
            there = self._target.logs[place[0]]
            answer, later = earlier[place], exact[place]
            if isinstance(answer, ClientError):
                problem = f"{reason}, and the lookup by time failed on the target ({answer})"
                aims[place] = Aim(None, problem=problem)
                continue
            aim = aim_by_time(asked, self._overlap_ms, answer, there)
            if aim.problem and not self._allow_outside_log:
                aims[place] = Aim(None, problem=f"{reason}; {aim.problem}; --allow-outside-log starts there")
                continue
            repeated = None
            if not isinstance(later, ClientError):
                repeated = max(0, (there.log_end if later.offset < 0 else later.offset) - aim.offset)
            note = "; ".join(part for part in (reason, aim.note, aim.problem) if part)
            aims[place] = Aim(aim.offset, How.RECORD_TIME, note, repeated=repeated, keeps_text=False)
        return aims

    def _times(self, wanted: Mapping[Place, int]) -> dict[Place, TimeAnswer | ClientError]:
        """The target's first record at or after a time, for any number of times per partition."""
        rounds: list[dict[TopicPartition, tuple[int, list[Place]]]] = []
        per_partition: dict[TopicPartition, dict[int, list[Place]]] = {}
        for place, time_ms in wanted.items():
            per_partition.setdefault(place[0], {}).setdefault(time_ms, []).append(place)
        for partition, times in per_partition.items():
            for number, asked in enumerate(times.items()):
                if number == len(rounds):
                    rounds.append({})
                rounds[number][partition] = asked

        def ask(questions: dict[TopicPartition, tuple[int, list[Place]]]) -> dict[Place, TimeAnswer | ClientError]:
            answers: dict[Place, TimeAnswer | ClientError] = {}
            offsets = self._target_admin.list_offsets(
                {partition: time_ms for partition, (time_ms, _) in questions.items()}
            )
            for partition, (_, places) in questions.items():
                answer: TimeAnswer | ClientError
                if partition in offsets:
                    answer = TimeAnswer(offsets[partition].offset, offsets[partition].timestamp_ms)
                else:
                    answer = offsets.errors[partition]
                answers |= dict.fromkeys(places, answer)
            return answers

        if not rounds:
            return {}
        with ThreadPoolExecutor(min(_TIMES_AT_ONCE, len(rounds)), "seamark-move") as pool:
            return {place: answer for some in pool.map(ask, rounds) for place, answer in some.items()}


def _already_lost(offset: int, source: LogRange) -> str:
    if offset >= source.log_start:
        return ""
    return f"; the source itself starts at {source.log_start}, after it"


def _around(offsets: Iterable[int], log: LogRange) -> set[int]:
    """The first unread and the last processed record of each offset, as far as the log still has them."""
    points = {max(offset, log.log_start) for offset in offsets}
    points |= {offset - 1 for offset in offsets}
    return {point for point in points if log.log_start <= point < log.log_end}
