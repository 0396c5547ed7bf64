"""Rules about records that are gone before anybody has read them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from seamark.counts import counted
from seamark.rules.findings.finding import Finding, Parameters
from seamark.rules.findings.history import Commit, LogSample, PartitionHistory


def records_lost(history: PartitionHistory, _: Parameters) -> Iterator[Finding]:
    """Looks found the start of the log beyond what was committed: what lay between was deleted unread.

    What a parallel consumer had finished ahead is not counted; only its number is known here, so it is a lower bound.
    """
    first: LogSample | None = None
    most: tuple[int, Commit, LogSample] | None = None
    for sample, commit in _certain_looks(history):
        lost = sample.log_start - commit.offset - commit.done_ahead
        if lost > 0:
            first = first or sample
            most = max(most or (0, commit, sample), (lost, commit, sample), key=lambda loss: loss[0])
        elif first is not None and most is not None:
            yield _finding(history, first.at_ms, sample.at_ms, *most)
            first = most = None
    if first is not None and most is not None:
        yield _finding(history, first.at_ms, None, *most)


def _certain_looks(history: PartitionHistory) -> Iterator[tuple[LogSample, Commit]]:
    """Each look at the log with what was committed then; none where a hole in the history hides that."""
    commits = history.commits
    gone = sorted(deletion.at_ms for deletion in history.deletions)
    for sample in history.samples:
        later = bisect_right(commits, sample.at_ms, key=lambda commit: commit.at_ms)
        if not later or (later < len(commits) and not commits[later].is_complete):
            continue
        newest = commits[later - 1]
        if bisect_left(gone, newest.at_ms) == bisect_right(gone, sample.at_ms):
            yield sample, newest


def _finding(
    history: PartitionHistory, from_ms: int, until_ms: int | None, lost: int, commit: Commit, sample: LogSample
) -> Finding:
    return Finding(
        "records lost", history.group, history.topic, history.partition, from_ms, until_ms,
        f"{counted(lost, 'record')} of {history.topic}-{history.partition} deleted before being read:"
        f" the committed offset was {commit.offset}, and the log starts at {sample.log_start}",
        "Increase retention (retention.ms, retention.bytes), or make the group catch up sooner.",
        lost, {"committed": commit.offset, "log_start": sample.log_start},
    )  # fmt: skip
