"""Where a group is to be set to: ``--to`` as a value, and the offsets that it means on a cluster.

    earliest  latest          the ends of the log
    offset:N                  that offset
    time:ISO  ago:1h          the first record at or after a time; the log's end if there is none
    shift:-10                 so many offsets from what is committed
    group:G  file:F           where another group stands, or what a file says
    lake:ISO                  where the group stood at that time, as an offsets lake remembers it

An offset that this leads to may lie outside the log: the plan that is made of it says so and is refused, unless its
maker asked for the nearest end (``plans.clamp_to_log``). Nothing here changes anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from seamark.client import Admin, Offset
from seamark.errors import UsageError
from seamark.plans.plan import ClusterState, LogRange
from seamark.topic_partition import TopicPartition

KINDS = ("earliest", "latest", "offset:N", "time:ISO", "ago:1h", "shift:-10", "group:G", "file:F", "lake:ISO")


@dataclass(frozen=True, slots=True)
class Target:
    """``kind`` with its argument: a number for offset and shift, milliseconds for time and lake, a name for others."""

    kind: str
    number: int = 0
    name: str = ""


@dataclass(slots=True)
class Aim:
    """What was found for one group: offsets to set, in the log or not, remarks per partition, why some have none."""

    wanted: dict[TopicPartition, Offset | int | None] = field(default_factory=dict)
    remarks: dict[TopicPartition, str] = field(default_factory=dict)
    refused: dict[TopicPartition, str] = field(default_factory=dict)


def parse_target(
    text: str,
    *,
    now_ms: int,
    time_ms_of: Callable[[str], int],
    seconds_of: Callable[[str], float],
    option: str = "--to ",
) -> Target:
    """The value of ``--to``; UsageError names the ways there are, and ``option`` where there is one to name."""
    kind, colon, rest = text.partition(":")
    if text in ("earliest", "latest"):
        return Target(text)
    if colon and rest:
        if kind in ("offset", "shift"):
            return Target(kind, _whole(kind, rest, option))
        if kind == "time":
            return Target("time", time_ms_of(rest))
        if kind == "ago":
            return Target("time", now_ms - round(seconds_of(rest) * 1000))
        if kind in ("group", "file"):
            return Target(kind, name=rest)
        if kind == "lake":
            return Target(kind, time_ms_of(rest), rest)
    raise UsageError(f"{option}{text!r} is not one of {', '.join(KINDS)}")


def _whole(kind: str, text: str, option: str) -> int:
    where = f"{option}{kind}:{text}: " if option else ""
    try:
        number = int(text)
    except ValueError:
        raise UsageError(f"{where}{text!r} is not an integer") from None
    if kind == "offset" and number < 0:
        raise UsageError(f"{where}an offset must be >= 0")
    return number


def aim(
    target: Target,
    group: str,
    partitions: Iterable[TopicPartition],
    state: ClusterState,
    *,
    at_time: Mapping[TopicPartition, int] | None = None,
    elsewhere: Mapping[TopicPartition, Offset | int] | None = None,
) -> Aim:
    """The offsets that ``target`` means for these partitions of a group.

    ``at_time`` has the first offset at or after the target's time (-1 if there is none), ``elsewhere`` what the other
    group, the file or the lake says.
    """
    aimed = Aim()
    committed = state.committed.get(group, {})
    for partition in sorted(partitions):
        log = state.logs.get(partition)
        if log is None:
            aimed.refused[partition] = state.unreadable.get(partition, "it does not exist")
            continue
        if target.kind in ("group", "file", "lake"):
            other = (elsewhere or {}).get(partition)
            if other is None:
                where = f"the lake at {target.name}" if target.kind == "lake" else f"{target.kind} {target.name!r}"
                aimed.refused[partition] = f"{where} has no offset for it"
                continue
            wanted = other.offset if isinstance(other, Offset) else other
        elif target.kind == "shift":
            before = committed.get(partition)
            if before is None:
                aimed.refused[partition] = f"group {group!r} has no committed offset to shift"
                continue
            wanted = before.offset + target.number
        elif target.kind == "time":
            at = (at_time or {}).get(partition, -1)
            wanted = log.log_end if at < 0 else at
            if at < 0:
                aimed.remarks[partition] = "no record at or after that time: the log's end is used"
        else:
            wanted = _of_log(target, log)
        aimed.wanted[partition] = wanted
    return aimed


def _of_log(target: Target, log: LogRange) -> int:
    if target.kind == "earliest":
        return log.log_start
    return log.log_end if target.kind == "latest" else target.number


def offsets_at(
    admin: Admin, partitions: Iterable[TopicPartition], time_ms: int, *, timeout: float | None = None
) -> dict[TopicPartition, int]:
    """The first offset at or after a time, -1 where there is none."""
    answers = admin.list_offsets(dict.fromkeys(partitions, time_ms), timeout=timeout)
    return {partition: answer.offset for partition, answer in answers.items()}
