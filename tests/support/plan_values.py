"""Plans and cluster states for tests: small builders, and Hypothesis strategies over any of them."""

from __future__ import annotations

from hypothesis import strategies as st

from seamark.client import Offset, TopicPartition
from seamark.plans import Change, ClusterState, GroupChanges, Plan
from seamark.plans.plan import GroupState, LogRange, TopicState

CLUSTER = "cluster-a"
ORDERS = "orders"


def at(index: int, topic: str = ORDERS) -> TopicPartition:
    return TopicPartition(topic, index)


def state(
    committed=None,
    *,
    cluster_id=CLUSTER,
    topics=None,
    groups=None,
    logs=None,
    unreadable=None,
) -> ClusterState:
    """A cluster with topic orders (id "aa", four partitions, each holding 10 up to 100) unless told otherwise."""
    return ClusterState(
        cluster_id,
        {ORDERS: TopicState("aa", 4)} if topics is None else topics,
        groups or {},
        committed or {},
        {at(index): LogRange(10, 100) for index in range(4)} if logs is None else logs,
        unreadable or {},
    )


def plan(*changes: Change, group="g", cluster_id=CLUSTER, **fields) -> Plan:
    made = {"created_ms": 1000, "made_by": "test", "why": "", "topic_ids": {ORDERS: "aa"}} | fields
    return Plan(cluster_id=cluster_id, groups=(GroupChanges(group, tuple(changes)),), **made)


def change(index: int, before: Offset | int | None, after: Offset | int | None) -> Change:
    return Change(at(index), _offset(before), _offset(after))


def active(*members: str, kind="classic") -> GroupState:
    return GroupState("Stable", kind, True, members)


def _offset(value: Offset | int | None) -> Offset | None:
    return Offset(value) if isinstance(value, int) else value


texts = st.text(max_size=12)
offsets = st.builds(Offset, st.integers(0, 2**63 - 1), texts, st.integers(-1, 2**31 - 1))
partitions = st.builds(TopicPartition, st.sampled_from(["a", "b", "ö", "c.d-e"]), st.integers(0, 5))
# What a group has or should have; few values, so that before, after and now often coincide.
few_offsets = st.none() | st.builds(Offset, st.integers(0, 3), st.sampled_from(["", "m"]))
offsets_of_groups = st.dictionaries(
    st.sampled_from(["g", "h", "grün"]), st.dictionaries(partitions, few_offsets, max_size=5), max_size=3
)


@st.composite
def plans(draw) -> Plan:
    groups = []
    for group in sorted(draw(st.sets(texts, max_size=3))):
        named = sorted(draw(st.sets(partitions, min_size=1, max_size=5)))
        groups.append(
            GroupChanges(
                group,
                tuple(Change(each, draw(st.none() | offsets), draw(st.none() | offsets)) for each in named),
            )
        )
    return Plan(
        draw(texts),
        draw(st.integers(0, 10**14)),
        draw(texts),
        draw(texts),
        draw(st.dictionaries(texts, texts, max_size=3)),
        tuple(groups),
        draw(st.none() | texts),
    )


def everywhere(committed) -> ClusterState:
    """A cluster that has every partition the strategies name, with these offsets committed."""
    names = ["a", "b", "ö", "c.d-e"]
    return state(
        {
            group: {each: offset for each, offset in some.items() if offset is not None}
            for group, some in committed.items()
        },
        topics={name: TopicState("", 6) for name in names},
        logs={TopicPartition(name, index): LogRange(0, 3) for name in names for index in range(6)},
    )
