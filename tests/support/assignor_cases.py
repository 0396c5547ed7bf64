"""Random groups for assignors: clusters, members with what they claim to own, and the rounds in which they change.

A case is a (cluster, members) pair. ``life`` plays a group through several rebalances with a given assignor, so that
claims are those that real members would make: some join, leave, change their subscription, miss a round and come back
with an old generation, and topics grow. ``claims_out_of_nowhere`` makes a single case whose claims contradict each
other.
"""

from __future__ import annotations

import dataclasses
import random
import uuid
from collections.abc import Callable, Iterator

from seamark.assignors import Assignor, ClusterTopics, MemberAssignment, MemberSubscription, TopicPartition
from seamark.assignors.previous_assignment import encode_owned

RACKS = ("a", "b", "c")
Case = tuple[ClusterTopics, list[MemberSubscription]]


def _member_id(rng: random.Random) -> str:
    style = rng.random()
    if style < 0.3:
        return f"C{rng.randrange(100)}"
    if style < 0.9:
        return f"consumer-{rng.randrange(5)}-{uuid.UUID(int=rng.getrandbits(128))}"
    # Above and below the surrogates, where UTF-16 order is not the order of code points.
    return rng.choice("é\uff5e\U0001f600") + str(rng.randrange(100))


def _racks(rng: random.Random, topics: dict[str, int], style: str) -> dict[TopicPartition, frozenset[str]]:
    if style == "none":
        return {}
    racks = {}
    for topic, count in topics.items():
        for index in range(count):
            chosen = RACKS if style == "all" else rng.sample(RACKS, rng.choice((0, 1, 1, 2, 2, 3)))
            racks[TopicPartition(topic, index)] = frozenset(chosen)
    return racks


def _cluster(rng: random.Random, topics: dict[str, int], style: str) -> ClusterTopics:
    return ClusterTopics(dict(topics), _racks(rng, topics, style))


def _topics(rng: random.Random) -> dict[str, int]:
    names = rng.sample([f"t{number}" for number in range(8)] + ["orders", "clicks.eu-west_1"], rng.randint(1, 6))
    same_count = rng.random() < 0.4 and rng.randint(1, 9)
    return {name: same_count or rng.randint(1, 9) for name in names}


def _subscription(rng: random.Random, topics: dict[str, int], equal: bool) -> tuple[str, ...]:
    if equal:
        return (*sorted(topics), "not-there")
    chosen = rng.sample(sorted(topics), rng.randint(1, len(topics)))
    return (*chosen, "not-there") if rng.random() < 0.2 else tuple(chosen)


def _new_member(rng: random.Random, topics: dict[str, int], equal: bool, has_racks: bool) -> MemberSubscription:
    return MemberSubscription(
        _member_id(rng),
        _subscription(rng, topics, equal),
        rack=rng.choice((*RACKS, "d", None)) if has_racks else None,
        instance_id=f"i{rng.randrange(1000)}" if rng.random() < 0.15 else None,
    )


def _joined_by(rng: random.Random, members: list[MemberSubscription], newcomers: list[MemberSubscription]) -> list:
    """The group with those newcomers that share no id with anyone."""
    joined = list(members)
    for newcomer in newcomers:
        if all(
            newcomer.member_id != other.member_id
            and (newcomer.instance_id is None or newcomer.instance_id != other.instance_id)
            for other in joined
        ):
            joined.append(newcomer)
    rng.shuffle(joined)
    return joined


def remembering(member: MemberSubscription, assignment: MemberAssignment, generation: int) -> MemberSubscription:
    """The member as it joins the next round after it was given ``assignment``."""
    return dataclasses.replace(
        member,
        owned=assignment.partitions,
        generation=generation,
        user_data=encode_owned(assignment.partitions, generation),
    )


def life(
    rng: random.Random, make_assignor: Callable[[], Assignor], *, equal: bool, rounds: int = 6, most_members: int = 9
) -> Iterator[Case]:
    """The cases of one group's rebalances."""
    topics = _topics(rng)
    rack_style = rng.choice(("none", "none", "some", "some", "all"))
    cluster = _cluster(rng, topics, rack_style)
    has_racks = rng.random() < 0.7
    members = _joined_by(
        rng, [], [_new_member(rng, topics, equal, has_racks) for _ in range(rng.randint(1, most_members))]
    )
    for generation in range(1, rounds + 1):
        yield cluster, members
        assignments = make_assignor().assign(cluster, members)
        following = []
        for member in members:
            if rng.random() < 0.15:
                continue
            if rng.random() < 0.15:
                following.append(member)  # missed the round: still claims what it had before
                continue
            following.append(remembering(member, assignments[member.member_id], generation))
        if rng.random() < 0.4:
            topic = rng.choice(sorted(topics))
            topics[topic] += rng.randint(1, 3)
            cluster = _cluster(rng, topics, rack_style)
        if not equal and rng.random() < 0.4 and following:
            at = rng.randrange(len(following))
            following[at] = dataclasses.replace(following[at], topics=_subscription(rng, topics, equal))
        newcomers = [_new_member(rng, topics, equal, has_racks) for _ in range(rng.choice((0, 0, 1, 2, 4)))]
        members = _joined_by(rng, following, newcomers)
        if not members:
            members = [_new_member(rng, topics, equal, has_racks)]


def claims_out_of_nowhere(rng: random.Random, *, equal: bool, most_members: int = 8) -> Case:
    """A group whose members claim random partitions in random generations."""
    topics = _topics(rng)
    has_racks = rng.random() < 0.5
    cluster = _cluster(rng, topics, rng.choice(("none", "some", "all")))
    everything = list(cluster.partitions_of(topics))
    members = _joined_by(
        rng, [], [_new_member(rng, topics, equal, has_racks) for _ in range(rng.randint(1, most_members))]
    )
    claimed = []
    for member in members:
        owned = tuple(rng.sample(everything, rng.randint(0, len(everything) // 2)))
        claimed.append(remembering(member, MemberAssignment(owned), rng.choice((1, 2, 2, 3))))
    return cluster, claimed
