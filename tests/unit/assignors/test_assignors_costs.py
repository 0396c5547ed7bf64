"""One member with an odd subscription must not make the leader compare every partition with every member."""

from __future__ import annotations

import pytest

from seamark.assignors import ClusterTopics, MemberSubscription, StickyAssignor
from seamark.assignors.unequal_subscriptions import UnequalSubscriptions


def looks_of(count: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many sizes are looked at for so many members and partitions of ten topics."""
    looked = 0
    plain = UnequalSubscriptions._least_loaded

    def counted(self: UnequalSubscriptions, numbers: list[int]) -> int:
        nonlocal looked
        looked += len(numbers)
        return plain(self, numbers)

    topics = tuple(f"t{number}" for number in range(10))
    members = [MemberSubscription(member_id=f"m{number:05}", topics=topics) for number in range(count)]
    members.append(MemberSubscription(member_id="odd", topics=topics[:1]))
    with monkeypatch.context() as patched:
        patched.setattr(UnequalSubscriptions, "_least_loaded", counted)
        assigned = StickyAssignor().assign(ClusterTopics(dict.fromkeys(topics, count)), members)
    assert sum(len(each.partitions) for each in assigned.values()) == 10 * count
    return looked


def test_looks_grow_with_the_members_and_not_with_members_times_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    assert looks_of(400, monkeypatch) <= 6 * looks_of(100, monkeypatch)
