"""In what state a group's reading of a partition is, from looks at it over time.

No thresholds on lag: a state is named by what moved and what did not. Unlike rules that only see commits, these also
see a consumer that has stopped committing, a partition that never had a commit, and a slow topic that is simply slow:
what is judged is whether there was something to read all the time and nobody read it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from seamark.rules.time_lag import Sample


class Status(enum.Enum):
    """From best to worst."""

    OK = "ok"
    # Too few looks to tell.
    UNKNOWN = "unknown"
    # There is something to read and nobody to read it, but not for long: members may be on their way back.
    NO_MEMBERS = "no members"
    # It reads, but what is written grows faster.
    SLOW = "slow"
    # There was something to read all the time, the group has members, and the offset did not move.
    STALLED = "stalled"
    # The same, and the group has no members.
    STOPPED = "stopped"
    # The offset went back and has not come up to where it was.
    REWOUND = "rewound"
    # Records were deleted before they were read.
    LOST = "records lost"
    # The offset lies beyond the end of the log.
    BEYOND = "beyond the end"


_ORDER = list(Status)


@dataclass(frozen=True, slots=True)
class Patience:
    """``seconds`` without movement before a partition counts as standing; lags up to ``records`` are never judged."""

    seconds: float = 60.0
    records: int = 0
    # Of what was written in the time looked at, the share by which the lag must have grown.
    growth: float = 0.1


PATIENT = Patience()


def partition_status(
    samples: Sequence[Sample],
    *,
    is_active: bool,
    patience: Patience = PATIENT,
    rewound_from: int | None = None,
    is_unread: bool = False,
) -> Status:
    """The state after the last of ``samples``, which are in the order of time.

    ``rewound_from`` is what ``rewind_after`` made of all samples that there ever were: a rewind stays one for as long
    as nobody has read up to there again, which may be far longer than samples are kept. ``is_unread`` says that nobody
    reads for the group: it has no members, and nobody else commits for it either.
    """
    if not samples:
        return Status.UNKNOWN
    last = samples[-1]
    if last.committed is not None and last.committed > last.log_end:
        return Status.BEYOND
    if last.lost:
        return Status.LOST
    if last.to_read <= patience.records:
        return Status.OK
    if rewound_from is not None:
        return Status.REWOUND
    standing_ms = last.at_ms - _standing_since(samples, patience.records)
    if standing_ms >= patience.seconds * 1000:
        return Status.STALLED if is_active else Status.STOPPED
    if is_unread:
        return Status.NO_MEMBERS
    if last.at_ms - samples[0].at_ms < patience.seconds * 1000:
        return Status.UNKNOWN
    return Status.SLOW if _is_falling_behind(samples, patience) else Status.OK


def worst(states: Iterable[Status]) -> Status:
    """The state of a whole from its parts."""
    return max(states, key=_ORDER.index, default=Status.UNKNOWN)


def rewind_after(rewound_from: int | None, earlier: int | None, last: Sample) -> int | None:
    """The offset that a partition has to reach again because it went back from there; None if it has, or never did.

    ``earlier`` is what was committed before ``last``. Where the log ends before that offset (the topic was made anew),
    its end is as good.

    >>> rewind_after(None, 90, Sample(0, 10, 100)), rewind_after(90, 10, Sample(0, 60, 100))
    (90, 90)
    >>> rewind_after(90, 60, Sample(0, 90, 100)), rewind_after(90, 0, Sample(0, 5, 5))
    (None, None)
    """
    if last.committed is None:
        return rewound_from
    if earlier is not None and last.committed < earlier:
        rewound_from = max(earlier, rewound_from or 0)
    return rewound_from if rewound_from is not None and last.committed < min(rewound_from, last.log_end) else None


def _standing_since(samples: Sequence[Sample], allowed: int) -> int:
    """Since when the offset is the same although there was something to read at every look."""
    last = samples[-1]
    since = last.at_ms
    for sample in reversed(samples):
        if sample.committed != last.committed or sample.to_read <= allowed:
            break
        since = sample.at_ms
    return since


def _is_falling_behind(samples: Sequence[Sample], patience: Patience) -> bool:
    if any(sample.to_read <= patience.records for sample in samples):
        return False
    first, last = samples[0], samples[-1]
    written = last.log_end - first.log_end
    return last.to_read - first.to_read > max(patience.records, patience.growth * written)
