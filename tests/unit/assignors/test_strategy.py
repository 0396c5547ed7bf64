from __future__ import annotations

import pytest

from seamark.assignors import (
    Assignor,
    CooperativeStickyAssignor,
    MemberAssignment,
    RangeAssignor,
    RebalanceProtocol,
    RoundRobinAssignor,
    StickyAssignor,
    common_protocol,
    load_assignors,
)
from seamark.errors import ConfigError


class Custom(Assignor):
    name = "custom"
    protocols = (RebalanceProtocol.COOPERATIVE,)

    def assign(self, cluster, members):
        return {member.member_id: MemberAssignment() for member in members}


class Nameless(Custom):
    name = ""


class Demanding(Custom):
    name = "demanding"

    def __init__(self, weight):
        self.weight = weight


def _names(strategy):
    return [assignor.name for assignor in load_assignors(strategy)]


def test_the_default_is_range_then_cooperative_sticky():  # E6
    assert [type(assignor) for assignor in load_assignors()] == [RangeAssignor, CooperativeStickyAssignor]


def test_the_default_rebalances_eagerly_until_range_is_dropped():  # E6
    assert common_protocol(load_assignors()) is RebalanceProtocol.EAGER
    assert common_protocol(load_assignors("cooperative-sticky")) is RebalanceProtocol.COOPERATIVE


@pytest.mark.parametrize("kind", [RangeAssignor, RoundRobinAssignor, StickyAssignor])
def test_three_built_ins_are_eager_only(kind):  # E12
    assert kind.protocols == (RebalanceProtocol.EAGER,)


def test_cooperative_sticky_supports_both_protocols():  # E12
    assert set(CooperativeStickyAssignor.protocols) == set(RebalanceProtocol)


def test_built_ins_are_known_by_protocol_name_and_by_kafkas_class_name():  # E5
    assert _names("range, roundrobin,sticky,cooperative-sticky") == [
        "range",
        "roundrobin",
        "sticky",
        "cooperative-sticky",
    ]
    package = "org.apache.kafka.clients.consumer."
    assert _names([package + "StickyAssignor", package + "RangeAssignor"]) == ["sticky", "range"]


@pytest.mark.parametrize("separator", [".", ":"])
def test_a_custom_assignor_is_named_by_its_dotted_class(separator):  # E1 E4
    assert _names([f"tests.unit.assignors.test_strategy{separator}Custom"]) == ["custom"]


def test_classes_and_instances_are_taken_in_the_order_of_preference():  # E4
    assert _names([Custom, CooperativeStickyAssignor()]) == ["custom", "cooperative-sticky"]
    assert _names(StickyAssignor) == ["sticky"]


def test_each_load_makes_assignors_of_its_own():
    assert load_assignors("sticky")[0] is not load_assignors("sticky")[0]


@pytest.mark.parametrize("empty", ["", " , ", []])
def test_no_assignor_at_all_is_refused(empty):  # E14
    with pytest.raises(ConfigError, match="needs at least one assignor"):
        load_assignors(empty)


@pytest.mark.parametrize(
    ("strategy", "sentence"),
    [
        ("rnage", "not one of range, roundrobin, sticky, cooperative-sticky"),
        ("no.such.Assignor", "there is no such class"),
        ("seamark.assignors.Missing", "there is no such class"),
        (".Relative", "dotted name of a class"),
        ("collections.OrderedDict", "not a subclass or an instance"),
        ([42], "not a subclass or an instance"),
        ([int], "not a subclass or an instance"),
        ("range,range", "the assignor name 'range' is used twice"),
        ([Nameless], "has no name"),
        ([Demanding], "cannot be made without arguments"),
        ([Assignor], "cannot be made without arguments"),
        ([Custom, "range"], "no rebalance protocol in common"),
    ],
)
def test_a_strategy_that_cannot_be_is_refused_with_the_reason(strategy, sentence):
    with pytest.raises(ConfigError, match=sentence) as refused:
        load_assignors(strategy)
    assert refused.value.option == "partition.assignment.strategy"
