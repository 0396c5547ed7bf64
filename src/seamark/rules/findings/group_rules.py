"""Rules about a group as a whole: rebalancing without end, uneven work, and partitions that nobody commits."""

from __future__ import annotations

from collections.abc import Iterator

from seamark.counts import counted
from seamark.rules.findings.finding import Finding, Parameters
from seamark.rules.findings.history import GroupHistory


def never_committed(history: GroupHistory, parameters: Parameters) -> Iterator[Finding]:
    """A partition is assigned and has records, other partitions of the group are committed, but not this one."""
    if not any(partition.commits for partition in history.partitions):
        return
    known = {(partition.topic, partition.partition): partition for partition in history.partitions}
    for topic, index in sorted({assigned for generation in history.generations for assigned in generation.assigned}):
        partition = known.get((topic, index))
        if partition is None or partition.commits or partition.deletions:
            continue
        since = min(generation.at_ms for generation in history.generations if (topic, index) in generation.assigned)
        unread_ms = partition.unread_since(0, since, history.now_ms)
        if unread_ms is None or history.now_ms - unread_ms < parameters.uncommitted_ms:
            continue
        yield Finding(
            "never committed", history.group, topic, index, since, None,
            f"{topic}-{index} is assigned and has records, but has no committed offset",
            "Check whether its consumer fails on the first records, or never commits this partition.",
            None, {"unread_since_ms": unread_ms},
        )  # fmt: skip


def rebalance_storm(history: GroupHistory, parameters: Parameters) -> Iterator[Finding]:
    """So many generations in so short a time that hardly any work gets done."""
    generations = history.generations
    count = parameters.storm_generations
    index = 0
    while index + count <= len(generations):
        last = index + count - 1
        if generations[last].at_ms - generations[index].at_ms > parameters.storm_ms:
            index += 1
            continue
        while (
            last + 1 < len(generations)
            and generations[last + 1].at_ms - generations[last + 2 - count].at_ms <= parameters.storm_ms
        ):
            last += 1
        first, end = generations[index], generations[last]
        minutes = max(1, round((end.at_ms - first.at_ms) / 60_000))
        yield Finding(
            "rebalance storm", history.group, None, None, first.at_ms, end.at_ms,
            f"{last - index + 1} rebalances within {minutes} minutes",
            "Look for members that exceed max.poll.interval.ms or crash in a loop; static membership helps.",
            None, {"generations": last - index + 1, "first": first.number, "last": end.number},
        )  # fmt: skip
        index = last + 1


def uneven_partitions(history: GroupHistory, parameters: Parameters) -> Iterator[Finding]:
    """One partition of a topic gets many times what the others get, so one member does most of the work."""
    written: dict[str, dict[int, int]] = {}
    since: dict[str, int] = {}
    for partition in history.partitions:
        if len(partition.samples) >= 2:
            first, last = partition.samples[0], partition.samples[-1]
            written.setdefault(partition.topic, {})[partition.partition] = last.log_end - first.log_end
            since[partition.topic] = min(since.get(partition.topic, first.at_ms), first.at_ms)
    for topic, counts in sorted(written.items()):
        if len(counts) < parameters.uneven_partitions:
            continue
        fullest = max(counts, key=lambda index: (counts[index], -index))
        rest = (sum(counts.values()) - counts[fullest]) / (len(counts) - 1)
        if counts[fullest] >= parameters.uneven_records and counts[fullest] >= parameters.uneven_ratio * max(rest, 1):
            yield Finding(
                "uneven partitions", history.group, topic, fullest, since[topic], None,
                f"{topic}-{fullest} got {counted(counts[fullest], 'record')}, "
                f"the other partitions {rest:.0f} on average",
                "Look at the keys: one key, or a custom partitioner, sends most records to this partition.",
                counts[fullest], {"written": counts[fullest], "others_on_average": rest},
            )  # fmt: skip
