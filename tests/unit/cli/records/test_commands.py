"""What ``seamark consume --group`` commits while its group is being assigned anew."""

from __future__ import annotations

from seamark.cli.records.commands import _commit
from seamark.client.errors import RebalanceInProgress
from seamark.topic_partition import TopicPartition

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


class Member:
    def __init__(self, assigned, refusals):
        self.assigned, self.refusals = assigned, refusals
        self.committed = []

    def assignment(self):
        return self.assigned

    def commit(self, offsets):
        if self.refusals:
            self.refusals -= 1
            raise RebalanceInProgress("the member is joining the group")
        self.committed.append(offsets)


def test_a_commit_that_meets_a_rebalance_is_made_again_for_what_is_still_ours():
    member = Member({FIRST, SECOND}, refusals=1)
    waiting = _commit(member, {FIRST: 3, SECOND: 5})
    assert waiting == {FIRST: 3, SECOND: 5}
    member.assigned = {SECOND}
    assert _commit(member, waiting) == {}
    assert member.committed == [{SECOND: 5}]


def test_nothing_is_committed_of_partitions_that_others_have():
    member = Member(set(), refusals=0)
    assert _commit(member, {FIRST: 3}) == {}
    assert member.committed == []
