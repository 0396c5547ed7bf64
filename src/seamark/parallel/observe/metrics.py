"""A parallel consumer's status as Prometheus text: what came, what became of it, and what holds it back.

Owns names and meanings. All is read from one ``Status``, so figures of one scrape belong together. Labels are the group
and, where it matters, topic and partition: keys and errors are not labels, as they would make series without end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from seamark.parallel.observe.status import PartitionStatus, State, Status
from seamark.prometheus_text import Family

_PREFIX = "seamark_parallel_"

_COUNTERS = {
    "polled": "Records polled.",
    "done": "Records processed by their handler.",
    "failed": "Handler calls that failed, including those that were retried.",
    "retried": "Retries of records.",
    "skipped": "Records skipped.",
    "dead_lettered": "Records written to a dead-letter topic.",
    "spared": "Records not run again because an earlier commit marked them as done.",
    "late": "Records that finished after their partition was revoked; their results are ignored.",
    "lost": "Records committed with at most once, then dropped with a revoked partition without being processed.",
    "unowned": "Records ignored because their partition was not assigned or was being revoked.",
    "foreign_metadata": "Commits found with metadata of another tool, which was ignored.",
}


def metrics_text(status: Status) -> str:
    """All families in Prometheus' text format."""
    parts = (_counters, _gauges, _partitions, _commits, _stalls, _set_aside)
    return "".join(family for part in parts for family in part(status))


def _counters(status: Status) -> Iterator[str]:
    for name, meaning in _COUNTERS.items():
        yield _family(f"{name}_total", "counter", meaning, [({"group": status.group}, status.tally.get(name, 0))])


def _gauges(status: Status) -> Iterator[str]:
    group = {"group": status.group}
    states = [({**group, "state": state.value}, int(state is status.state)) for state in State]
    yield _family("state", "gauge", "1 for the current state of the consumer.", states)
    for name, meaning, value in (
        ("in_flight_records", "Records polled and not finished.", status.in_flight),
        ("running_calls", "Handler calls in progress.", status.running),
        ("waiting_records", "Records waiting for a handler.", status.waiting),
        ("retrying_records", "Records waiting for their next attempt.", status.retrying),
        ("parked_records", "Records parked until skip(), dead_letter() or a restart.", len(status.parked)),
        ("held_bytes", "Bytes of all records held in memory.", status.held_bytes),
        ("buffer_bytes", "Limit on held_bytes; fetching is paused when it is reached.", status.buffer_bytes),
        ("uptime_seconds", "Seconds since the consumer was started.", round(status.uptime, 3)),
        ("assigned_partitions", "Partitions assigned to this consumer.", len(status.partitions)),
    ):
        yield _family(name, "gauge", meaning, [(group, value)])


def _partitions(status: Status) -> Iterator[str]:
    for name, meaning, samples in (
        ("position", "Next offset to poll.", _known(status, lambda partition: partition.position)),
        ("frontier", "First offset that is not safely done.", _known(status, lambda partition: partition.frontier)),
        ("committed", "Committed offset of the group.", _known(status, lambda partition: partition.committed)),
        ("log_end", "End of the log when it was last fetched.", _known(status, lambda partition: partition.log_end)),
        ("lag_records", "Offsets between the frontier and the end of the log.", _known(status, lag_of)),
        ("partition_in_flight", "Records in flight.", _known(status, lambda partition: partition.in_flight)),
        (
            "partition_paused",
            "1 while fetching is paused because the buffer is full.",
            _known(status, lambda partition: int(partition.is_paused)),
        ),
    ):
        yield _family(name, "gauge", meaning, samples)


def lag_of(partition: PartitionStatus) -> int:
    """How far a partition is behind; -1 if that is not known."""
    if partition.log_end < 0 or partition.frontier < 0:
        return -1
    return max(0, partition.log_end - partition.frontier)


def _commits(status: Status) -> Iterator[str]:
    group, commits = {"group": status.group}, status.commits
    answers = [
        ({**group, "answer": "accepted"}, commits.accepted),
        ({**group, "answer": "refused"}, commits.refused),
    ]
    yield _family("commits_total", "counter", "Partitions in commits, by result.", answers)
    for name, meaning, value in (
        ("commit_seconds", "Duration of the last commit.", commits.last_seconds),
        (
            "commit_failing_seconds",
            "Seconds for which commits have been failing; 0 while they succeed.",
            commits.failing_for,
        ),
        ("commit_metadata_length", "Maximum number of characters of the done-ahead map.", commits.metadata_length),
    ):
        yield _family(name, "gauge", meaning, [(group, value)])


def _stalls(status: Status) -> Iterator[str]:
    yield _family(
        "stalled_partitions",
        "gauge",
        "Partitions whose frontier has been held back by one record for longer than the stall limit.",
        [({"group": status.group}, len(status.stalls))],
    )
    ages, offsets = [], []
    for held in status.holding:
        labels = _labels(status, held.stall.partition.topic, held.stall.partition.partition)
        ages.append((labels, round(held.stall.age, 3)))
        offsets.append((labels, held.stall.offset))
    yield _family("stall_seconds", "gauge", "Seconds for which the record at the frontier has held it back.", ages)
    yield _family("stall_offset", "gauge", "Offset of the record at the frontier.", offsets)


def _set_aside(status: Status) -> Iterator[str]:
    meaning = "Partitions set aside because their next batch cannot be read."
    yield _family("set_aside_partitions", "gauge", meaning, [({"group": status.group}, len(status.set_aside))])
    offsets = [
        (_labels(status, aside.partition.topic, aside.partition.partition), aside.offset) for aside in status.set_aside
    ]
    yield _family("set_aside_offset", "gauge", "Offset of the batch that cannot be read.", offsets)


def _known(status: Status, figure: Callable[[PartitionStatus], int]) -> list[tuple[dict[str, object], float]]:
    """One sample for each partition of which the figure is known."""
    samples: list[tuple[dict[str, object], float]] = []
    for partition, known in status.partitions.items():
        value = figure(known)
        if value >= 0:
            samples.append((_labels(status, partition.topic, partition.partition), value))
    return samples


def _labels(status: Status, topic: str, partition: int) -> dict[str, object]:
    return {"group": status.group, "topic": topic, "partition": partition}


def _family(name: str, kind: str, meaning: str, samples: Sequence[tuple[Mapping[str, object], float]]) -> str:
    return Family(_PREFIX + name, kind, meaning).add_all(samples).text()
