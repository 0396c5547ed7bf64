"""What the rules of one shard work on: its groups, the appends under way, and the ports it was given.

Appends are settled strictly in ticket order, as the log holds them: an acknowledgement that overtakes an earlier one
waits for it. So the state is at every moment that of a prefix of the log, and several commits of one key never swap.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Protocol

from seamark.coordinator.effects import Append, Arm, Effects
from seamark.coordinator.membership.groups import Group
from seamark.coordinator.membership.members import NEVER_MS, Member
from seamark.coordinator.metrics import Counters
from seamark.coordinator.settings import Settings
from seamark.coordinator.storing.records import Record
from seamark.wire.protocol.error_codes import ErrorCode

# Answers how many partitions a topic has, None for a topic that does not exist (F26).
PartitionCount = Callable[[str], int | None]
# Makes the random end of a member id; the only source of randomness.
MakeId = Callable[[], str]

APPEND_TIMER = "append"
# Fired after others have had their turn, and not at a time of its own.
SWEEP_TIMER = "sweep"


class PendingMembers:
    """The ids that have not joined yet, of all shards of a coordinator: what each holds, the oldest first, and the
    sum.
    """

    __slots__ = ("byte_count", "sizes")

    def __init__(self) -> None:
        self.sizes: dict[tuple[ShardState, str, str], int] = {}
        self.byte_count = 0


class Waiter(Protocol):
    """A request that waits for an append of someone else."""

    deadline_ms: int

    def release(self, state: ShardState, effects: Effects) -> None:
        """The append is settled."""

    def give_up(self, effects: Effects) -> None:
        """The deadline has passed, or the shard is unloaded."""


class Pending:
    """One append under way. Subclasses say what follows; the records are replayed before ``on_stored`` is called."""

    __slots__ = ("decided_ms", "is_acknowledged", "is_late", "records", "waiters")

    def __init__(self, records: list[Record], decided_ms: int) -> None:
        self.records = records
        self.decided_ms = decided_ms
        self.is_acknowledged = False
        self.is_late = False
        self.waiters: list[Waiter] | None = None

    def on_stored(self, state: ShardState, now_ms: int, effects: Effects) -> None:
        """The records are stored and replayed. After a timeout the request is already answered."""

    def on_failed(self, state: ShardState, code: ErrorCode, now_ms: int, effects: Effects) -> None:
        """The records are not in the log and never will be; ``code`` is already translated."""

    def on_late(self, state: ShardState, code: ErrorCode, now_ms: int, effects: Effects) -> None:
        """The commit timeout has passed; the records may still become stored."""

    def on_unloaded(self, code: ErrorCode, effects: Effects) -> None:
        """The shard is given up; answer what waits here, if it is not answered yet."""


class QueuedSweep(Protocol):
    """A removal of many things whose next step can be taken; ``offsets.sweeps`` says what a step is."""

    def take_turn(self, now_ms: int, effects: Effects) -> None:
        """Take the next step."""

    def on_unloaded(self, code: ErrorCode, effects: Effects) -> None:
        """The shard is given up, and with it everything the sweep was about."""


class MemberMemory(Protocol):
    """Bounds what the members of all shards of a coordinator hold; ``membership.member_bytes`` says how."""

    def loaded(self, member: Member) -> None:
        """A member is there again that an earlier coordinator had taken in."""

    def added(self, member: Member, now_ms: int, effects: Effects) -> None:
        """A member came or brought something new."""


class ShardState:
    __slots__ = (
        "append_timer_ms",
        "counters",
        "forgetting",
        "groups",
        "in_flight",
        "is_checking_expiry",
        "make_id",
        "member_bytes",
        "next_ticket",
        "oldest_ticket",
        "partition",
        "partition_count",
        "pending_members",
        "settings",
        "sweeps",
    )

    def __init__(
        self,
        partition: int,
        settings: Settings,
        partition_count: PartitionCount,
        make_id: MakeId,
        member_bytes: MemberMemory,
        pending_members: PendingMembers,
    ) -> None:
        self.partition = partition
        self.member_bytes = member_bytes
        self.pending_members = pending_members
        self.settings = settings
        self.partition_count = partition_count
        self.make_id = make_id
        self.groups: dict[str, Group] = {}
        self.counters = Counters()
        self.in_flight: dict[int, Pending] = {}
        self.next_ticket = 0
        # Every ticket below this one is settled.
        self.oldest_ticket = 0
        # The deadline at which the shell was told to look after late appends and the fetches that wait for them.
        self.append_timer_ms = NEVER_MS
        # Removals whose next step can be taken; those that wait for the log are not among them.
        self.sweeps: deque[QueuedSweep] = deque()
        self.is_checking_expiry = False
        # Deleted topics whose offsets were not all found yet, each with the number of its removals.
        self.forgetting: Counter[str] = Counter()

    def append(self, pending: Pending, effects: Effects) -> int:
        """Hand records to the log; the outcome settles ``pending``."""
        ticket = self.next_ticket
        self.next_ticket = ticket + 1
        self.in_flight[ticket] = pending
        effects.appends.append(Append(self.partition, ticket, pending.records))
        deadline_ms = pending.decided_ms + self.settings.commit_timeout_ms
        if deadline_ms < self.append_timer_ms:
            self.arm_append_timer(deadline_ms, effects)
        return ticket

    def arm_append_timer(self, deadline_ms: int, effects: Effects) -> None:
        self.append_timer_ms = deadline_ms
        effects.timers.append(Arm((self.partition, APPEND_TIMER, "", ""), deadline_ms))

    def drop_if_hollow(self, group: Group) -> None:
        """Forget a group that was only made for an append which then failed, or for an id that nobody joined with."""
        if not group.has_substance and not group.is_being_removed and group.last_ticket not in self.in_flight:
            self.groups.pop(group.group_id, None)
