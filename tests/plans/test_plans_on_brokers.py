"""Plans end to end, on Apache Kafka and on the embedded broker: applied, verified, taken back, and refused."""

import dataclasses
import os
import signal
import subprocess
import sys
import time

import pytest

from seamark.client import Admin, Consumer, Offset, Producer, TopicPartition
from seamark.client.admin.types import NewTopic
from seamark.client.errors import NoBrokerAvailable, OperationTimedOut
from seamark.parallel import ParallelConsumer, Park, Retry
from seamark.plans import (
    GroupInUse,
    OutsideLog,
    PlanIncomplete,
    PlanStale,
    TopicChanged,
    UndoRecord,
    WrongCluster,
    apply,
    build_plan,
    plan_undo,
    preview,
    read_plan,
    read_state,
    read_undo,
    undo_path_of,
    write_plan,
)

PARTITIONS = 3
RECORDS = 10


@pytest.fixture
def topic(kafka_like, admin, fresh_name):
    """A topic with three partitions of ten records."""
    name = fresh_name("plans")
    admin.create_topics([NewTopic(name, PARTITIONS, 1)]).raise_if_failed()
    with Producer(bootstrap_servers=kafka_like.bootstrap) as producer:
        for index in range(PARTITIONS):
            producer.send_many(name, [b"x"] * RECORDS, partition=index)
    return name


@pytest.fixture
def group(admin, topic, fresh_name):
    """A group that has committed 4 of partition 0 (with metadata) and 5 of partition 1."""
    name = fresh_name("group")
    admin.alter_group_offsets(
        name, {TopicPartition(topic, 0): Offset(4, "mine"), TopicPartition(topic, 1): Offset(5)}
    ).raise_if_failed()
    return name


def at(topic):
    return [TopicPartition(topic, index) for index in range(PARTITIONS)]


def committed(admin, group):
    return admin.list_group_offsets([group])[group]


def make(admin, wanted):
    state = read_state(admin, {group: list(offsets) for group, offsets in wanted.items()})
    return build_plan(state, wanted, made_by="test", now_ms=int(time.time() * 1000)), state


def test_a_plan_is_made_applied_verified_applied_again_and_undone(admin, topic, group, tmp_path):
    first, second, third = at(topic)
    before = committed(admin, group)
    plan, state = make(admin, {group: {first: 0, second: None, third: Offset(10, "end")}})
    shown = preview(plan, state)
    assert shown.is_ready
    assert [(row.repeated, row.skipped) for row in shown.rows] == [(4, 0), (5, 5), (0, 10)]
    path = tmp_path / "plan.json"
    write_plan(path, plan)

    applied = apply(admin, read_plan(path), undo_path=undo_path_of(path))
    applied.raise_if_incomplete()
    assert [outcome.result for outcome in applied.outcomes] == ["changed"] * 3
    assert committed(admin, group) == {first: Offset(0), third: Offset(10, "end")}

    again = apply(admin, plan, undo_path=undo_path_of(path))
    assert [outcome.result for outcome in again.outcomes] == ["already"] * 3

    record = read_undo(undo_path_of(path))
    assert record.plan == plan
    assert record.finished_ms is not None
    assert set(record.results.values()) == {"changed"}
    back = plan_undo(record, read_state(admin, plan.partitions), made_by="test", now_ms=1)
    apply(admin, back).raise_if_incomplete()
    assert committed(admin, group) == before


def test_a_group_that_never_was_is_made_by_a_plan_and_emptied_by_its_undo(admin, topic, fresh_name, tmp_path):
    group = fresh_name("new")
    plan, _ = make(admin, {group: {at(topic)[0]: 3}})
    undo = tmp_path / "undo.json"
    apply(admin, plan, undo_path=undo).raise_if_incomplete()
    assert committed(admin, group) == {at(topic)[0]: Offset(3)}
    back = plan_undo(read_undo(undo), read_state(admin, plan.partitions), made_by="test", now_ms=1)
    apply(admin, back).raise_if_incomplete()
    assert committed(admin, group) == {}


def test_many_groups_are_changed_by_one_plan(admin, topic, fresh_name):
    groups = [fresh_name("many") for _ in range(20)]
    wanted = {group: dict.fromkeys(at(topic), place % 10) for place, group in enumerate(groups)}
    plan, _ = make(admin, wanted)
    apply(admin, plan).raise_if_incomplete()
    found = admin.list_group_offsets(groups)
    assert {group: {each: offset.offset for each, offset in found[group].items()} for group in groups} == wanted


def test_a_group_with_members_is_refused_and_they_are_named(kafka_like, admin, topic, group, tmp_path):
    plan, _ = make(admin, {group: {at(topic)[0]: 0}})
    undo = tmp_path / "undo.json"
    with Consumer(bootstrap_servers=kafka_like.bootstrap, group_id=group, client_id="billing-worker") as consumer:
        consumer.subscribe([topic])
        deadline = time.monotonic() + 60
        while not consumer.assignment() and time.monotonic() < deadline:
            consumer.poll(0.2)
        with pytest.raises(GroupInUse, match=r"with 1 member \(billing-worker at .*127\.0\.0\.1\)"):
            apply(admin, plan, undo_path=undo)
        assert any(
            "billing-worker" in problem for problem in preview(plan, read_state(admin, plan.partitions)).problems
        )
    assert not undo.exists()


def test_a_plan_that_went_stale_changes_nothing(admin, topic, group, tmp_path):
    first, second, _ = at(topic)
    plan, _ = make(admin, {group: {first: 0, second: 0}})
    admin.alter_group_offsets(group, {second: 6}).raise_if_failed()
    before = committed(admin, group)
    with pytest.raises(PlanStale, match=rf"{second} of group '{group}' is at 6, not at 5") as raised:
        apply(admin, plan, undo_path=tmp_path / "undo.json")
    assert raised.value.partitions == ((group, second),)
    assert committed(admin, group) == before
    assert not (tmp_path / "undo.json").exists()


def test_an_undo_is_refused_after_somebody_moved_on(admin, topic, group, tmp_path):
    plan, _ = make(admin, {group: {at(topic)[0]: 0}})
    undo = tmp_path / "undo.json"
    apply(admin, plan, undo_path=undo).raise_if_incomplete()
    admin.alter_group_offsets(group, {at(topic)[0]: 2}).raise_if_failed()
    with pytest.raises(PlanStale, match="has been moved to 2 since"):
        plan_undo(read_undo(undo), read_state(admin, plan.partitions), made_by="test", now_ms=1)


def test_a_plan_for_another_cluster_or_another_topic_of_the_name_is_refused(kafka_like, admin, topic, group):
    plan, _ = make(admin, {group: {at(topic)[0]: 0}})
    with pytest.raises(WrongCluster, match="is for cluster 'elsewhere'"):
        apply(admin, dataclasses.replace(plan, cluster_id="elsewhere"))
    # Brokers of 2.4 know no topic ids.
    if kafka_like.name != "seamark-2.4":
        with pytest.raises(TopicChanged, match="recreated"):
            apply(admin, dataclasses.replace(plan, topic_ids={topic: "ab" * 16}))
    assert committed(admin, group)[at(topic)[0]].offset == 4


def test_offsets_outside_the_log_are_refused_unless_allowed(admin, topic, group):
    first, second, _ = at(topic)
    admin.delete_records({first: 3}).raise_if_failed()
    plan, state = make(admin, {group: {first: 2, second: 11}})
    assert [row.problem for row in preview(plan, state).rows] == [
        f"{first}: offset 2 is 1 offset before the start of the log (3 to 10)",
        f"{second}: offset 11 is 1 offset after the end of the log (0 to 10)",
    ]
    with pytest.raises(OutsideLog):
        apply(admin, plan)
    apply(admin, plan, allow_outside_log=True).raise_if_incomplete()
    assert [committed(admin, group)[each].offset for each in (first, second)] == [2, 11]


class DiesBeforeGroup:
    """An admin client in a process that ends before the offsets of one group are changed."""

    class Died(BaseException):
        pass

    def __init__(self, admin, group):
        self._admin = admin
        self._group = group

    def __getattr__(self, name):
        return getattr(self._admin, name)

    def alter_group_offsets(self, group, offsets, **keywords):
        if group == self._group:
            raise self.Died
        return self._admin.alter_group_offsets(group, offsets, **keywords)


def test_an_application_that_died_half_way_is_completed_or_undone(admin, topic, fresh_name, tmp_path):
    groups = [fresh_name("half") for _ in range(4)]
    wanted = {group: dict.fromkeys(at(topic), 7) for group in groups}
    plan, _ = make(admin, wanted)
    undo = tmp_path / "undo.json"
    with pytest.raises(DiesBeforeGroup.Died):
        apply(DiesBeforeGroup(admin, groups[2]), plan, undo_path=undo)
    record = read_undo(undo)
    assert record.finished_ms is None
    made = sum(len(offsets) for offsets in admin.list_group_offsets(groups).values())
    assert 0 < made < 12

    completed = apply(admin, plan, undo_path=undo)
    completed.raise_if_incomplete()
    assert (completed.count("already"), completed.count("changed")) == (made, 12 - made)
    back = plan_undo(read_undo(undo), read_state(admin, plan.partitions), made_by="test", now_ms=1)
    apply(admin, back).raise_if_incomplete()
    assert all(not offsets for offsets in admin.list_group_offsets(groups).values())


class SlipsIn:
    """An admin client beside somebody who commits right after it, so that what is read back is not what was set."""

    def __init__(self, admin):
        self._admin = admin

    def __getattr__(self, name):
        return getattr(self._admin, name)

    def alter_group_offsets(self, group, offsets, **keywords):
        results = self._admin.alter_group_offsets(group, offsets, **keywords)
        self._admin.alter_group_offsets(group, {next(iter(offsets)): 9}).raise_if_failed()
        return results


def test_a_change_that_somebody_overwrites_is_reported(admin, topic, group):
    first, second, _ = at(topic)
    plan, _ = make(admin, {group: {first: 0, second: 0}})
    applied = apply(SlipsIn(admin), plan)
    assert [outcome.result for outcome in applied.outcomes] == ["moved", "changed"]
    with pytest.raises(PlanIncomplete, match=rf"1 of 2 changes not made: {first} of group .* set it to 9"):
        applied.raise_if_incomplete()


class LetsSomebodyJoin:
    """An admin client that looks at the group, and then somebody joins it before the offsets are changed."""

    def __init__(self, admin, consumer, topic):
        self._admin, self._consumer, self._topic = admin, consumer, topic

    def __getattr__(self, name):
        return getattr(self._admin, name)

    def alter_group_offsets(self, group, offsets, **keywords):
        self._consumer.subscribe([self._topic])
        deadline = time.monotonic() + 60
        while not self._consumer.assignment() and time.monotonic() < deadline:
            self._consumer.poll(0.2)
        return self._admin.alter_group_offsets(group, offsets, **keywords)


def test_members_that_join_meanwhile_are_not_overruled(kafka_like, admin, topic, group):
    plan, _ = make(admin, {group: {at(topic)[0]: 0}})
    with Consumer(bootstrap_servers=kafka_like.bootstrap, group_id=group, enable_auto_commit=False) as consumer:
        applied = apply(LetsSomebodyJoin(admin, consumer, topic), plan)
    assert [outcome.result for outcome in applied.outcomes] == ["failed"]
    assert "a member has joined the group" in applied.outcomes[0].reason
    assert committed(admin, group)[at(topic)[0]] == Offset(4, "mine")


def test_a_cluster_that_vanishes_is_reported_per_partition_and_the_rest_done_later(tmp_path):
    from seamark import Broker

    with Broker(data=str(tmp_path / "broker")) as broker:
        broker.create_topic("orders", partitions=3)
        listen = broker.bootstrap
        with Admin(bootstrap_servers=broker.bootstrap, default_api_timeout_ms=2000) as admin:
            partitions = at("orders")
            plan, _ = make(admin, {"g": dict.fromkeys(partitions, 0)})
            real = admin.alter_group_offsets

            def vanish(*arguments, **keywords):
                broker.nodes[0].stop()
                return real(*arguments, **keywords)

            admin.alter_group_offsets = vanish
            applied = apply(admin, plan, undo_path=tmp_path / "undo.json")
            assert [outcome.result for outcome in applied.outcomes] == ["failed"] * 3
            with pytest.raises(PlanIncomplete, match="3 of 3 changes not made"):
                applied.raise_if_incomplete()
            with pytest.raises((NoBrokerAvailable, OperationTimedOut)):
                apply(admin, plan)
            broker.nodes[0].start()
            admin.alter_group_offsets = real
            assert broker.bootstrap == listen
            done = apply(admin, plan, undo_path=tmp_path / "undo.json", timeout=20)
            assert done.count("changed") == 3


def test_a_process_killed_while_it_applies_leaves_a_plan_that_can_be_finished(kafka_like, admin, topic, tmp_path):
    groups = [f"killed-{topic}-{number}" for number in range(40)]
    plan, _ = make(admin, {group: dict.fromkeys(at(topic), 5) for group in groups})
    path = tmp_path / "plan.json"
    write_plan(path, plan)
    script = (
        "import sys, pathlib\n"
        "from seamark.client import Admin\n"
        "from seamark.plans import apply, read_plan, undo_path_of\n"
        "path = pathlib.Path(sys.argv[2])\n"
        "admin = Admin(bootstrap_servers=sys.argv[1])\n"
        "apply(admin, read_plan(path), undo_path=undo_path_of(path)).raise_if_incomplete()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script, kafka_like.bootstrap, str(path)])
    try:
        deadline = time.monotonic() + 60
        while not undo_path_of(path).exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.001)
        assert undo_path_of(path).exists()
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.wait(30)
    done = apply(admin, read_plan(path), undo_path=undo_path_of(path))
    done.raise_if_incomplete()
    assert done.count("already") + done.count("changed") == len(plan)
    found = admin.list_group_offsets(groups)
    assert all(offset == Offset(5) for offsets in found.values() for offset in offsets.values())
    assert sum(map(len, found.values())) == len(plan)


def test_what_a_parallel_consumer_did_beyond_its_offset_runs_again_only_after_a_rewind(
    kafka_like, admin, topic, fresh_name
):
    group, first = fresh_name("parallel"), TopicPartition(topic, 0)

    def runs(partitions, failing=()):
        """The offsets of partition 0 that ran until all that is not done was done."""
        seen = []

        def handle(record):
            if record.partition == 0 and record.offset in failing:
                raise ValueError
            seen.append((record.partition, record.offset))

        config = {"bootstrap.servers": kafka_like.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
        with ParallelConsumer(config, [topic], handle, retry=Retry(attempts=1), then=Park()) as consumer:
            assert consumer.wait_until(lambda: len(seen) >= partitions, timeout=30)
        return sorted(offset for partition, offset in seen if partition == 0)

    assert runs(3 * RECORDS - 1, failing={2}) == [0, 1, *range(3, RECORDS)]
    assert (at_commit := admin.list_group_offsets([group])[group][first]).offset == 2
    state = read_state(admin, {group: [first]})
    back = build_plan(state, {group: {first: 1}}, made_by="test", now_ms=1)
    assert preview(back, state).repeated == 1 + 7
    on = build_plan(state, {group: {first: 3}}, made_by="test", now_ms=1)
    assert (preview(on, state).repeated, preview(on, state).skipped) == (0, 1)
    apply(admin, on).raise_if_incomplete()
    taken_back = plan_undo(UndoRecord(on, 1), read_state(admin, {group: [first]}), made_by="test", now_ms=2)
    apply(admin, taken_back).raise_if_incomplete()
    assert admin.list_group_offsets([group])[group][first] == at_commit
    apply(admin, back).raise_if_incomplete()
    assert runs(1 + 1 + 7) == list(range(1, RECORDS))
