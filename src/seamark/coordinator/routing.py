"""The coordinator of one broker: routes each request to the shard of its group, and gathers what spans shards.

A broker coordinates the groups of those offsets partitions it leads (B5). A request for a group of another partition
is answered NOT_COORDINATOR; listing covers what is here. Requests for many groups are split by partition, and
answered once with all results in the order they were asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from seamark.coordinator.commands import (
    Command,
    DeleteGroups,
    DescribeGroups,
    ForgetTopics,
    ListGroups,
)
from seamark.coordinator.effects import Effects, TimerKey, Token
from seamark.coordinator.membership.member_bytes import MemberBytes
from seamark.coordinator.offsets.commit_patterns import CommitAgain
from seamark.coordinator.placement import partition_for
from seamark.coordinator.refusals import invalidity, refuse
from seamark.coordinator.replies import (
    DeleteGroupsReply,
    DescribedGroup,
    DescribeReply,
    ForgetReply,
    ListReply,
    Reply,
)
from seamark.coordinator.settings import Settings
from seamark.coordinator.shard import Shard, Status
from seamark.coordinator.shard_state import MakeId, PartitionCount, PendingMembers
from seamark.coordinator.storing.records import Record
from seamark.counts import counted
from seamark.errors import ConfigError, UsageError
from seamark.wire.protocol.error_codes import ErrorCode

_NONE = ErrorCode.NONE
_SPANNING = frozenset({DescribeGroups, DeleteGroups, ListGroups, ForgetTopics})


class Coordinator:
    """All shards of one broker. ``partition_count`` and ``make_id`` are as for ``Shard``; time is given to each call.

    ``offsets_partitions`` is the partition count of the offsets topic as it is, not as it is configured (F16).
    """

    def __init__(
        self,
        offsets_partitions: int,
        settings: Settings,
        *,
        partition_count: PartitionCount,
        make_id: MakeId,
    ) -> None:
        if offsets_partitions < 1:
            raise ConfigError("offsets.topic.num.partitions", offsets_partitions, "must be at least 1")
        self.offsets_partitions = offsets_partitions
        self.settings = settings
        # A coordinator that is not running answers COORDINATOR_NOT_AVAILABLE before looking at anything (D3).
        self.is_running = True
        self._partition_count = partition_count
        self._make_id = make_id
        self._shards: dict[int, Shard] = {}
        self._member_bytes = MemberBytes()
        self._pending_members = PendingMembers()
        # Requests that span shards and are not answered yet.
        self._gathering_count = 0

    def partition_for(self, group_id: str) -> int:
        return partition_for(group_id, self.offsets_partitions)

    @property
    def shards(self) -> dict[int, Shard]:
        """The shards this broker has or had, by partition; to be read only."""
        return self._shards

    def shard(self, partition: int) -> Shard:
        """The shard of a partition, made unloaded when it is asked for the first time."""
        if not 0 <= partition < self.offsets_partitions:
            raise UsageError(
                f"the offsets topic has {counted(self.offsets_partitions, 'partition')}, there is no {partition}"
            )
        shard = self._shards.get(partition)
        if shard is None:
            shard = self._shards[partition] = Shard(
                partition,
                self.settings,
                partition_count=self._partition_count,
                make_id=self._make_id,
                member_bytes=self._member_bytes,
                pending_members=self._pending_members,
            )
        return shard

    def begin_load(self, partition: int) -> None:
        """Take the partition over, now that this broker leads it: its groups are being loaded."""
        self.shard(partition).begin_load()

    def replay(self, partition: int, records: Iterable[Record]) -> None:
        self.shard(partition).replay(records)

    def revive(self, partition: int, count: int) -> bool:
        return self.shard(partition).revive(count)

    def finish_load(self, partition: int, now_ms: int) -> Effects:
        return self.shard(partition).finish_load(now_ms)

    def unload(self, partition: int, now_ms: int) -> Effects:
        """Give the partition up, now that another broker leads it."""
        return self._gathered(self.shard(partition).unload(now_ms))

    def handle(self, command: Command | CommitAgain, token: Token, now_ms: int) -> Effects:
        """Decide a request; its one reply comes with these effects or with those of a later call."""
        if not self.is_running:
            return self._refused(command, token, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if type(command) in _SPANNING:
            return self._handle_spanning(command, token, now_ms)  # type: ignore[arg-type]
        code = invalidity(command, self.settings)
        if code is not _NONE:
            return self._refused(command, token, code)
        shard = self._shards.get(partition_for(command.group_id or "", self.offsets_partitions))  # type: ignore[union-attr]
        if shard is None:
            return self._refused(command, token, ErrorCode.NOT_COORDINATOR)
        return shard.decide(command, token, now_ms)

    def stored(self, partition: int, ticket: int, now_ms: int) -> Effects:
        return self._gathered(self.shard(partition).stored(ticket, now_ms))

    def all_stored(self, partition: int, tickets: Iterable[int], now_ms: int) -> Effects:
        """As ``stored``, for appends that were acknowledged together."""
        return self._gathered(self.shard(partition).all_stored(tickets, now_ms))

    def failed(self, partition: int, ticket: int, code: ErrorCode, now_ms: int) -> Effects:
        return self._gathered(self.shard(partition).failed(ticket, code, now_ms))

    def fire(self, key: TimerKey, now_ms: int) -> Effects:
        return self._gathered(self.shard(key[0]).fire(key, now_ms))

    def move_deadlines(self, by_ms: int) -> None:
        for shard in self._shards.values():
            shard.move_deadlines(by_ms)

    def gauges(self) -> dict[str, int]:
        return _summed(shard.gauges() for shard in self._shards.values())

    def counters(self) -> dict[str, int]:
        return _summed(shard.counters() for shard in self._shards.values())

    def _refused(self, command: Command | CommitAgain, token: Token, code: ErrorCode) -> Effects:
        effects = Effects()
        effects.replies.append((token, refuse(command, code, self._partition_count)))
        return effects

    def _handle_spanning(
        self, command: DescribeGroups | DeleteGroups | ListGroups | ForgetTopics, token: Token, now_ms: int
    ) -> Effects:
        parts: list[tuple[Shard, Command]] = []
        if isinstance(command, ListGroups | ForgetTopics):
            owned = [shard for shard in self._shards.values() if shard.status is not Status.UNLOADED]
            parts = [(shard, command) for shard in owned]
        else:
            by_partition: dict[int, list[str | None]] = {}
            for group_id in dict.fromkeys(command.group_ids):
                by_partition.setdefault(self.partition_for(group_id or ""), []).append(group_id)
            for partition, group_ids in by_partition.items():
                if isinstance(command, DescribeGroups):
                    part: Command = DescribeGroups(group_ids, command.missing_is_error)
                else:
                    part = DeleteGroups(group_ids)
                parts.append((self.shard(partition), part))
        gathering = _Gathering(command, token, len(parts))
        effects = Effects()
        if not parts:
            effects.replies.append((token, gathering.merged()))
        else:
            self._gathering_count += 1
        for shard, part in parts:
            effects.extend(shard.handle(part, _Part(gathering), now_ms))
        return self._gathered(effects)

    def _gathered(self, effects: Effects) -> Effects:
        """Hold back the replies of parts until the last part of the request is answered."""
        if self._gathering_count and any(type(token) is _Part for token, _ in effects.replies):
            replies: list[tuple[Token, Reply]] = []
            for token, reply in effects.replies:
                if type(token) is not _Part:
                    replies.append((token, reply))
                    continue
                gathering = token.gathering
                gathering.replies.append(reply)
                if len(gathering.replies) == gathering.part_count:
                    self._gathering_count -= 1
                    replies.append((gathering.token, gathering.merged()))
            effects.replies = replies
        return effects


class _Gathering:
    """A request that spans shards, and the replies it has so far."""

    def __init__(self, command: Command, token: Token, part_count: int) -> None:
        self.command = command
        self.token = token
        self.part_count = part_count
        self.replies: list[Reply] = []

    def merged(self) -> Reply:
        return _MERGES[type(self.command)](self.command, self.replies)


class _Part:
    """The token under which a shard knows its part of a spanning request."""

    __slots__ = ("gathering",)

    def __init__(self, gathering: _Gathering) -> None:
        self.gathering = gathering


def _merge_lists(_: Command, replies: list[Reply]) -> Reply:
    merged = ListReply()
    for reply in replies:
        assert isinstance(reply, ListReply)
        if reply.error is not ErrorCode.NONE:
            return ListReply(reply.error)
        merged.groups += reply.groups
    return merged


def _merge_forgotten(_: Command, replies: list[Reply]) -> Reply:
    merged = ForgetReply()
    for reply in replies:
        assert isinstance(reply, ForgetReply)
        merged.removed += reply.removed
        if reply.error is not ErrorCode.NONE:
            merged.error = reply.error
    return merged


def _merge_described(command: Command, replies: list[Reply]) -> Reply:
    assert isinstance(command, DescribeGroups)
    described: dict[str | None, DescribedGroup] = {}
    for reply in replies:
        assert isinstance(reply, DescribeReply)
        described.update((group.group_id, group) for group in reply.groups)
    return DescribeReply([described[group_id] for group_id in command.group_ids])


def _merge_deleted(command: Command, replies: list[Reply]) -> Reply:
    assert isinstance(command, DeleteGroups)
    codes: dict[str | None, ErrorCode] = {}
    for reply in replies:
        assert isinstance(reply, DeleteGroupsReply)
        codes.update(reply.groups)
    return DeleteGroupsReply([(group_id, codes[group_id]) for group_id in dict.fromkeys(command.group_ids)])


_MERGES: dict[type, Callable[[Command, list[Reply]], Reply]] = {
    ListGroups: _merge_lists,
    ForgetTopics: _merge_forgotten,
    DescribeGroups: _merge_described,
    DeleteGroups: _merge_deleted,
}


def _summed(parts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0) + value
    return total
