"""A group: what is stored about it, its members, and the rebalance under way.

``offsets`` and ``stored`` are the stored state; only ``replay`` writes them. All other fields live as long as the
shard stays loaded; they are written by the rules of joining, syncing, leaving and expiring, through the methods
below, which keep members, static ids, protocol counts and the number of waiting joins in step with each other.
"""

from __future__ import annotations

from seamark.coordinator.effects import Token
from seamark.coordinator.membership.members import Member, Protocols, member_from_store
from seamark.coordinator.membership.subscriptions import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from seamark.coordinator.replies import JoinedMember
from seamark.coordinator.states import State, check_move
from seamark.coordinator.storing.records import GroupStored, OffsetCommitted
from seamark.wire.protocol.error_codes import ErrorCode

_NONE = ErrorCode.NONE
_LAST_GENERATION = 2**31 - 1

OffsetTable = dict[tuple[str, int], OffsetCommitted]


class InitialDelay:
    """The running window of an initial delayed join (D18): its length, and what may still be added behind it."""

    __slots__ = ("delay_ms", "remaining_ms")

    def __init__(self, delay_ms: int, remaining_ms: int) -> None:
        self.delay_ms = delay_ms
        self.remaining_ms = remaining_ms


class Group:
    __slots__ = (
        "_subscribed",
        "_subscriptions",
        "generation",
        "group_id",
        "initial_delay",
        "is_being_removed",
        "join_deadline_ms",
        "last_ticket",
        "leader",
        "members",
        "new_member_added",
        "offsets",
        "pending",
        "pending_sync",
        "protocol",
        "protocol_counts",
        "protocol_type",
        "state",
        "state_ms",
        "static_ids",
        "stored",
        "sync_deadline_ms",
        "sync_ticket",
        "waiting_joins",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.offsets: OffsetTable = {}
        self.stored: GroupStored | None = None
        # The newest append that holds records of this group; stable fetches wait for it.
        self.last_ticket = -1
        self.become_simple()

    def become_simple(self) -> None:
        """Set the live fields to those of a group without members and without a stored generation."""
        self.state = State.EMPTY
        # When the state was entered; -1 when that is not known, and expiration then counts from the commits.
        self.state_ms = -1
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        # The subscriptions of this generation, until somebody asks which topics they name.
        self._subscriptions: set[bytes] | None = None
        self._subscribed: frozenset[str] | None = None
        self.members: dict[str, Member] = {}
        self.static_ids: dict[str, str] = {}
        # Ids handed out with MEMBER_ID_REQUIRED that have not joined yet, with their deadlines (D12).
        self.pending: dict[str, int] = {}
        self.pending_sync: set[str] = set()
        self.protocol_counts: dict[str, int] = {}
        self.waiting_joins = 0
        self.initial_delay: InitialDelay | None = None
        self.new_member_added = False
        self.join_deadline_ms: int | None = None
        self.sync_deadline_ms: int | None = None
        # The append of this generation's assignment, so that a repeated SyncGroup of the leader stores nothing twice.
        self.sync_ticket: int | None = None
        # A tombstone of the group is on its way to the log; until that is settled the group answers like a dead one.
        self.is_being_removed = False

    def move_to(self, state: State, now_ms: int) -> None:
        check_move(self.group_id, self.state, state)
        self.state = state
        self.state_ms = now_ms

    @property
    def effective_state(self) -> State:
        return State.DEAD if self.is_being_removed else self.state

    @property
    def is_consumer_group(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def has_substance(self) -> bool:
        """Whether anything but an unsettled append keeps this group in memory."""
        return bool(self.stored is not None or self.offsets or self.members or self.pending)

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def all_have_joined(self) -> bool:
        return self.waiting_joins == len(self.members) and not self.pending

    def refusal_of(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """NONE if the ids name a member; a superseded static id is fenced (D33)."""
        if instance_id is not None:
            current = self.static_ids.get(instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return _NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a joiner with these protocols can be part of the next generation (D13)."""
        if self.state is State.EMPTY:
            return bool(protocol_type and protocols)
        size = len(self.members)
        return protocol_type == self.protocol_type and any(
            self.protocol_counts.get(name, 0) == size for name, _ in protocols
        )

    def is_subscribed_to(self, topic: str) -> bool:
        return self.is_consumer_group if self.subscribed is None else topic in self.subscribed

    @property
    def subscribed(self) -> frozenset[str] | None:
        """The topics that members of this generation subscribe to, None when they cannot be known."""
        if self._subscriptions is not None:
            self._subscribed = subscribed_topics(self.protocol_type, self._subscriptions)
            self._subscriptions = None
        return self._subscribed

    def add(self, member: Member, protocol_type: str, token: Token | None) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self._count(member.protocols, 1)
        member.join_token = token
        if token is not None:
            self.waiting_joins += 1

    def remove(self, member: Member) -> None:
        """Take out a member whose waiting requests have been answered."""
        del self.members[member.member_id]
        self._count(member.protocols, -1)
        if member.instance_id is not None and self.static_ids.get(member.instance_id) == member.member_id:
            del self.static_ids[member.instance_id]
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)
        self.pending_sync.discard(member.member_id)

    def rename(self, member: Member, new_id: str) -> None:
        """Give a static member another id; the place in the group, the assignment and the leadership stay."""
        old_id = member.member_id
        del self.members[old_id]
        member.member_id = new_id
        self.members[new_id] = member
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        if old_id in self.pending_sync:
            self.pending_sync.remove(old_id)
            self.pending_sync.add(new_id)

    def change_protocols(self, member: Member, protocols: Protocols) -> None:
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(protocols, 1)

    def elect_rejoined_leader(self) -> bool:
        """Make sure the leader is a member that waits in JoinGroup; False if nobody does (D22, D26)."""
        if self.leader is not None and self.members[self.leader].join_token is not None:
            return True
        for member in self.members.values():
            if member.join_token is not None:
                self.leader = member.member_id
                return True
        return False

    def select_protocol(self) -> str:
        """The protocol with the most first votes among those all support; of equals the one voted for first."""
        size = len(self.members)
        candidates = {name for name, count in self.protocol_counts.items() if count == size}
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=votes.__getitem__)

    def next_generation(self, now_ms: int) -> None:
        """D23."""
        # The wire has 32 bits for it, and a negative one would mean "no generation".
        self.generation = self.generation + 1 if self.generation < _LAST_GENERATION else 0
        if self.members:
            self.protocol = self.select_protocol()
            self.refresh_subscription()
            self.move_to(State.COMPLETING, now_ms)
        else:
            self.protocol = None
            self.leader = None
            self.refresh_subscription()
            self.move_to(State.EMPTY, now_ms)

    def refresh_subscription(self) -> None:
        # Taken now, for members may bring other ones before the next generation, and read when it is asked for.
        self._subscriptions = {member.metadata(self.protocol) for member in self.members.values()}

    def member_list(self) -> list[JoinedMember]:
        return [
            JoinedMember(member.member_id, member.instance_id, member.metadata(self.protocol))
            for member in self.members.values()
        ]

    def to_store(self, assignments: dict[str, bytes]) -> GroupStored:
        return GroupStored(
            self.group_id,
            self.protocol_type or "",
            self.generation,
            self.protocol,
            self.leader,
            self.state_ms,
            tuple(
                member.to_store(self.protocol, assignments.get(member.member_id, b""))
                for member in self.members.values()
            ),
        )

    def revive(self) -> None:
        """Set the live fields from the stored generation, as after a load: Stable with members, else Empty."""
        self.become_simple()
        stored = self.stored
        if stored is None:
            return
        self.state = State.STABLE if stored.members else State.EMPTY
        self.state_ms = stored.state_ms
        self.generation = stored.generation
        self.protocol = stored.protocol
        for member in stored.members:
            if member.member_id not in self.members:
                self.add(member_from_store(member, stored.protocol), stored.protocol_type, None)
        self.protocol_type = stored.protocol_type or None
        if stored.leader in self.members:
            self.leader = stored.leader
        self.refresh_subscription()

    def _count(self, protocols: Protocols, step: int) -> None:
        counts = self.protocol_counts
        for name, _ in protocols:
            count = counts.get(name, 0) + step
            if count:
                counts[name] = count
            else:
                del counts[name]
