"""Who is told what about partitions that change hands, and when: the eager and the cooperative way (C30, I29).

Eager members give up everything before they join. Cooperative members keep what they have while the group rebalances,
give up afterwards what went to others, and join once more so that those can have it. A member that the group no longer
knows has lost its partitions: another may own them already, so nothing may be committed for them any more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from seamark.assignors import RebalanceProtocol
from seamark.client.core.effects import ListenerCall
from seamark.client.core.membership.generation import Generation
from seamark.topic_partition import TopicPartition

Partitions = tuple[TopicPartition, ...]


class Handover(NamedTuple):
    """One step: which listener method hears of which partitions (none if ``call`` is None), and what is kept."""

    call: ListenerCall | None
    partitions: Partitions
    kept: Partitions


class Difference(NamedTuple):
    """What an assignment changes for a cooperative member; an eager one owned nothing, so that all is added."""

    revoked: Partitions
    added: Partitions


def before_join(
    protocol: RebalanceProtocol, owned: Partitions, topics: Collection[str], generation: Generation
) -> Handover:
    if generation.is_reset:
        return Handover(ListenerCall.LOST if owned else None, owned, ())
    if protocol is RebalanceProtocol.EAGER:
        return Handover(ListenerCall.REVOKED, owned, ())
    unwanted = tuple(partition for partition in owned if partition.topic not in topics)
    kept = tuple(partition for partition in owned if partition.topic in topics)
    return Handover(ListenerCall.REVOKED if unwanted else None, unwanted, kept)


def before_leave(owned: Partitions, generation: Generation, *, is_joining: bool) -> Handover:
    if not owned:
        return Handover(None, (), ())
    return Handover(ListenerCall.LOST if generation.is_reset or is_joining else ListenerCall.REVOKED, owned, ())


def after_sync(owned: Iterable[TopicPartition], assigned: Partitions) -> Difference:
    had = set(owned)
    got = set(assigned)
    return Difference(revoked=tuple(sorted(had - got)), added=tuple(sorted(got - had)))
