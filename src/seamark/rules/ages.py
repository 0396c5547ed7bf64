"""The ages of the first unread records at many places: read where that is cheap enough, else a lower bound.

Only the record itself tells its age, and reading it costs a fetch of the batch that holds it. So a limited number of
records is read, those furthest behind first; the other places, and those that may not be read, get the lower bound
that questions about times give (``time_probe``).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

from seamark.rules.time_lag import CAUGHT_UP, TimeLag, age_of
from seamark.rules.time_probe import FirstRecord, Places, least_ages

Log = TypeVar("Log", bound=Hashable)


def ages_at(
    places: Mapping[Log, Places],
    now_ms: int,
    *,
    read: Callable[[Sequence[tuple[Log, int]]], Mapping[tuple[Log, int], int | None]],
    ask: Callable[[Mapping[Log, int]], Mapping[Log, FirstRecord]],
    most_reads: int,
) -> dict[Log, dict[int, TimeLag]]:
    """The time lag at some positions of each log; a position of which nothing could be found out is left out.

    ``read`` gives the time of the first record at or beyond each place, None where there is none up to the log's end,
    and leaves out what it cannot read. ``ask`` is that of ``least_ages``.

    >>> ages_at({"log": Places([3, 9], 9)}, 60_000, read=lambda some: {("log", 3): 15_000}, ask=dict, most_reads=1)
    {'log': {3: TimeLag(seconds=45.0, method='read'), 9: TimeLag(seconds=0.0, method='caught up')}}
    """
    unread = [(log, position) for log, (positions, end) in places.items() for position in positions if position < end]
    unread.sort(key=lambda place: places[place[0]].log_end - place[1], reverse=True)
    chosen = unread[:most_reads]
    ages = {place: age for place, at in (read(chosen) if chosen else {}).items() if (age := _age(at, now_ms))}
    left: dict[Log, list[int]] = {}
    for log, position in unread:
        if (log, position) not in ages:
            left.setdefault(log, []).append(position)
    least = least_ages({log: Places(some, places[log].log_end) for log, some in left.items()}, now_ms, ask)
    by_log: dict[Log, dict[int, TimeLag]] = {}
    for log, (positions, log_end) in places.items():
        bounds = least.get(log, {})
        known = {
            position: CAUGHT_UP if position >= log_end else ages.get((log, position)) or bounds.get(position)
            for position in positions
        }
        by_log[log] = {position: age for position, age in known.items() if age is not None}
    return by_log


def _age(timestamp_ms: int | None, now_ms: int) -> TimeLag | None:
    """None for a record without a time, as producers before Kafka 0.10 wrote them."""
    if timestamp_ms is None:
        return CAUGHT_UP
    return None if timestamp_ms < 0 else age_of(timestamp_ms, now_ms)
