from __future__ import annotations

import random
from collections import Counter
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.assignors import (
    ClusterTopics,
    CooperativeStickyAssignor,
    MemberAssignment,
    MemberSubscription,
    RangeAssignor,
    StickyAssignor,
    TopicPartition,
)
from seamark.assignors.balance import balance_score
from seamark.assignors.previous_assignment import decode_generation, decode_owned, encode_owned
from tests.support.assignor_cases import claims_out_of_nowhere, life, remembering

partition_addresses = st.builds(
    TopicPartition, st.text(st.characters(codec="utf-8"), max_size=20), st.integers(0, 2**31 - 1)
)
generations = st.integers(-1, 2**31 - 1)


@settings(max_examples=200, deadline=None)
@given(st.lists(partition_addresses, max_size=20), generations)
def test_a_memory_reads_back_as_it_was_written(partitions, generation):
    assert decode_owned(encode_owned(partitions, generation)) == (tuple(sorted(set(partitions))), generation)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=80))
def test_any_bytes_are_a_memory_or_none(user_data):
    owned, generation = decode_owned(user_data)
    assert all(isinstance(partition, TopicPartition) for partition in owned)
    assert -(2**31) <= generation < 2**31
    assert -(2**31) <= decode_generation(user_data) < 2**31


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 50), max_size=12))
def test_the_score_is_the_sum_over_all_pairs(sizes):
    assert balance_score(sizes) == sum(abs(one - other) for one, other in combinations(sizes, 2))


@st.composite
def groups_with_disjoint_claims(draw):
    """Members with one subscription and no racks, each owning some partitions that no other owns."""
    cluster = ClusterTopics(draw(st.dictionaries(st.sampled_from("abcd"), st.integers(1, 12), min_size=1)))
    count = draw(st.integers(1, 8))
    owner_of = {
        partition: draw(st.integers(-1, count - 1)) for partition in cluster.partitions_of(cluster.partition_counts)
    }
    members = []
    for number in range(count):
        owned = tuple(partition for partition, owner in owner_of.items() if owner == number)
        subscription = MemberSubscription(f"member-{draw(st.integers(0, 10**6))}-{number}", tuple("abcd"))
        members.append(remembering(subscription, MemberAssignment(owned), 1))
    return cluster, members


@settings(max_examples=200, deadline=None)
@given(groups_with_disjoint_claims())
def test_equal_subscribers_keep_as_much_as_even_shares_allow(group):  # E9
    cluster, members = group
    answer = StickyAssignor().assign(cluster, members)
    smaller, larger_shares = divmod(sum(cluster.partition_counts.values()), len(members))
    assert Counter(len(given.partitions) for given in answer.values()) == Counter(
        [smaller] * (len(members) - larger_shares) + [smaller + 1] * larger_shares
    )
    kept = sum(len(set(member.owned) & set(answer[member.member_id].partitions)) for member in members)
    with_more = sum(len(member.owned) > smaller for member in members)
    assert kept == sum(min(len(member.owned), smaller) for member in members) + min(with_more, larger_shares)


@settings(max_examples=200, deadline=None)
@given(groups_with_disjoint_claims())
def test_cooperation_ends_after_one_handover(group):  # E11
    cluster, members = group
    target = StickyAssignor().assign(cluster, members)
    first = CooperativeStickyAssignor().assign(cluster, members)
    withheld = 0
    for member in members:
        name = member.member_id
        assert set(first[name].partitions) <= set(target[name].partitions)
        withheld += len(target[name].partitions) - len(first[name].partitions)
    moving = sum(len(set(member.owned) - set(target[member.member_id].partitions)) for member in members)
    assert withheld == moving

    rejoining = [remembering(member, first[member.member_id], 2) for member in members]
    second = CooperativeStickyAssignor().assign(cluster, rejoining)
    assert sum(len(given.partitions) for given in second.values()) == sum(cluster.partition_counts.values())
    for member in rejoining:
        assert set(member.owned) <= set(second[member.member_id].partitions)


seeds = st.integers(0, 2**32).map(random.Random)


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_no_single_move_would_improve_a_sticky_assignment(rng):  # E9
    for cluster, members in [*life(rng, StickyAssignor, equal=False), claims_out_of_nowhere(rng, equal=False)]:
        answer = StickyAssignor().assign(cluster, members)
        for member in members:
            given_topics = {partition.topic for partition in answer[member.member_id].partitions}
            for other in members:
                if given_topics.intersection(other.topics):
                    size, other_size = (len(answer[one.member_id].partitions) for one in (member, other))
                    assert other_size >= size - 1


@settings(max_examples=60, deadline=None)
@given(seeds, st.booleans())
def test_range_shares_obey_the_rule_with_and_without_racks(rng, equal):  # E7
    for cluster, members in life(rng, RangeAssignor, equal=equal):
        answer = RangeAssignor().assign(cluster, members)
        for topic, count in cluster.partition_counts.items():
            subscribers = [member.member_id for member in members if topic in member.topics]
            if not subscribers:
                continue
            smaller, larger_shares = divmod(count, len(subscribers))
            sizes = [sum(partition.topic == topic for partition in answer[name].partitions) for name in subscribers]
            assert sorted(sizes) == [smaller] * (len(subscribers) - larger_shares) + [smaller + 1] * larger_shares


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_range_gives_the_same_indexes_of_topics_that_are_cut_alike(rng):  # E7
    for cluster, members in life(rng, RangeAssignor, equal=True):
        answer = RangeAssignor().assign(cluster, members)
        for one, other in combinations(cluster.partition_counts, 2):
            if cluster.partition_counts[one] == cluster.partition_counts[other]:
                for given in answer.values():
                    assert _indexes(given, one) == _indexes(given, other)


def _indexes(assignment, topic):
    return [index for name, index in assignment.partitions if name == topic]
