from __future__ import annotations

import pickle

import pytest

from seamark.assignors import BadAssignment, MemberAssignment, check_assignments
from tests.unit.assignors.notation import cluster, member, partitions


def _check(assignments, *members, is_cooperative=False):
    answer = {name: MemberAssignment(partitions(text)) for name, text in assignments.items()}
    check_assignments("custom", cluster(t0=2, t1=2), members, answer, is_cooperative=is_cooperative)


def test_an_assignment_may_leave_partitions_out():
    _check({"a": "t0-0", "b": ""}, member("a", "t0"), member("b", "t0"))


@pytest.mark.parametrize(
    ("assignments", "sentence"),
    [
        ({"a": "t0-0"}, "member b has no assignment"),
        ({"a": "", "b": "", "c": "t0-0"}, "c is not a member of the group"),
        ({"a": "t1-0", "b": ""}, "t1-0 went to a, which does not subscribe to it"),
        ({"a": "t0-2", "b": ""}, "t0-2 went to a but does not exist"),
        ({"a": "later-0", "b": ""}, "later-0 went to a but does not exist"),
        ({"a": "t0-0", "b": "t0-0"}, "t0-0 went to a and to b"),
    ],
)
def test_what_no_group_should_be_told_is_refused(assignments, sentence):
    with pytest.raises(BadAssignment) as refused:
        _check(assignments, member("a", "t0 later"), member("b", "t0"))
    assert refused.value.faults == (sentence,)
    assert str(refused.value) == f"assignor 'custom': {sentence}"


def test_several_faults_are_counted_in_the_sentence_and_survive_pickling():
    with pytest.raises(BadAssignment, match=r"and 1 more\)$") as refused:
        _check({"a": "t0-0 t1-0", "b": "t0-0"}, member("a", "t0"), member("b", "t0"))
    assert pickle.loads(pickle.dumps(refused.value)).faults == refused.value.faults


def test_a_partition_may_not_change_hands_at_once_when_members_cooperate():
    members = member("a", "t0", owned="t0-0"), member("b", "t0")
    with pytest.raises(BadAssignment, match="t0-0 went to b before a has revoked it"):
        _check({"a": "", "b": "t0-0"}, *members, is_cooperative=True)
    _check({"a": "", "b": "t0-0"}, *members, is_cooperative=False)
    _check({"a": "", "b": ""}, *members, is_cooperative=True)
