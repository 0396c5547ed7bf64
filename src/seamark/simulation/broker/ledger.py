"""Who may commit to a group, and who owns what, told only from what the coordinator answered and stored.

A member may commit under a generation it was let into, while that generation is the newest anybody was told of, it
has not left, no other member has taken its instance id, and its session has not run out. The ledger is never stricter
than the protocol: what it cannot know, it allows. A new incarnation starts when the group was removed or when a crash
took records that were acknowledged, since generations then count anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from seamark.coordinator.commands import CommitOffsets
from seamark.coordinator.storing.records import GroupStored
from seamark.simulation.world.violations import InvariantViolated


class Ledger:
    """One group."""

    __slots__ = (
        "alive_ms",
        "generation",
        "granted",
        "group_id",
        "has_lost_records",
        "holders",
        "incarnation",
        "instances",
        "is_completing",
        "owners",
        "protocols",
        "sessions",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.incarnation = 0
        # Generations that were handed out are gone, and their numbers may be in use twice.
        self.has_lost_records = False
        self.owners: dict[tuple[int, int], dict[tuple[str, int], str]] = {}
        self.protocols: dict[tuple[int, int], str | None] = {}
        self.forget()

    def forget(self) -> None:
        """Nothing is known of members any more."""
        self.generation = -1
        # Of each member the generation it was let into.
        self.granted: dict[str, int] = {}
        self.holders: dict[str, str] = {}
        self.instances: dict[str, str] = {}
        self.sessions: dict[str, int] = {}
        # The last sign of life by the broker's clock; absent where a step of the clock makes it worthless.
        self.alive_ms: dict[str, int] = {}
        self.is_completing = False

    def begin_incarnation(self) -> None:
        self.incarnation += 1
        self.forget()

    def load(self, stored: GroupStored | None, now_ms: int) -> None:
        """The group was loaded with this record: its members are back, and nobody else."""
        self.forget()
        if stored is None:
            # Perhaps a tombstone that was never acknowledged took it: its generations count anew.
            self.incarnation += 1
        newest = -1 if stored is None else stored.generation
        # A generation that was announced and not stored is announced anew, to others perhaps.
        self.protocols = {place: known for place, known in self.protocols.items() if place[1] <= newest}
        if stored is not None:
            self.generation = newest
            for member in stored.members:
                self.granted[member.member_id] = stored.generation
                self.sessions[member.member_id] = member.session_timeout_ms
                self.alive_ms[member.member_id] = now_ms
                if member.instance_id is not None:
                    self.holders[member.instance_id] = member.member_id
                    self.instances[member.member_id] = member.instance_id

    def grant(self, member_id: str, instance_id: str | None, generation: int, session_ms: int, now_ms: int) -> None:
        """A JoinGroup was answered with the generation."""
        if generation < self.generation:
            raise InvariantViolated(
                "generations go up",
                f"group {self.group_id} lets {member_id} into {generation} after {self.generation}",
            )
        if generation > self.generation:
            self.generation = generation
            self.is_completing = True
            # Silent static members are taken along, and their sessions begin anew.
            for each in self.instances:
                if each in self.alive_ms:
                    self.alive_ms[each] = now_ms
        self.granted[member_id] = generation
        self.sessions[member_id] = session_ms
        self.alive_ms[member_id] = now_ms
        if instance_id is not None:
            former = self.holders.get(instance_id)
            if former is not None and former != member_id:
                self.granted.pop(former, None)
            self.holders[instance_id] = member_id
            self.instances[member_id] = instance_id

    def agree(self, generation: int, protocol: str | None) -> None:
        """All members of a generation are told one protocol."""
        known = self.protocols.setdefault((self.incarnation, generation), protocol)
        if known != protocol:
            raise InvariantViolated(
                "one protocol per generation",
                f"group {self.group_id} generation {generation} has {known} and {protocol}",
            )

    def note_stored(self, stored: GroupStored) -> None:
        """The assignment of a generation counts from now on."""
        if stored.generation == self.generation:
            self.is_completing = False

    def note_emptied(self, generation: int) -> None:
        """The coordinator is about to store a generation without members."""
        self.generation = max(self.generation, generation)
        self.granted.clear()
        self.is_completing = False

    def depart(self, member_id: str) -> None:
        self.granted.pop(member_id, None)

    def depart_instance(self, instance_id: str) -> None:
        member_id = self.holders.get(instance_id)
        if member_id is not None:
            self.granted.pop(member_id, None)

    def own(self, identity: str, generation: int, partitions: Sequence[tuple[str, int]]) -> None:
        """A SyncGroup was answered with these partitions."""
        owners = self.owners.setdefault((self.incarnation, generation), {})
        for partition in partitions:
            owner = owners.setdefault(partition, identity)
            if owner != identity:
                raise InvariantViolated(
                    "one owner per partition per generation",
                    f"{partition[0]}-{partition[1]} of group {self.group_id} generation {generation} "
                    f"belongs to {owner} and to {identity}",
                )

    def check_commit(self, command: CommitOffsets, now_ms: int, is_parked: bool, has_parked_join: bool) -> None:
        """The coordinator is about to store the commit: may it?"""
        member_id, generation = command.member_id, command.generation
        if generation < 0:
            if has_parked_join or any(self._is_surely_member(each, now_ms) for each in self.granted):
                raise self._stale(command, "the group has members")
            return
        if not self.is_let_in(member_id, generation):
            raise self._stale(command, f"the newest generation is {self.generation}, {self.granted} were let in")
        if self.is_completing:
            raise self._stale(command, "the generation has no assignment yet")
        instance_id = self.instances.get(member_id)
        if command.instance_id is not None and command.instance_id != instance_id:
            raise self._stale(command, f"the member's instance is {instance_id}")
        alive_ms = self.alive_ms.get(member_id)
        if alive_ms is not None and now_ms - alive_ms > self.sessions[member_id] and not is_parked:
            raise self._stale(command, f"its session ran out at {alive_ms + self.sessions[member_id]}")

    def is_let_in(self, member_id: str, generation: int) -> bool:
        """Is this the newest generation, and the member in it?

        A silent static member is taken along into every generation. It is not told of them, but numbers that were not
        stored come again after a crash.
        """
        if generation != self.generation or member_id not in self.granted:
            return False
        return self.granted[member_id] == generation or member_id in self.instances

    def _is_surely_member(self, member_id: str, now_ms: int) -> bool:
        alive_ms = self.alive_ms.get(member_id)
        return (
            self.granted[member_id] == self.generation
            and alive_ms is not None
            and now_ms - alive_ms < self.sessions[member_id]
        )

    def _stale(self, command: CommitOffsets, reason: str) -> InvariantViolated:
        return InvariantViolated(
            "a stale generation, member or instance never commits",
            f"group {self.group_id} takes a commit of {command.member_id!r} ({command.instance_id!r}) in generation "
            f"{command.generation}, but {reason}",
        )
