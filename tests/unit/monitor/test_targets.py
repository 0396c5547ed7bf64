"""What ``--to`` means, partition by partition, without a broker."""

import pytest

from seamark.cli.show.durations import seconds_of, time_ms_of
from seamark.client import Offset, TopicPartition
from seamark.errors import UsageError
from seamark.monitor.targets import Target, aim, parse_target
from seamark.plans.plan import ClusterState, LogRange, TopicState

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)
STATE = ClusterState(
    "c", {"t": TopicState("", 2)}, {}, {"g": {ONE: Offset(50)}}, {ONE: LogRange(10, 100), TWO: LogRange(0, 20)}
)


def parsed(text):
    return parse_target(text, now_ms=10_000_000, time_ms_of=time_ms_of, seconds_of=seconds_of)


def wanted(text, **more):
    return aim(parsed(text), "g", [ONE, TWO], STATE, **more).wanted


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", {ONE: 10, TWO: 0}),
        ("latest", {ONE: 100, TWO: 20}),
        ("offset:15", {ONE: 15, TWO: 15}),
        ("offset:30", {ONE: 30, TWO: 30}),
        ("offset:0", {ONE: 0, TWO: 0}),
        ("shift:-10", {ONE: 40}),
        ("shift:-1000", {ONE: -950}),
        ("shift:1000", {ONE: 1050}),
    ],
)
def test_each_way_means_an_offset_in_the_log_or_outside_and_none_is_moved_unasked(text, expected):
    assert wanted(text) == expected


def test_a_time_means_the_first_record_not_before_it_or_the_end():
    found = aim(parsed("ago:1h"), "g", [ONE, TWO], STATE, at_time={ONE: 33, TWO: -1})
    assert found.wanted == {ONE: 33, TWO: 20}
    assert "the log's end" in found.remarks[TWO]
    assert parsed("ago:1h") == Target("time", 10_000_000 - 3_600_000)
    assert parsed("time:1970-01-01T00:00:05Z") == Target("time", 5_000)


def test_another_groups_offsets_are_taken_where_it_has_some():
    found = aim(parsed("group:other"), "g", [ONE, TWO], STATE, elsewhere={ONE: Offset(12)})
    assert found.wanted == {ONE: 12}
    assert "'other' has no offset" in found.refused[TWO]


def test_a_lakes_offsets_are_taken_where_it_remembers_some():
    target = parsed("lake:1970-01-01T00:00:05Z")
    assert target == Target("lake", 5_000, "1970-01-01T00:00:05Z")
    found = aim(target, "g", [ONE, TWO], STATE, elsewhere={ONE: Offset(5, "then")})
    assert found.wanted == {ONE: 5}
    assert found.refused == {TWO: "the lake at 1970-01-01T00:00:05Z has no offset for it"}


def test_what_cannot_be_aimed_at_is_said():
    assert "no committed offset to shift" in aim(parsed("shift:5"), "g", [TWO], STATE).refused[TWO]
    gone = TopicPartition("t", 7)
    assert aim(parsed("latest"), "g", [gone], STATE).refused == {gone: "it does not exist"}


@pytest.mark.parametrize(
    "text", ["", "newest", "offset:", "offset:x", "offset:-1", "shift:1.5", "ago:soon", "time:yesterday", "group:"]
)
def test_what_is_not_a_target_is_refused_in_a_sentence(text):
    with pytest.raises(UsageError):
        parsed(text)
