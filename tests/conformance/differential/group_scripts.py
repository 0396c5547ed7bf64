"""Scripts about groups: good and bad requests of every group API, over all versions that both brokers serve.

Each function is a script of its own with fresh names; ``SCRIPTS`` lists them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tests.conformance.differential.group_requests import (
    NOBODY,
    RANGE,
    commit_fields,
    fetch_fields,
    join,
    join_fields,
    subscription,
    sync_fields,
)
from tests.conformance.differential.script import Recorder


def find_coordinators(r: Recorder) -> None:
    group = r.name("found")
    r.coordinate(group)
    for version in range(7):
        for note, key, key_type in (
            ("group", group, 0),
            ("empty key", "", 0),
            ("share", "x", 2),
            ("bad type", group, 9),
        ):
            if version == 0 and key_type:
                continue
            fields: dict[str, Any] = {"key": key} if version < 4 else {"coordinator_keys": [key, group]}
            if version:
                fields["key_type"] = key_type
            r.ask("FindCoordinator", version, note, **fields)
    r.ask("FindCoordinator", 4, "no keys", coordinator_keys=[])


def simple_commits(r: Recorder) -> None:
    """Without membership: what is accepted, what is refused, and what comes back."""
    topic = r.create_topic("simple", 3)
    groups = {version: r.name(f"simple-v{version}") for version in range(2, 10)}
    missing = r.name("missing")
    r.coordinate(*groups.values(), missing, "")
    for version, group in groups.items():

        def commit(note: str, *partitions: int, group: str = group, version: int = version, **more: Any) -> None:
            name = more.pop("name", topic)
            r.ask("OffsetCommit", version, note, **commit_fields(group, name, version, *partitions, **more))

        commit("good", 0, 1)
        commit("unknown topic", 0, name=r.name("absent"))
        commit("unknown partition", 3, -1)
        commit("known and unknown partition", 0, 7, 1, 8)
        commit("longest metadata", 0, metadata="m" * 4096)
        commit("metadata too long", 1, metadata="m" * 4097)
        commit("null metadata", 0, metadata=None)
        commit("negative offset", 2, offset=-5)
        commit("smaller offset", 0, offset=7)
        commit("with a generation", 0, generation_id_or_member_epoch=5)
        commit("with a member", 0, member_id=NOBODY)
        commit("generation to a missing group", 0, group=missing, generation_id_or_member_epoch=0)
        commit("empty group id", 0, group="")
        commit("nothing")
        if version <= 4:
            commit("with a retention time", 0, retention_time_ms=1_000_000, offset=77)
        if version >= 7:
            commit("with an instance id", 0, group_instance_id="i")
        r.ask("OffsetCommit", version, "no topics", group_id=group, topics=[])
        two = (
            commit_fields(group, topic, version, 0)["topics"]
            + commit_fields(group, r.name("none"), version, 0)["topics"]
        )
        r.ask("OffsetCommit", version, "known after unknown topic", group_id=group, topics=two[::-1])
        r.ask("OffsetCommit", version, "the same topic twice", group_id=group, topics=[two[0], two[0]])
    for version in range(1, 10):
        group = groups[min(version + 1, 9)]
        asked = {topic: [0, 1, 2, 9], r.name("unknown"): [0]}
        r.ask("OffsetFetch", version, "some", **fetch_fields(group, version, asked))
        r.ask("OffsetFetch", version, "missing group", **fetch_fields(missing, version, {topic: [0]}))
        r.ask("OffsetFetch", version, "no topics", **fetch_fields(group, version, {}))
        r.ask("OffsetFetch", version, "empty group id", **fetch_fields("", version, {topic: [0]}))
        if version >= 2:
            r.ask("OffsetFetch", version, "all", **fetch_fields(group, version, None))
            r.ask("OffsetFetch", version, "all of a missing group", **fetch_fields(missing, version, None))
        if version >= 7:
            r.ask("OffsetFetch", version, "stable", **fetch_fields(group, version, asked), require_stable=True)
        if version >= 8:
            several = [fetch_fields(each, 8, {topic: [0]})["groups"][0] for each in (group, missing, "")]
            several.append(fetch_fields(group, 8, None)["groups"][0])
            r.ask("OffsetFetch", version, "several groups", groups=several)
            r.ask("OffsetFetch", version, "no group", groups=[])
        if version >= 9:
            r.ask("DeleteGroups", 2, "empty group id", groups_names=["", missing])
            known = fetch_fields(group, 9, {topic: [0]})["groups"][0]
            r.ask("OffsetFetch", version, "with a member", groups=[known | {"member_id": NOBODY, "member_epoch": 3}])


def bad_joins(r: Recorder) -> None:
    for version in range(10):
        group = r.name(f"bad-join-v{version}")
        r.coordinate(group)

        def ask(note: str, *, version: int = version, group: str = group, **more: Any) -> Any:
            return r.ask("JoinGroup", version, note, **join_fields(group, version=version, **more))

        for timeout in (5999, 1_800_001, 0, -1):
            ask(f"session timeout {timeout}", session_timeout_ms=timeout)
        ask("empty group id", group_id="")
        ask("member of a missing group", member_id=NOBODY)
        ask("empty protocol type", protocol_type="")
        ask("no protocols", protocols=[])
        joined = join(r, group, version)
        r.ask("SyncGroup", 3, "settle", **sync_fields(group, joined, 3, {joined.member_id: b"a"}))
        ask("unknown member", member_id=NOBODY)
        ask("other protocol", protocols=[{"name": "other", "metadata": b"x"}])
        ask("other protocol type", protocol_type="connect")
        if version >= 5:
            ask("unknown member with an instance id", member_id=NOBODY, group_instance_id="i")
        r.ask("LeaveGroup", 0, "end", group_id=group, member_id=joined.member_id)


def one_member(r: Recorder) -> None:
    """The life of a group of one, in every version of JoinGroup and the nearest version of the others."""
    topic = r.create_topic("life", 2)
    for version in range(10):
        group = r.name(f"life-v{version}")
        r.coordinate(group)
        sync_version, beat_version, leave_version = min(version, 5), min(version, 4), min(version, 5)
        describe_version = min(version, 6)

        def describe(note: str, group: str = group, version: int = describe_version) -> None:
            r.ask("DescribeGroups", version, note, groups=[group])

        describe("before")
        joined = join(r, group, version, protocols=[{"name": RANGE, "metadata": subscription(topic)}])
        r.until(partial(_is_in, r, group, "CompletingRebalance"), "join")
        describe("joined")
        beat = {"group_id": group, "generation_id": joined.generation_id, "member_id": joined.member_id}
        r.ask("Heartbeat", beat_version, "before the sync", **beat)
        member = {"generation_id_or_member_epoch": joined.generation_id, "member_id": joined.member_id}
        commit_version = max(2, version)
        r.ask(
            "OffsetCommit",
            commit_version,
            "before the sync",
            **commit_fields(group, topic, commit_version, 0, **member),
        )
        fields = sync_fields(group, joined, sync_version, {joined.member_id: b"assignment"})
        r.ask("SyncGroup", sync_version, "unknown member", **(fields | {"member_id": NOBODY}))
        r.ask("SyncGroup", sync_version, "old generation", **(fields | {"generation_id": joined.generation_id - 1}))
        if sync_version >= 5:
            r.ask("SyncGroup", sync_version, "no protocol", **(fields | {"protocol_type": None, "protocol_name": None}))
            r.ask("SyncGroup", sync_version, "other protocol type", **(fields | {"protocol_type": "connect"}))
            r.ask("SyncGroup", sync_version, "other protocol name", **(fields | {"protocol_name": "other"}))
        r.ask("SyncGroup", sync_version, "good", **fields)
        r.ask("SyncGroup", sync_version, "again", **(fields | {"assignments": []}))
        describe("stable")
        r.ask("Heartbeat", beat_version, "good", **beat)
        r.ask("Heartbeat", beat_version, "unknown member", **(beat | {"member_id": NOBODY}))
        r.ask("Heartbeat", beat_version, "blank member", **(beat | {"member_id": ""}))
        r.ask("Heartbeat", beat_version, "old generation", **(beat | {"generation_id": joined.generation_id - 1}))
        r.ask("Heartbeat", beat_version, "future generation", **(beat | {"generation_id": joined.generation_id + 1}))
        r.ask("Heartbeat", beat_version, "missing group", **(beat | {"group_id": r.name("nothing")}))
        r.ask("Heartbeat", beat_version, "empty group id", **(beat | {"group_id": ""}))
        for note, more in (
            ("good", member),
            ("old generation", member | {"generation_id_or_member_epoch": joined.generation_id - 1}),
            ("unknown member", member | {"member_id": NOBODY}),
            ("without membership", {}),
            ("member without generation", {"member_id": joined.member_id}),
        ):
            fields = commit_fields(group, topic, commit_version, 0, **more)
            r.ask("OffsetCommit", commit_version, note, **fields)
        r.ask("DeleteGroups", min(version, 2), "not empty", groups_names=[group])
        again = join_fields(
            group, joined.member_id, version, protocols=[{"name": RANGE, "metadata": subscription(topic)}]
        )
        rejoined = r.ask("JoinGroup", version, "leader again", **again)
        r.ask(
            "SyncGroup",
            sync_version,
            "after that",
            **sync_fields(group, rejoined, sync_version, {rejoined.member_id: b"2"}),
        )
        if leave_version < 3:
            r.ask("LeaveGroup", leave_version, "unknown member", group_id=group, member_id=NOBODY)
            r.ask("LeaveGroup", leave_version, "good", group_id=group, member_id=joined.member_id)
            r.ask("LeaveGroup", leave_version, "again", group_id=group, member_id=joined.member_id)
            r.ask("LeaveGroup", leave_version, "missing group", group_id=r.name("nothing"), member_id=NOBODY)
        else:
            several = [{"member_id": each} for each in (NOBODY, joined.member_id, "")]
            r.ask("LeaveGroup", leave_version, "several", group_id=group, members=several)
            r.ask("LeaveGroup", leave_version, "again", group_id=group, members=several[:2])
            r.ask("LeaveGroup", leave_version, "nobody", group_id=group, members=[])
            r.ask("LeaveGroup", leave_version, "missing group", group_id=r.name("nothing"), members=several[:1])
            r.ask("LeaveGroup", leave_version, "empty group id", group_id="", members=several[:1])
        describe("empty")
        r.ask("Heartbeat", beat_version, "to an empty group", **beat)
        r.ask("SyncGroup", sync_version, "to an empty group", **sync_fields(group, joined, sync_version))
        r.ask("OffsetFetch", 5, "what is left", **fetch_fields(group, 5, {topic: [0]}))
        r.ask("DeleteGroups", min(version, 2), "empty, missing", groups_names=[group, r.name("nothing")])
        r.ask("OffsetFetch", 5, "deleted", **fetch_fields(group, 5, {topic: [0]}))
        describe("deleted")


def two_members(r: Recorder) -> None:
    """A second member comes and goes; each step seen by both."""
    topic = r.create_topic("two", 2)
    for version in (2, 5, 9):
        group = r.name(f"two-v{version}")
        r.coordinate(group)
        protocols = [{"name": RANGE, "metadata": subscription(topic)}, {"name": "roundrobin", "metadata": b"rr"}]
        first = join(r, group, version, on="one", protocols=protocols)
        fields = sync_fields(group, first, min(version, 5), {first.member_id: b"everything"})
        r.ask("SyncGroup", min(version, 5), "alone", on="one", **fields)
        second_id = ""
        if version >= 4:
            answer = r.ask(
                "JoinGroup", version, "second", on="two", **join_fields(group, "", version, protocols=protocols)
            )
            second_id = answer.member_id
        r.send(
            "JoinGroup",
            version,
            "second waits",
            on="two",
            **join_fields(group, second_id, version, protocols=protocols),
        )
        r.until(partial(_is_in, r, group, "PreparingRebalance"), "rebalance")
        beat = {"group_id": group, "generation_id": first.generation_id, "member_id": first.member_id}
        r.ask("Heartbeat", 2, "while preparing", on="one", **beat)
        member = {"generation_id_or_member_epoch": first.generation_id, "member_id": first.member_id}
        r.ask("OffsetCommit", 5, "while preparing", on="one", **commit_fields(group, topic, 5, 0, **member))
        r.ask("OffsetCommit", 5, "stranger while preparing", on="one", **commit_fields(group, topic, 5, 0))
        r.ask("SyncGroup", 2, "while preparing", on="one", **sync_fields(group, first, 2))
        r.ask("DescribeGroups", 3, "preparing", groups=[group], include_authorized_operations=True)
        r.ask("DeleteGroups", 1, "while preparing", groups_names=[group])
        r.ask("OffsetFetch", 5, "while preparing", **fetch_fields(group, 5, {topic: [0]}))
        rejoined = r.ask(
            "JoinGroup",
            version,
            "first again",
            on="one",
            **join_fields(group, first.member_id, version, protocols=protocols),
        )
        second = r.answer("two")
        r.ask("DescribeGroups", 4, "completing", groups=[group])
        r.ask("Heartbeat", 2, "while completing", on="one", **(beat | {"generation_id": rejoined.generation_id}))
        follower = sync_fields(group, second, 3)
        r.send("SyncGroup", 3, "follower", on="two", **follower)
        parts = {rejoined.member_id: b"half", second.member_id: b"other half"}
        r.ask("SyncGroup", 3, "leader", on="one", **sync_fields(group, rejoined, 3, parts))
        r.answer("two")
        r.ask("DescribeGroups", 6, "stable", groups=[group, r.name("nothing")], include_authorized_operations=True)
        unchanged = join_fields(group, second.member_id, version, protocols=protocols)
        r.ask("JoinGroup", version, "follower again, unchanged", on="two", **unchanged)
        third = r.ask(
            "JoinGroup",
            3,
            "disjoint third",
            on="three",
            **join_fields(group, "", 3, protocols=[{"name": "x", "metadata": b""}]),
        )
        assert third.error_code, third
        r.ask("LeaveGroup", 3, "leader goes", on="one", group_id=group, members=[{"member_id": rejoined.member_id}])
        r.ask(
            "Heartbeat",
            2,
            "after that",
            on="two",
            group_id=group,
            generation_id=second.generation_id,
            member_id=second.member_id,
        )
        alone = r.ask("JoinGroup", version, "follower now leads", on="two", **unchanged)
        r.ask("SyncGroup", 3, "and assigns", on="two", **sync_fields(group, alone, 3, {alone.member_id: b"all"}))
        r.ask(
            "OffsetDelete",
            0,
            "subscribed topic",
            group_id=group,
            topics=[{"name": topic, "partitions": [{"partition_index": 0}]}],
        )
        r.ask("LeaveGroup", 1, "last one goes", on="two", group_id=group, member_id=alone.member_id)
        r.ask("DescribeGroups", 5, "empty", groups=[group])


def _is_in(r: Recorder, group: str, state: str) -> bool:
    """A broker may show a state a moment after it answered the request that caused it."""
    return bool(r.quietly("DescribeGroups", 3, groups=[group]).groups[0].group_state == state)


def static_members(r: Recorder) -> None:
    """Instances that keep their place, are replaced, are fenced, and are removed by an administrator."""
    topic = r.create_topic("static", 1)
    for version in (5, 8, 9):
        group = r.name(f"static-v{version}")
        r.coordinate(group)
        fields = join_fields(
            group, "", version, group_instance_id="one", protocols=[{"name": RANGE, "metadata": subscription(topic)}]
        )
        first = r.ask("JoinGroup", version, "first", **fields)
        sync = sync_fields(group, first, min(version, 5), {first.member_id: b"mine"}, group_instance_id="one")
        r.ask("SyncGroup", min(version, 5), "first", **sync)
        second = r.ask("JoinGroup", version, "comes back with a blank id", **fields)
        r.ask("DescribeGroups", 6, "replaced", groups=[group])
        old = {"group_id": group, "generation_id": first.generation_id, "member_id": first.member_id}
        r.ask("Heartbeat", 4, "old id with the instance", **old, group_instance_id="one")
        r.ask("Heartbeat", 3, "old id without it", **old)
        r.ask("Heartbeat", 3, "other instance", **old, group_instance_id="two")
        r.ask(
            "SyncGroup", 3, "old id with the instance", **(sync_fields(group, first, 3) | {"group_instance_id": "one"})
        )
        member = {"generation_id_or_member_epoch": first.generation_id, "member_id": first.member_id}
        r.ask(
            "OffsetCommit",
            7,
            "old id with the instance",
            **commit_fields(group, topic, 7, 0, **member),
            group_instance_id="one",
        )
        r.ask("OffsetCommit", 9, "old id without it", **commit_fields(group, topic, 9, 0, **member))
        r.ask("JoinGroup", version, "old id with the instance", **(fields | {"member_id": first.member_id}))
        r.ask(
            "LeaveGroup",
            4,
            "old id with the instance",
            group_id=group,
            members=[{"member_id": first.member_id, "group_instance_id": "one"}],
        )
        new = {"group_id": group, "generation_id": second.generation_id, "member_id": second.member_id}
        r.ask("Heartbeat", 4, "new id", **new, group_instance_id="one")
        r.ask("SyncGroup", 4, "new id", **(sync_fields(group, second, 4) | {"group_instance_id": "one"}))
        leaving = [{"member_id": "", "group_instance_id": each} for each in ("one", "unknown")]
        r.ask("LeaveGroup", 5, "by an administrator", group_id=group, members=leaving)
        r.ask("DescribeGroups", 6, "gone", groups=[group])


def views_and_deletions(r: Recorder) -> None:
    topic, other = r.create_topic("viewed", 2), r.create_topic("other", 1)
    simple, live, missing = r.name("viewed-simple"), r.name("viewed-live"), r.name("viewed-missing")
    r.coordinate(simple, live, missing)
    r.ask("OffsetCommit", 8, "simple", **commit_fields(simple, topic, 8, 0, 1))
    r.ask("OffsetCommit", 8, "simple, other topic", **commit_fields(simple, other, 8, 0))
    joined = join(r, live, 5, protocols=[{"name": RANGE, "metadata": subscription(topic)}])
    r.ask("SyncGroup", 3, "live", **sync_fields(live, joined, 3, {joined.member_id: b"a"}))
    member = {"generation_id_or_member_epoch": joined.generation_id, "member_id": joined.member_id}
    r.ask("OffsetCommit", 8, "live", **commit_fields(live, topic, 8, 0, **member))
    r.ask("OffsetCommit", 8, "live, other topic", **commit_fields(live, other, 8, 0, **member))
    for version in range(7):
        more: dict[str, Any] = {"include_authorized_operations": True} if version >= 3 else {}
        r.ask("DescribeGroups", version, "all kinds", groups=[simple, live, missing], **more)
        r.ask("DescribeGroups", version, "empty group id", groups=[""])
        r.ask("DescribeGroups", version, "none", groups=[])
    for version in range(2):
        r.ask("ConsumerGroupDescribe", version, "all kinds", group_ids=[simple, live, missing])
        r.ask("ConsumerGroupDescribe", version, "none", group_ids=[])
    for version in range(6):
        r.ask("ListGroups", version, "all")
        if version >= 4:
            for states in (["Stable"], ["empty"], ["Stable", "Empty"], ["Dead"], ["nonsense"]):
                r.ask("ListGroups", version, f"states {states}", states_filter=states)
        if version >= 5:
            for types in (["classic"], ["Consumer"], ["CLASSIC", "consumer"], ["nonsense"]):
                r.ask("ListGroups", version, f"types {types}", types_filter=types)
            r.ask("ListGroups", version, "both", states_filter=["Stable"], types_filter=["classic"])

    def delete(note: str, group: str, topics: dict[str, list[int]]) -> None:
        asked = [
            {"name": name, "partitions": [{"partition_index": each} for each in partitions]}
            for name, partitions in topics.items()
        ]
        r.ask("OffsetDelete", 0, note, group_id=group, topics=asked)

    unknown = r.name("unknown")
    delete("unsubscribed and subscribed", live, {topic: [0], other: [0]})
    delete("unknown topic and partition", simple, {unknown: [0], topic: [9, 0]})
    delete("only unknown", simple, {unknown: [0]})
    delete("only unknown of a missing group", missing, {unknown: [0]})
    delete("missing group", missing, {topic: [0]})
    delete("empty group id", "", {topic: [0]})
    delete("nothing stored there", simple, {topic: [0]})
    delete("no topics", simple, {})
    r.ask("OffsetFetch", 7, "left of simple", **fetch_fields(simple, 7, {topic: [0, 1], other: [0]}))
    r.ask("OffsetFetch", 7, "left of live", **fetch_fields(live, 7, {topic: [0, 1], other: [0]}))
    for version in range(3):
        r.ask("DeleteGroups", version, "live and missing", groups_names=[live, missing])
        r.ask("DeleteGroups", version, "none", groups_names=[])
    r.ask("DeleteGroups", 2, "simple, twice", groups_names=[simple, simple])
    r.ask("DescribeGroups", 6, "after that", groups=[simple])
    r.ask("LeaveGroup", 4, "end", group_id=live, members=[{"member_id": joined.member_id}])


SCRIPTS: tuple[Callable[[Recorder], None], ...] = (
    find_coordinators,
    simple_commits,
    bad_joins,
    one_member,
    two_members,
    static_members,
    views_and_deletions,
)
