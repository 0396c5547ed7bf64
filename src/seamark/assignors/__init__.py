"""Partition assignors: who of a consumer group reads what, decided by the group's leader.

Pure functions of the cluster and the members' subscriptions: no I/O, no clock, no randomness, and the order of the
members does not matter. The four built-ins answer as those of Apache Kafka 4.3 do. ``contract`` is what a custom
assignor implements, and ``strategy`` how one is named in configuration.
"""

from seamark.assignors.contract import (
    NO_GENERATION,
    Assignments,
    Assignor,
    ClusterTopics,
    MemberAssignment,
    MemberSubscription,
    RebalanceProtocol,
)
from seamark.assignors.cooperative_sticky import CooperativeStickyAssignor
from seamark.assignors.range import RangeAssignor
from seamark.assignors.round_robin import RoundRobinAssignor
from seamark.assignors.sticky import StickyAssignor
from seamark.assignors.strategy import DEFAULT_STRATEGY, common_protocol, load_assignors
from seamark.assignors.verification import BadAssignment, check_assignments
from seamark.topic_partition import TopicPartition

__all__ = [
    "DEFAULT_STRATEGY",
    "NO_GENERATION",
    "Assignments",
    "Assignor",
    "BadAssignment",
    "ClusterTopics",
    "CooperativeStickyAssignor",
    "MemberAssignment",
    "MemberSubscription",
    "RangeAssignor",
    "RebalanceProtocol",
    "RoundRobinAssignor",
    "StickyAssignor",
    "TopicPartition",
    "check_assignments",
    "common_protocol",
    "load_assignors",
]
