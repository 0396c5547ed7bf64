"""A shell around one shard for tests: virtual time, timers, a log that acknowledges at once or on command.

The driver checks on the way what must always hold: a token is answered once, tickets are consecutive, and whenever the
shard is reloaded its stored state is that of the log, whole or compacted. Tests read as a vocabulary: ``join``,
``sync``, ``commit``, ``advance``, ``hold_appends``, ``acknowledge``, ``refuse``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from seamark.coordinator import (
    Append,
    Arm,
    CommitOffsets,
    DeleteGroups,
    DeleteOffsets,
    DescribeGroups,
    Effects,
    FetchOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    ListGroups,
    Settings,
    Shard,
    SyncGroup,
)
from seamark.coordinator.membership.groups import Group
from seamark.coordinator.replies import FetchedOffset, JoinReply, Reply, SyncReply
from seamark.coordinator.storing.records import Record, record_key
from seamark.coordinator.storing.replay import replay, stored_state
from seamark.wire.protocol.consumer_protocol import Subscription, encode_subscription
from seamark.wire.protocol.error_codes import ErrorCode

TOPICS = {"t": 4, "u": 4, "demoTopic": 2}


def subscription(*topics: str) -> bytes:
    return encode_subscription(Subscription(topics=list(topics)), 0)


class Driver:
    """One loaded shard at time 0. ``topics`` maps topic names to partition counts and may be changed."""

    def __init__(self, settings: Settings | None = None, *, is_loaded: bool = True, partition: int = 7) -> None:
        self.settings = settings or Settings()
        self.topics = dict(TOPICS)
        self.now_ms = 0
        self.timers: dict[tuple, int] = {}
        self.log: list[Record] = []
        self.waiting: list[Append] = []
        self.is_holding = False
        self.replies: dict[object, Reply] = {}
        self.asked: set[object] = set()
        self.events: list[tuple[str, str]] = []
        self.lines: list = []
        self._next_token = 0
        self._next_id = 0
        self._next_ticket = 0
        self.shard = Shard(partition, self.settings, partition_count=self.topics.get, make_id=self._make_id)
        if is_loaded:
            self.carry_out(self.shard.load([], self.now_ms))

    def _make_id(self) -> str:
        self._next_id += 1
        return str(self._next_id)

    # Carrying out effects

    def carry_out(self, effects: Effects) -> Effects:
        for line in effects.log_lines:
            self.events.append((line.event, line.group_id))
            self.lines.append(line)
        for timer in effects.timers:
            if isinstance(timer, Arm):
                self.timers[timer.key] = timer.deadline_ms
            else:
                self.timers.pop(timer.key, None)
        for token, reply in effects.replies:
            assert token in self.asked, f"{token} was never asked"
            assert token not in self.replies, f"{token} is answered twice"
            self.replies[token] = reply
        for append in effects.appends:
            assert append.ticket == self._next_ticket
            assert append.partition == self.shard.partition
            assert append.records
            self._next_ticket += 1
            self.waiting.append(append)
        if not self.is_holding:
            self.acknowledge()
        return effects

    def hold_appends(self) -> None:
        """From now on the log acknowledges only when told to."""
        self.is_holding = True

    def acknowledge(self, count: int | None = None) -> None:
        """Let the log store the next appends (all, if no count is given) and go on."""
        left = len(self.waiting) if count is None else count
        while left and self.waiting:
            append = self.waiting.pop(0)
            left -= 1
            self.log += append.records
            self.carry_out(self.shard.stored(append.ticket, self.now_ms))

    def refuse(self, code: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> None:
        """Let the log refuse the next append."""
        append = self.waiting.pop(0)
        self.carry_out(self.shard.failed(append.ticket, code, self.now_ms))

    def advance(self, milliseconds: int) -> None:
        """Let time pass; due timers fire in order, each at its deadline."""
        end = self.now_ms + milliseconds
        while True:
            due = [(deadline, key) for key, deadline in self.timers.items() if deadline <= end]
            if not due:
                break
            deadline, key = min(due)
            del self.timers[key]
            self.now_ms = max(self.now_ms, deadline)
            self.carry_out(self.shard.fire(key, self.now_ms))
        self.now_ms = end

    def reload(self, *, compacted: bool = False) -> None:
        """Unload, check the stored state against the log, and load from the log."""
        self.check_stored_state()
        self.carry_out(self.shard.unload(self.now_ms))
        assert not self.timers
        self.waiting.clear()
        records = compact(self.log) if compacted else self.log
        self.carry_out(self.shard.load(records, self.now_ms))

    def check_stored_state(self) -> None:
        state = self.shard.stored_state()
        assert state == replayed(self.log)
        assert state == replayed(compact(self.log))

    # Asking

    def send(self, command: object) -> int:
        """Ask without looking at the answer; returns the token."""
        token = self._next_token
        self._next_token += 1
        self.asked.add(token)
        self.carry_out(self.shard.handle(command, token, self.now_ms))
        return token

    def ask(self, command: object) -> Reply:
        """Ask something that is answered at once, or as soon as the log acknowledges."""
        return self.replies[self.send(command)]

    def is_waiting(self, token: int) -> bool:
        return token not in self.replies

    def reply(self, token: int) -> Reply:
        return self.replies[token]

    @property
    def unanswered(self) -> set[object]:
        return self.asked - set(self.replies)

    def group(self, group_id: str = "g") -> Group:
        return self.shard.groups[group_id]

    def has_group(self, group_id: str = "g") -> bool:
        return group_id in self.shard.groups

    def state(self, group_id: str = "g") -> str:
        return self.group(group_id).state.value

    # Vocabulary

    def send_join(self, member_id: str = "", **fields: object) -> int:
        return self.send(join_command(member_id, **fields))

    def join(self, member_id: str = "", **fields: object) -> JoinReply:
        return self.replies[self.send_join(member_id, **fields)]

    def send_sync(
        self, member_id: str, generation: int, assignments: dict[str, bytes] | None = None, **fields: object
    ) -> int:
        group_id = fields.pop("group_id", "g")
        return self.send(SyncGroup(group_id, member_id, generation, list((assignments or {}).items()), **fields))

    def sync(
        self, member_id: str, generation: int, assignments: dict[str, bytes] | None = None, **fields: object
    ) -> SyncReply:
        return self.replies[self.send_sync(member_id, generation, assignments, **fields)]

    def heartbeat(
        self, member_id: str, generation: int, instance_id: str | None = None, group_id: str = "g"
    ) -> ErrorCode:
        return self.ask(Heartbeat(group_id, member_id, generation, instance_id)).error

    def leave(self, *members: LeavingMember | tuple | str, group_id: str = "g"):
        leaving = [LeavingMember(each) if isinstance(each, str) else LeavingMember(*each) for each in members]
        return self.ask(LeaveGroup(group_id, leaving))

    def send_commit(
        self,
        offsets: dict[tuple[str, int], int],
        member_id: str = "",
        generation: int = -1,
        *,
        metadata: str | None = "",
        leader_epoch: int = -1,
        group_id: str | None = "g",
        **fields: object,
    ) -> int:
        topics: dict[str, list] = {}
        for (topic, partition), offset in offsets.items():
            topics.setdefault(topic, []).append((partition, offset, leader_epoch, metadata))
        return self.send(CommitOffsets(group_id, list(topics.items()), generation, member_id, **fields))

    def commit(self, offsets: dict[tuple[str, int], int], *args: object, **fields: object) -> dict:
        """The codes by (topic, partition)."""
        return codes(self.replies[self.send_commit(offsets, *args, **fields)])

    def commit_code(self, *args: object, offset: int = 1, **fields: object) -> ErrorCode:
        """Commit one offset of t-0 and tell its code."""
        return self.commit({("t", 0): offset}, *args, **fields)["t", 0]

    def fetch(self, topic: str = "t", partition: int = 0, group_id: str = "g") -> FetchedOffset:
        reply = self.ask(FetchOffsets(group_id, [(topic, [partition])]))
        assert reply.error is ErrorCode.NONE
        [(found_topic, [found])] = reply.topics
        assert found_topic == topic
        return found

    def fetch_all(self, group_id: str = "g") -> dict[tuple[str, int], int]:
        reply = self.ask(FetchOffsets(group_id))
        return {(topic, each.partition): each.offset for topic, found in reply.topics for each in found}

    def send_stable_fetch(self, topic: str = "t", partition: int = 0, group_id: str = "g") -> int:
        return self.send(FetchOffsets(group_id, [(topic, [partition])], require_stable=True))

    def describe(self, group_id: str | None = "g", *, missing_is_error: bool = True):
        [described] = self.ask(DescribeGroups([group_id], missing_is_error)).groups
        return described

    def list_groups(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> dict[str, str]:
        return {each.group_id: each.state for each in self.ask(ListGroups(states, types)).groups}

    def delete_groups(self, *group_ids: str | None) -> dict:
        return dict(self.ask(DeleteGroups(list(group_ids))).groups)

    def delete_offsets(self, topics: dict[str, list[int]], group_id: str = "g"):
        return self.ask(DeleteOffsets(group_id, list(topics.items())))

    def form_group(self, *names: str | None, group_id: str = "g", **fields: object) -> list[str]:
        """Bring a group to Stable; each name is an instance id or None for a dynamic member. Returns the member ids."""
        tokens = [self.send_join(instance_id=name, group_id=group_id, **fields) for name in names]
        self.advance(self.settings.initial_rebalance_delay_ms)
        while self.state(group_id) == "PreparingRebalance":
            self.advance(self.settings.initial_rebalance_delay_ms)
        replies = [self.replies[token] for token in tokens]
        members = [reply.member_id for reply in replies]
        leader = replies[0].leader
        generation = replies[0].generation
        for member_id in members:
            everything = {each: assignment_of(each) for each in members} if member_id == leader else None
            self.send_sync(member_id, generation, everything, group_id=group_id)
        assert self.state(group_id) == "Stable"
        return members

    def settle_rebalance(self, tokens: dict[str, int], group_id: str = "g") -> None:
        """Send the SyncGroups of members whose joins are answered."""
        joined = {member_id: self.replies[token] for member_id, token in tokens.items()}
        for member_id, reply in joined.items():
            everything = {each: assignment_of(each) for each in joined} if reply.leader == member_id else None
            self.send_sync(member_id, reply.generation, everything, group_id=group_id)


def assignment_of(member_id: str) -> bytes:
    return b"assignment of " + member_id.encode()


def join_command(member_id: str = "", **fields: object) -> JoinGroup:
    settings: dict = {
        "group_id": "g",
        "member_id": member_id,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 30_000,
        "protocol_type": "consumer",
        "protocols": [("range", subscription("t"))],
        "require_known_member_id": False,
        "client_id": "c",
        "client_host": "/127.0.0.1",
    }
    return JoinGroup(**(settings | fields))


def codes(reply: Reply) -> dict[tuple[str, int], ErrorCode]:
    return {(topic, partition): code for topic, found in reply.topics for partition, code in found}


def compact(log: Iterable[Record]) -> list[Record]:
    """What compaction leaves of a log: the last record of each key, in log order."""
    last: dict = {}
    for record in log:
        last.pop(record_key(record), None)
        last[record_key(record)] = record
    return list(last.values())


def replayed(log: Iterable[Record]) -> dict:
    groups: dict[str, Group] = {}
    replay(groups, log)
    return stored_state(groups)


def check_consistency(driver: Driver) -> None:
    """What must hold of every live group between any two calls."""
    for group_id, group in driver.shard.groups.items():
        members = group.members
        state = group.state.value
        assert group.group_id == group_id
        assert group.waiting_joins == sum(member.join_token is not None for member in members.values())
        assert group.static_ids == {
            member.instance_id: member_id for member_id, member in members.items() if member.instance_id is not None
        }
        names = [name for member in members.values() for name, _ in member.protocols]
        assert group.protocol_counts == {name: names.count(name) for name in set(names)}
        assert (group.leader in members) if members else group.leader is None
        assert group.pending_sync <= set(members)
        assert not set(group.pending) & set(members)
        assert (group.join_deadline_ms is not None) == (state == "PreparingRebalance")
        assert (group.initial_delay is None) or state == "PreparingRebalance"
        assert (state == "Empty") <= (not members)
        assert state != "Dead"
        if state in ("Stable", "CompletingRebalance"):
            assert members
            assert group.protocol is not None
            assert all(group.protocol in dict(member.protocols) for member in members.values())
        if state != "CompletingRebalance":
            assert all(member.sync_token is None for member in members.values())
            assert group.sync_ticket is None
        if group.sync_ticket is not None:
            assert group.sync_ticket in driver.shard.tickets_in_flight
        if group.pending_sync:
            assert (driver.shard.partition, "sync", group_id, "") in driver.timers
        for member_id, member in members.items():
            key = (driver.shard.partition, "session", group_id, member_id)
            assert member.member_id == member_id
            if not member.counts_as_alive:
                assert driver.timers[key] <= member.session_deadline_ms
            if key in driver.timers:
                assert driver.timers[key] == member.armed_ms
        for member_id in group.pending:
            assert (driver.shard.partition, "session", group_id, member_id) in driver.timers
