"""What the poller saw, in Prometheus' text format.

A group or partition that is gone is gone from the text too; what did not answer has no lag rather than a wrong one, and
neither has a partition without a committed offset, or with one beyond the log's end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from seamark.monitor.poller import Poller, Seen
from seamark.prometheus_text import Family
from seamark.rules.status import Status

_Sample = tuple[dict[str, str], float]


def metrics_text(poller: Poller) -> str:
    return "".join(_families(poller))


def _families(poller: Poller) -> Iterator[str]:
    seen = poller.seen
    yield _family("seamark_exporter_looks_total", "counter", "Successful polls of the cluster.", [({}, seen.looks)])
    yield _family("seamark_exporter_failures_total", "counter", "Failed polls of the cluster.", [({}, seen.failures)])
    look = seen.look
    if look is None:
        return
    yield _family(
        "seamark_exporter_look_age_seconds", "gauge", "Time since the last successful poll.", [({}, look.age)]
    )
    yield _family(
        "seamark_exporter_look_seconds", "gauge", "Duration of the last successful poll.", [({}, look.seconds)]
    )
    yield from _groups(seen)
    yield from _partitions(poller)


def _groups(seen: Seen) -> Iterator[str]:
    assert seen.look is not None
    groups = seen.look.scan.groups
    yield _family(
        "seamark_group_members", "gauge", "Members of the group.",
        [({"group": view.group_id}, len(view.description.members)) for view in groups],
    )  # fmt: skip
    yield _family(
        "seamark_group_info", "gauge", "1, with properties of the group as labels.",
        [
            (
                {
                    "group": view.group_id, "state": view.description.state, "type": view.description.type,
                    "assignor": view.description.assignor,
                },
                1,
            )
            for view in groups
        ],
    )  # fmt: skip
    yield _family(
        "seamark_group_unreadable", "gauge", "1 if the group or its committed offsets could not be read.",
        [({"group": view.group_id}, int(view.error is not None)) for view in groups]
        + [({"group": name}, 1) for name in sorted(seen.look.scan.failed)],
    )  # fmt: skip
    yield _family(
        "seamark_group_lag_records", "gauge", "Sum of seamark_lag_records over the group.",
        [({"group": view.group_id}, lag) for view in groups if (lag := view.records_behind) is not None],
    )  # fmt: skip
    yield _family(
        "seamark_group_unfinished_records", "gauge", "Part of the group's lag that is neither lost nor done ahead.",
        [({"group": view.group_id}, left) for view in groups if (left := view.unfinished) is not None],
    )  # fmt: skip
    yield _family(
        "seamark_group_lost_records", "gauge", "Part of the group's lag that was deleted before it was read.",
        [({"group": view.group_id}, view.lost) for view in groups],
    )  # fmt: skip
    yield _family(
        "seamark_group_partitions_unknown", "gauge", "Partitions of the group that could not be read.",
        [({"group": view.group_id}, view.partitions_unknown) for view in groups],
    )  # fmt: skip
    yield _family(
        "seamark_group_partitions_uncommitted", "gauge", "Partitions of the group without a committed offset.",
        [({"group": view.group_id}, view.partitions_uncommitted) for view in groups],
    )  # fmt: skip


def _partitions(poller: Poller) -> Iterator[str]:
    look = poller.seen.look
    assert look is not None
    offsets: list[_Sample] = []
    ends: list[_Sample] = []
    lags: list[_Sample] = []
    lost: list[_Sample] = []
    ahead: list[_Sample] = []
    beyond: list[_Sample] = []
    ages: list[_Sample] = []
    states: list[_Sample] = []
    for view in look.scan.groups:
        for partition in view.partitions:
            labels = {
                "group": view.group_id,
                "topic": partition.partition.topic,
                "partition": str(partition.partition.partition),
            }
            if partition.committed is not None:
                offsets.append((labels, partition.committed.offset))
            if partition.bounds.log_end is not None:
                ends.append((labels, partition.bounds.log_end))
            lag = partition.lag
            # A negative lag would take from every sum.
            if lag.records is not None and not lag.beyond:
                lags.append((labels, lag.records))
            for samples, count in ((lost, lag.lost), (ahead, lag.done_ahead), (beyond, lag.beyond)):
                if count:
                    samples.append((labels, count))
            if (age := look.times.get((view.group_id, partition.partition))) is not None:
                ages.append((labels, age.seconds))
            state = poller.watching.status(view.group_id, partition.partition)
            # No trouble until the members have had time to come back; then it is stopped.
            if state not in (Status.OK, Status.UNKNOWN, Status.NO_MEMBERS):
                states.append(({**labels, "status": state.value}, 1))
    yield _family("seamark_committed_offset", "gauge", "The committed offset.", offsets)
    # Of the group: the broker itself serves seamark_log_end_offset, without one.
    yield _family("seamark_group_log_end_offset", "gauge", "Log end offset of a partition that the group reads.", ends)
    yield _family("seamark_lag_records", "gauge", "The log's end minus the committed offset.", lags)
    yield _family(
        "seamark_lost_records", "gauge", "Part of the lag that was deleted before it was read; omitted if 0.", lost
    )
    yield _family(
        "seamark_done_ahead_records", "gauge", "Part of the lag that was finished out of order; omitted if 0.", ahead
    )
    yield _family(
        "seamark_beyond_end_records", "gauge", "How far the committed offset is beyond the log's end; omitted if 0.",
        beyond,
    )  # fmt: skip
    yield _family("seamark_lag_seconds", "gauge", "Age of the first unread record, or a lower bound of it.", ages)
    yield _family(
        "seamark_partition_trouble", "gauge", "1 for an unhealthy partition; the label status says how.", states
    )


def _family(name: str, kind: str, meaning: str, samples: Iterable[_Sample]) -> str:
    """A family; nothing where there is nothing to tell, and no label without a text."""
    known = [({label: text for label, text in labels.items() if text}, value) for labels, value in samples]
    return Family(name, kind, meaning).add_all(known).text() if known else ""
