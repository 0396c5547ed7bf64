"""Random lifetimes of one shard: whatever clients, log and clock do, what must hold holds after every step."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.coordinator import (
    DeleteGroups,
    DeleteOffsets,
    DescribeGroups,
    FetchOffsets,
    ForgetTopics,
    Heartbeat,
    LeaveGroup,
    LeavingMember,
    ListGroups,
    Settings,
    partition_for,
)
from seamark.coordinator.placement import java_string_hash
from seamark.coordinator.replies import CommitReply, JoinReply
from seamark.coordinator.storing.records import NO_EXPIRY, OffsetCommitted
from seamark.coordinator.storing.stored import LastValues, from_bytes, to_bytes
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.records import Record as LogRecord
from tests.support.coordinator_driver import Driver, check_consistency, compact, replayed, subscription

GROUPS = ("g", "h")
INSTANCES = (None, None, "i", "j")
PROTOCOLS = (
    [("range", subscription("t"))],
    [("range", subscription("t", "u")), ("sticky", b"1")],
    [("sticky", b"2"), ("range", b"?")],
)
REFUSALS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.MESSAGE_TOO_LARGE)


class Lifetime:
    """Random clients that know every id and generation anyone was ever told, and use them right or wrong."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        size = self.chance.choice((2, 3, 2**31 - 1))
        self.driver = Driver(
            Settings(
                max_group_size=size,
                retention_minutes=self.chance.choice((1, 10_080)),
                retention_check_interval_ms=20_000,
                initial_rebalance_delay_ms=self.chance.choice((0, 3000)),
            )
        )
        self.ids = {group_id: [""] for group_id in GROUPS}
        self.generations = dict.fromkeys(GROUPS, 0)
        self.next_offset = 0

    def step(self) -> None:
        weights = {
            self.join: 20,
            self.sync: 24,
            self.heartbeat: 12,
            self.commit: 20,
            self.fetch: 8,
            self.advance: 16,
            self.settle_one: 16,
            self.leave: 2,
            self.change_log: 4,
            self.refuse_one: 2,
            self.settle_out_of_order: 2,
            self.delete: 2,
            self.look: 1,
            self.reload: 1,
            self.fire_something: 2,
        }
        self.chance.choices(list(weights), list(weights.values()))[0]()
        self.learn()
        check_consistency(self.driver)

    def learn(self) -> None:
        """Read ids and generations from the answers that came in."""
        for group_id in GROUPS:
            if self.driver.has_group(group_id):
                group = self.driver.group(group_id)
                self.generations[group_id] = group.generation
                known = self.ids[group_id]
                known.extend(each for each in (*group.members, *group.pending) if each not in known)
                del known[1:-8]

    def pick(self) -> tuple[str, str, int]:
        group_id = self.chance.choice(GROUPS)
        generation = self.generations[group_id]
        if self.chance.random() < 0.1:
            generation += self.chance.choice((-1, 1))
        living = list(self.driver.group(group_id).members) if self.driver.has_group(group_id) else []
        known = living if living and self.chance.random() < 0.75 else self.ids[group_id]
        return group_id, self.chance.choice(known), generation

    def instance_of(self, group_id: str, member_id: str) -> str | None:
        member = self.driver.group(group_id).members.get(member_id) if self.driver.has_group(group_id) else None
        if member is not None and self.chance.random() < 0.9:
            return member.instance_id
        return self.chance.choice(INSTANCES)

    def join(self) -> None:
        group_id, member_id, _ = self.pick()
        self.driver.send_join(
            member_id,
            group_id=group_id,
            instance_id=self.instance_of(group_id, member_id),
            require_known_member_id=self.chance.random() < 0.5,
            supports_skip_assignment=self.chance.random() < 0.5,
            session_timeout_ms=self.chance.choice((6000, 10_000, 45_000)),
            rebalance_timeout_ms=self.chance.choice((0, 5000, 30_000, 30_000, 60_000)),
            protocols=self.chance.choice(PROTOCOLS),
            protocol_type="consumer" if self.chance.random() < 0.95 else "connect",
        )

    def sync(self) -> None:
        group_id, member_id, generation = self.pick()
        if self.driver.has_group(group_id) and self.chance.random() < 0.5:
            member_id = self.driver.group(group_id).leader or member_id
        assignments = {each: each.encode() for each in self.ids[group_id] if self.chance.random() < 0.8}
        instance_id = self.instance_of(group_id, member_id)
        self.driver.send_sync(member_id, generation, assignments, group_id=group_id, instance_id=instance_id)

    def heartbeat(self) -> None:
        group_id, member_id, generation = self.pick()
        self.driver.ask(Heartbeat(group_id, member_id, generation, self.instance_of(group_id, member_id)))

    def commit(self) -> None:
        group_id, member_id, generation = self.pick()
        if self.chance.random() < 0.3:
            member_id, generation = "", -1
        self.next_offset += 1
        self.driver.send_commit(
            {(self.chance.choice("tu"), self.chance.randrange(5)): self.next_offset},
            member_id,
            generation,
            group_id=group_id,
            retention_ms=self.chance.choice((-1, -1, -1, 5000)),
        )

    def fetch(self) -> None:
        group_id = self.chance.choice(GROUPS)
        self.driver.send(FetchOffsets(group_id, require_stable=self.chance.random() < 0.5))

    def leave(self) -> None:
        group_id, member_id, _ = self.pick()
        instance_id = self.instance_of(group_id, member_id)
        others = [LeavingMember(each) for each in self.ids[group_id] if self.chance.random() < 0.2]
        self.driver.ask(LeaveGroup(group_id, [LeavingMember(member_id, instance_id), *others]))

    def delete(self) -> None:
        group_id = self.chance.choice(GROUPS)
        self.driver.send(
            self.chance.choice(
                (
                    DeleteGroups([group_id, "missing"]),
                    DeleteOffsets(group_id, [("t", [0, 1]), ("u", [0, 1])]),
                    ForgetTopics([self.chance.choice("tu")]),
                )
            )
        )

    def look(self) -> None:
        self.driver.ask(DescribeGroups([*GROUPS, "missing"]))
        self.driver.ask(ListGroups(["stable"]))

    def advance(self) -> None:
        self.driver.advance(
            self.chance.choice((0, 1, 500, 500, 1000, 3000, 3000, 5000, self.chance.choice((10_000, 70_000))))
        )

    def change_log(self) -> None:
        self.driver.is_holding = not self.driver.is_holding
        if not self.driver.is_holding:
            self.driver.acknowledge()

    def settle_one(self) -> None:
        self.driver.acknowledge(1)

    def refuse_one(self) -> None:
        if self.driver.waiting:
            self.driver.refuse(self.chance.choice(REFUSALS))

    def settle_out_of_order(self) -> None:
        """The log tells of a later append first; what is replayed must still follow the log."""
        driver = self.driver
        if len(driver.waiting) > 1:
            first, second = driver.waiting.pop(0), driver.waiting.pop(0)
            driver.carry_out(driver.shard.stored(second.ticket, driver.now_ms))
            if self.chance.random() < 0.5:
                driver.log += first.records + second.records
                driver.carry_out(driver.shard.stored(first.ticket, driver.now_ms))
            else:
                driver.log += second.records
                driver.carry_out(driver.shard.failed(first.ticket, self.chance.choice(REFUSALS), driver.now_ms))

    def fire_something(self) -> None:
        """A timer the shell fires although it is not due, or for nobody."""
        driver = self.driver
        keys = [*driver.timers, (7, "session", "g", "nobody"), (7, "join", "missing", ""), (7, "append", "", "")]
        key = self.chance.choice(keys)
        driver.timers.pop(key, None)
        if key[1] != "expiry":
            driver.carry_out(driver.shard.fire(key, driver.now_ms))
        else:
            driver.timers[key] = driver.now_ms

    def reload(self) -> None:
        self.driver.reload(compacted=self.chance.random() < 0.5)
        assert not self.driver.unanswered


# covers: N4, D11, F7, F8, F11, F15
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_after_every_step_of_a_random_lifetime_the_groups_are_whole_and_the_stored_state_is_that_of_the_log(seed):
    life = Lifetime(seed)
    for _ in range(150):
        life.step()
    life.driver.check_stored_state()
    life.driver.carry_out(life.driver.shard.unload(life.driver.now_ms))
    assert not life.driver.unanswered
    assert not life.driver.timers


# covers: F8, F11, D25
@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_a_commit_is_answered_none_only_if_its_record_is_in_the_log_and_its_member_was_right(seed):
    life = Lifetime(seed)
    for _ in range(150):
        life.step()
    stored = {(record.group_id, record.offset) for record in life.driver.log if isinstance(record, OffsetCommitted)}
    assert len(stored) == sum(isinstance(record, OffsetCommitted) for record in life.driver.log)
    granted = sum(
        code is ErrorCode.NONE
        for reply in life.driver.replies.values()
        if isinstance(reply, CommitReply)
        for _, codes in reply.topics
        for _, code in codes
    )
    assert granted <= len(stored)
    for reply in life.driver.replies.values():
        if isinstance(reply, JoinReply) and reply.members:
            ids = [each.member_id for each in reply.members]
            assert reply.member_id == reply.leader
            assert reply.leader in ids
            assert len(set(ids)) == len(ids)


RECORDS = st.builds(
    OffsetCommitted,
    st.sampled_from(("g", "h", "grüppe")),
    st.sampled_from(("t", "u")),
    st.integers(0, 2),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-1, 2**31 - 1),
    st.text(max_size=20),
    st.integers(0, 2**62),
    st.just(NO_EXPIRY),
)


# covers: F5, F6, F7, F15
@settings(max_examples=100, deadline=None)
@given(st.lists(RECORDS, max_size=30))
def test_last_values_of_a_log_in_bytes_replay_to_the_same_state_as_the_log(log):
    values = LastValues()
    values.add(
        [
            LogRecord(number, timestamp_ms=0, key=key, value=value)
            for number, (key, value) in enumerate(map(to_bytes, log))
        ]
    )
    assert replayed(values.take()) == replayed(log) == replayed(compact(log))
    assert [from_bytes(*to_bytes(record)) for record in log] == log


# covers: B3, B4
@given(st.text(max_size=40), st.integers(1, 2**31 - 1))
def test_every_group_has_a_partition(group_id, count):
    assert 0 <= partition_for(group_id, count) < count
    assert -(2**31) <= java_string_hash(group_id) < 2**31


# covers: N4
@pytest.mark.parametrize("seed", range(20))
def test_a_long_lifetime_answers_every_request_once(seed):
    life = Lifetime(seed)
    for _ in range(400):
        life.step()
    life.reload()
