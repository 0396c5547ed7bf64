"""Rules about a group's pace: standing still, falling behind, and committing too much or too long."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from statistics import median

from seamark.counts import counted
from seamark.rules.findings.finding import Finding, Parameters
from seamark.rules.findings.history import Commit, LogSample, PartitionHistory


def stall(history: PartitionHistory, parameters: Parameters) -> Iterator[Finding]:
    """Commits go on, but for the same offset, although there was something to read all the time.

    A consumer of ours that finished records beyond it is blocked by one record; then that is said.
    """
    patience = max(parameters.stall_ms, round(parameters.usual_pauses * _usual_advance(history)))
    for run, following in _runs(history):
        if len(run) < 3:
            continue
        offset = run[0].offset
        # The next commit may have been due for long, so a run is known to last only until its own last commit.
        unread_ms = history.unread_since(offset, run[0].at_ms, run[-1].at_ms)
        if unread_ms is None or run[-1].at_ms - unread_ms < patience:
            continue
        lasted = _spoken(run[-1].at_ms - unread_ms)
        until = following.at_ms if following is not None else None
        if run[-1].done_ahead:
            yield Finding(
                "blocked", history.group, history.topic, history.partition, unread_ms, until,
                f"{history.topic}-{history.partition} has been blocked by the record at offset {offset} for"
                f" {lasted}, with {counted(run[-1].done_ahead, 'record')} done beyond it",
                "Inspect that record: fix the handler, skip it, or send it to a dead-letter topic.",
                None, {"offset": offset, "done_ahead": run[-1].done_ahead},
            )  # fmt: skip
        else:
            yield Finding(
                "stall", history.group, history.topic, history.partition, unread_ms, until,
                f"{history.topic}-{history.partition} has been at offset {offset} for {lasted} although there"
                " were records to read and commits continued",
                "The consumer is alive but makes no progress: inspect the record at that offset and the handler.",
                None, {"offset": offset, "commits": len(run)},
            )  # fmt: skip


def stop(history: PartitionHistory, parameters: Parameters) -> Iterator[Finding]:
    """No commit for much longer than usual, although there was something to read."""
    commits = history.commits
    if not commits:
        return
    gone = [deletion.at_ms for deletion in history.deletions]
    pauses = sorted(after.at_ms - before.at_ms for before, after in history.pairs())
    ends: list[tuple[Commit, int, int | None]] = [
        (before, after.at_ms, after.at_ms) for before, after in pairwise(commits) if after.is_complete
    ]
    ends.append((commits[-1], max(history.now_ms, commits[-1].at_ms), None))
    for before, until_ms, resumed_ms in ends:
        if gone and any(before.at_ms <= deleted_ms <= until_ms for deleted_ms in gone):
            continue
        pause = until_ms - before.at_ms
        # The longest of the other pauses; this one is the longest of all if it is to be a stop.
        is_listed = resumed_ms is not None and bool(pauses) and pauses[-1] == pause
        longest = pauses[-2:-1] if is_listed else pauses[-1:]
        usual = longest[0] if longest else 0
        patience = max(parameters.stop_ms, parameters.usual_pauses * usual)
        if pause < patience:
            continue
        unread_ms = history.unread_since(before.offset, before.at_ms, until_ms)
        if unread_ms is None or until_ms - unread_ms < patience:
            continue
        yield Finding(
            "stop", history.group, history.topic, history.partition, before.at_ms, resumed_ms,
            f"{history.topic}-{history.partition} had no new commit for {_spoken(pause)} although there"
            f" were records to read after offset {before.offset}",
            "The consumer has stopped or hangs: check the group's members.",
            None, {"offset": before.offset, "usual_pause_ms": usual},
        )  # fmt: skip


def slow_drain(history: PartitionHistory, parameters: Parameters) -> Iterator[Finding]:
    """It reads, and was never seen caught up, but would take long or for ever to catch up at this pace.

    A job that commits now and then is behind at most looks, but not at its commits: it had read all there was.
    """
    caught_up_ms = max((commit.at_ms for commit in history.commits if _has_read_all(history, commit)), default=0)
    looks = [(sample, commit) for sample, commit in _looks(history) if sample.at_ms > caught_up_ms]
    # Back from the newest look as long as it was behind.
    first = len(looks)
    while first and looks[first - 1][0].log_end - looks[first - 1][1].offset > parameters.slow_records:
        first -= 1
    behind = looks[first:]
    if len(behind) < 3 or behind[-1][0].at_ms - behind[0][0].at_ms < parameters.stall_ms:
        return
    if any(not commit.is_complete for commit in history.commits if commit.at_ms > behind[0][0].at_ms):
        return
    (start, from_commit), (end, to_commit) = behind[0], behind[-1]
    read = to_commit.offset - from_commit.offset
    written = end.log_end - start.log_end
    if read <= 0 or any(after.offset < before.offset for before, after in history.pairs()):
        return
    lag = end.log_end - to_commit.offset
    seconds = (end.at_ms - start.at_ms) / 1000
    gained = read - written
    left = lag / (gained / seconds) if gained > 0 else math.inf
    is_growing = gained < 0 and -gained > 0.1 * written
    if left * 1000 <= parameters.slow_ms or (gained <= 0 and not is_growing):
        return
    when = "never at this rate" if math.isinf(left) else f"in about {left / 3600:.1f} hours"
    yield Finding(
        "slow drain", history.group, history.topic, history.partition, start.at_ms, None,
        f"{history.topic}-{history.partition} is {counted(lag, 'record')} behind,"
        f" reads {read / seconds:.0f} per second while"
        f" {written / seconds:.0f} per second are written, and will catch up {when}",
        "Add members, up to the number of partitions, or process records in parallel.",
        lag, {"read_per_second": read / seconds, "written_per_second": written / seconds},
    )  # fmt: skip


def commits_too_often(history: PartitionHistory, parameters: Parameters) -> Iterator[Finding]:
    """A commit per record, or nearly: it costs the broker more than the records do."""
    commits = history.commits
    wanted = math.ceil(parameters.often_per_second * parameters.often_ms / 1000)
    for index in range(len(commits) - wanted):
        first, last = commits[index], commits[index + wanted]
        span = last.at_ms - first.at_ms
        if 0 <= span <= parameters.often_ms:
            yield Finding(
                "commits too often", history.group, history.topic, history.partition, first.at_ms, None,
                f"{history.topic}-{history.partition} was committed {wanted} times within {max(span, 1) / 1000:.0f}"
                " seconds",
                "Commit at an interval, once a second or less often, instead of per record.",
                None, {"commits": wanted, "within_ms": span},
            )  # fmt: skip
            return


def metadata_near_limit(history: PartitionHistory, parameters: Parameters) -> Iterator[Finding]:
    """The text stored with the offset comes close to what the broker accepts; beyond it commits are refused."""
    longest = max(history.commits, key=lambda commit: commit.metadata_size, default=None)
    if longest is not None and longest.metadata_size >= parameters.metadata_share * parameters.metadata_limit:
        yield Finding(
            "metadata near its limit", history.group, history.topic, history.partition, longest.at_ms, None,
            f"a commit of {history.topic}-{history.partition} has {longest.metadata_size} bytes of metadata;"
            f" the limit is {parameters.metadata_limit}",
            "Raise offset.metadata.max.bytes, or limit how far the consumer works ahead.",
            None, {"bytes": longest.metadata_size, "limit": parameters.metadata_limit},
        )  # fmt: skip


def _spoken(duration_ms: int) -> str:
    return f"{duration_ms / 1000:.0f} seconds" if duration_ms < 120_000 else f"{duration_ms / 60_000:.0f} minutes"


def _runs(history: PartitionHistory) -> Iterator[tuple[list[Commit], Commit | None]]:
    """Stretches of commits of one offset that certainly follow each other, and the commit that ended each."""
    run: list[Commit] = []
    for commit in history.commits:
        if run and commit.is_complete and commit.offset == run[0].offset:
            run.append(commit)
            continue
        if run:
            yield run, commit if commit.is_complete else None
        run = [commit]
    if run:
        yield run, None


def _usual_advance(history: PartitionHistory) -> float:
    """How long it usually takes until the offset moves, in milliseconds; 0 if too little is known."""
    advances: list[int] = []
    since: int | None = None
    for before, after in history.pairs():
        since = before.at_ms if since is None else since
        if after.offset > before.offset:
            advances.append(after.at_ms - since)
            since = after.at_ms
    return median(advances) if len(advances) >= 3 else 0.0


def _has_read_all(history: PartitionHistory, commit: Commit) -> bool:
    sample = history.sample_before(commit.at_ms)
    return sample is not None and commit.offset >= sample.log_end


def _looks(history: PartitionHistory) -> Iterator[tuple[LogSample, Commit]]:
    """Each look at the log with the commit that was the newest then; none before the first commit."""
    later = 0
    for sample in history.samples:
        while later < len(history.commits) and history.commits[later].at_ms <= sample.at_ms:
            later += 1
        if later:
            yield sample, history.commits[later - 1]
