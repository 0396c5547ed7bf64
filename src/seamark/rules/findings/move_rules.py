"""Rules about offsets that moved in a way no reading consumer moves them: back, ahead, by somebody else, or away."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from seamark.counts import counted
from seamark.rules.findings.finding import Finding, Parameters
from seamark.rules.findings.history import Commit, PartitionHistory

# With a backlog seen in fewer steps than this, nothing is known about a consumer's pace.
_STEPS_TO_KNOW = 3
# A step longer than so many usual ones had a pause in it.
_USUAL_STEPS = 3


def rewind(history: PartitionHistory, parameters: Parameters) -> Iterator[Finding]:
    """The offset fell: records are read again. Commits that merely overtook each other are left out."""
    for place, before, after in history.steps():
        if after.offset >= before.offset:
            continue
        later = history.commits[place + 1 :]
        regained = next((commit.at_ms for commit in later if commit.offset >= before.offset), None)
        is_overtaken = regained is not None and regained - after.at_ms <= parameters.overtaken_ms
        if after.origin != "outside" and is_overtaken:
            continue
        yield _moved(history, "rewind", before, after, regained,
            f"went back from {before.offset} to {after.offset}: "
            f"{counted(before.offset - after.offset, 'record')} will be read again",
            "If this was not a deliberate reset, look for a consumer that seeks back or lost its state.",
        )  # fmt: skip


def forward_jump(history: PartitionHistory, parameters: Parameters) -> Iterator[Finding]:
    """The offset rose faster than records can have been read, or somebody else set it ahead: records were skipped."""
    pace = best_pace(history)
    for before, after in history.pairs():
        ahead = after.offset - before.offset
        if ahead <= 0:
            continue
        if after.origin != "outside":
            seconds = max(after.at_ms - before.at_ms, 1) / 1000
            is_impossible = ahead / seconds > parameters.fastest
            is_unlike_itself = pace is not None and ahead / seconds > parameters.faster * pace
            if ahead < parameters.jump_records or not (is_impossible or is_unlike_itself):
                continue
        yield _moved(history, "forward jump", before, after, after.at_ms,
            f"jumped ahead from {before.offset} to {after.offset}: {counted(ahead, 'record')} skipped",
            "If those records are needed, rewind the group to the old offset with seamark groups reset.",
        )  # fmt: skip


def moved_from_outside(history: PartitionHistory, _: Parameters) -> Iterator[Finding]:
    """Somebody who is no member set the offset."""
    for before, after in history.pairs():
        if after.origin == "outside" and after.offset != before.offset:
            yield _moved(history, "moved from outside", before, after, after.at_ms,
                f"was set from {before.offset} to {after.offset} by a client outside the group",
                "Find out who ran a reset at that time; the evidence has the old offset.",
            )  # fmt: skip


def beyond_end(history: PartitionHistory, _: Parameters) -> Iterator[Finding]:
    """A later look at the log found its end below what was committed."""
    for commit in history.commits:
        sample = history.sample_after(commit.at_ms)
        if sample is None or sample.log_end >= commit.offset:
            continue
        yield Finding(
            "beyond the end", history.group, history.topic, history.partition, commit.at_ms, None,
            f"{history.topic}-{history.partition} was committed at {commit.offset}, but its log ended at"
            f" {sample.log_end}",
            "The topic was recreated or the offset is wrong: reset the group to an offset in the log.",
            commit.offset - sample.log_end, {"committed": commit.offset, "log_end": sample.log_end},
        )  # fmt: skip
        return


def expired(history: PartitionHistory, parameters: Parameters) -> Iterator[Finding]:
    """The broker forgot the offset because nobody had committed for so long."""
    for deletion in history.deletions:
        last = next((commit for commit in reversed(history.commits) if commit.at_ms <= deletion.at_ms), None)
        if last is None or not deletion.is_complete:
            continue
        idle_ms = deletion.at_ms - last.at_ms
        is_due = 0 <= last.expire_ms <= deletion.at_ms if last.expire_ms >= 0 else idle_ms >= parameters.retention_ms
        if is_due:
            yield Finding(
                "expired", history.group, history.topic, history.partition, deletion.at_ms, None,
                f"offset {last.offset} of {history.topic}-{history.partition} expired after"
                f" {idle_ms / 86_400_000:.1f} days without a commit",
                "The group now starts at auto.offset.reset; raise offsets.retention.minutes, or commit again.",
                None, {"committed": last.offset, "last_commit_ms": last.at_ms},
            )  # fmt: skip


def best_pace(history: PartitionHistory) -> float | None:
    """The best pace in records per second while at least as much again was left to read: what the consumer can do.

    Without a backlog the pace is the producer's, which says nothing about the consumer; and who follows a trickle
    leaves a few records at every look. A step much longer than usual is one in which the consumer was away for a
    while. None where it was not seen often enough.
    """
    pairs = [
        (before, after) for before, after in history.pairs() if after.origin != "outside" and after.at_ms > before.at_ms
    ]
    if len(pairs) < _STEPS_TO_KNOW:
        return None
    longest_ms = _USUAL_STEPS * median(after.at_ms - before.at_ms for before, after in pairs)
    paces = []
    for before, after in pairs:
        read, lasted_ms = after.offset - before.offset, after.at_ms - before.at_ms
        sample = history.sample_before(after.at_ms)
        if read <= 0 or lasted_ms > longest_ms or sample is None or sample.at_ms < before.at_ms:
            continue
        if sample.log_end - after.offset >= read:
            paces.append(read / (lasted_ms / 1000))
    return max(paces) if len(paces) >= _STEPS_TO_KNOW else None


def _moved(
    history: PartitionHistory, kind: str, before: Commit, after: Commit, until_ms: int | None, how: str, advice: str
) -> Finding:
    return Finding(
        kind, history.group, history.topic, history.partition, after.at_ms, until_ms,
        f"{history.topic}-{history.partition} {how}", advice, abs(after.offset - before.offset),
        {"before": before.offset, "after": after.offset, "origin": after.origin},
    )  # fmt: skip
