"""Committed offsets where Kafka keeps them: in the groups of a cluster, through an admin client.

Offsets are read as stable ones: what an open transaction may still change is waited for. They are written only for
groups that have no members: a batch is looked at first, and the broker refuses an anonymous commit to a group with
members as well. Kafka lists groups that have stored nothing, too.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import cycle, islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from seamark.client import Offset
from seamark.client.errors import BrokerError, ClientError, MemberFenced, UnsupportedByBroker
from seamark.client.group_offsets import commit_portions
from seamark.errors import ClosedError, SeamarkError
from seamark.stores.contract import GroupOffsets, GroupWrite, Outcomes, StoredOffset, is_offset
from seamark.stores.errors import StoreError, StoreRefused, StoreUnavailable
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from seamark.client import Admin
    from seamark.client.admin.types import GroupDescription, GroupMember

# One OffsetFetch for so many groups: with hundreds of partitions each an answer is still a few megabytes.
_READ_AT_ONCE = 200
_DESCRIBED_AT_ONCE = 500
# Each commit waits for its own append, so several are under way, on several connections: a broker takes up the next
# request of a connection only when it has answered the one before.
_WRITTEN_AT_ONCE = 16
_WRITING_CLIENTS = 4


class KafkaStore:
    """An ``OffsetStore`` over a cluster: options as for ``Admin``, or an admin client that stays the caller's."""

    keeps_metadata = True

    def __init__(
        self, config: Mapping[str, Any] | None = None, /, *, admin: Admin | None = None, **keywords: Any
    ) -> None:
        from seamark.client import Admin

        self._is_ours = admin is None
        self._admin = Admin(config, **keywords) if admin is None else admin
        self.name = f"kafka {','.join(self._admin.config.bootstrap_servers)}"
        self._is_closed = False
        # Threads may share a store: what is started when it is first needed is started once.
        self._starting = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._writers: list[Admin] = []
        self._can_ask_for_stable = True

    @property
    def admin(self) -> Admin:
        """The client that this store asks; ClosedError after ``close``."""
        if self._is_closed:
            raise ClosedError(f"{self.name} was closed")
        return self._admin

    # -- looking

    def groups(self) -> list[str]:
        try:
            listed = self.admin.list_groups()
        except ClientError as error:
            raise self._fault(error) from error
        # Other protocols than the consumers' (Connect's, for one) have groups without offsets.
        return sorted(group.group_id for group in listed if group.protocol_type in ("", "consumer"))

    def topics(self, group: str) -> list[str]:
        return sorted({partition.topic for partition in self.read(group)})

    def read(self, group: str, topics: Iterable[str] | None = None) -> GroupOffsets:
        offsets = next(self.read_many([group]))[1]
        if topics is None:
            return offsets
        wanted = set(topics)
        return GroupOffsets({partition: offset for partition, offset in offsets.items() if partition.topic in wanted})

    def read_many(self, groups: Iterable[str]) -> Iterator[tuple[str, GroupOffsets]]:
        coming = iter(groups)
        while batch := list(islice(coming, _READ_AT_ONCE)):
            offsets = self._read_batch(batch)
            for group in batch:
                yield (
                    group,
                    GroupOffsets({partition: _stored(offset) for partition, offset in sorted(offsets[group].items())}),
                )

    def _read_batch(self, groups: list[str]) -> Mapping[str, dict[TopicPartition, Offset]]:
        try:
            if self._can_ask_for_stable:
                try:
                    return self.admin.list_group_offsets(groups, require_stable=True).raise_if_failed()
                except UnsupportedByBroker:
                    # Before 2.5 a broker cannot be asked for stable offsets.
                    self._can_ask_for_stable = False
            return self.admin.list_group_offsets(groups).raise_if_failed()
        except ClientError as error:
            raise self._fault(error) from error

    # -- changing

    def write(self, group: str, offsets: Mapping[TopicPartition, StoredOffset]) -> Outcomes:
        return next(self.write_many([(group, offsets)]))[1]

    def write_many(self, items: Iterable[GroupWrite]) -> Iterator[tuple[str, Outcomes]]:
        coming = iter(items)
        waiting: deque[tuple[str, Future[Outcomes]]] = deque()
        while batch := list(islice(coming, _WRITTEN_AT_ONCE)):
            refusals = self._refusals([group for group, _ in batch])
            for (group, offsets), admin in zip(batch, cycle(self._writing_clients(len(batch)))):
                write = self._workers().submit(self._write_group, admin, group, offsets, refusals.get(group))
                waiting.append((group, write))
            # The next batch is looked at and sent while this one is being stored.
            while len(waiting) > _WRITTEN_AT_ONCE:
                yield _finished(waiting.popleft())
        while waiting:
            yield _finished(waiting.popleft())

    def _refusals(self, groups: list[str]) -> dict[str, StoreError]:
        try:
            return {
                group: StoreRefused(self.name, f"group {group!r} has members ({', '.join(members)}): stop them first")
                for group, members in self.active_members_many(groups)
                if members
            }
        except StoreError as error:
            return dict.fromkeys(groups, error)

    def _write_group(
        self, admin: Admin, group: str, offsets: Mapping[TopicPartition, StoredOffset], refusal: StoreError | None
    ) -> Outcomes:
        outcomes: Outcomes = dict.fromkeys(offsets, refusal)
        if refusal is not None:
            return outcomes
        wanted: dict[TopicPartition, Offset] = {}
        for partition, stored in offsets.items():
            if is_offset(stored.offset):
                epoch = -1 if stored.leader_epoch is None else stored.leader_epoch
                wanted[partition] = Offset(stored.offset, stored.metadata, epoch)
            else:
                reason = f"{stored.offset} for {partition} of group {group!r} is not an offset"
                outcomes[partition] = StoreRefused(self.name, reason)
        for portion in commit_portions(group, wanted):
            try:
                # The whole batch of groups has been looked at.
                failed = admin.alter_group_offsets(group, dict(portion), look_first=False).errors
            except ClientError as error:
                outcomes |= dict.fromkeys(portion, self._fault(error))
            else:
                outcomes |= {partition: self._fault(error) for partition, error in failed.items()}
        return outcomes

    def delete(self, group: str, partitions: Iterable[TopicPartition]) -> Outcomes:
        wanted = list(partitions)
        try:
            failed = self.admin.delete_group_offsets(group, wanted).errors
        except ClientError as error:
            return dict.fromkeys(wanted, self._fault(error))
        return {partition: self._not_forgotten(failed.get(partition)) for partition in wanted}

    def _not_forgotten(self, error: SeamarkError | None) -> StoreError | None:
        if error is None or _is_missing(error):
            return None
        return self._fault(error)

    # -- who is there

    def active_members(self, group: str) -> list[str]:
        return next(self.active_members_many([group]))[1]

    def active_members_many(self, groups: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
        coming = iter(groups)
        while batch := list(islice(coming, _DESCRIBED_AT_ONCE)):
            try:
                described = self.admin.describe_groups(batch)
            except ClientError as error:
                raise self._fault(error) from error
            for group in batch:
                failed = described.errors.get(group)
                if failed is None:
                    yield group, _members(described[group])
                elif _is_missing(failed):
                    yield group, []
                else:
                    raise self._fault(failed) from failed

    # -- life

    def _workers(self) -> ThreadPoolExecutor:
        with self._starting:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_WRITTEN_AT_ONCE, "seamark-store")
            return self._pool

    def _writing_clients(self, groups: int) -> list[Admin]:
        """Whom to write with; looking at the next batch does not have to wait for them."""
        if groups == 1:
            return [self.admin]
        with self._starting:
            if not self._writers:
                self._writers = [self.admin.another() for _ in range(_WRITING_CLIENTS)]
            return self._writers

    def _fault(self, error: SeamarkError) -> StoreError:
        if isinstance(error, MemberFenced):
            # How a broker answers a commit from outside to a group that has members.
            made: StoreError = StoreRefused(self.name, f"a member has joined the group: {error}")
        elif getattr(error, "is_retriable", False):
            made = StoreUnavailable(self.name, str(error))
        else:
            made = StoreRefused(self.name, str(error))
        made.__cause__ = error
        return made

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        for writer in self._writers:
            writer.close()
        if self._is_ours:
            self._admin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<KafkaStore {self.name.removeprefix('kafka ')}>"


def _stored(offset: Offset) -> StoredOffset:
    return StoredOffset(offset.offset, offset.metadata, None if offset.leader_epoch < 0 else offset.leader_epoch)


def _finished(waiting: tuple[str, Future[Outcomes]]) -> tuple[str, Outcomes]:
    group, outcome = waiting
    return group, outcome.result()


def _is_missing(error: SeamarkError) -> bool:
    return isinstance(error, BrokerError) and error.code is ErrorCode.GROUP_ID_NOT_FOUND


def _members(group: GroupDescription) -> list[str]:
    if not group.is_active:
        return []
    # Of groups of other kinds the members are not told.
    return sorted(_member(member) for member in group.members) or [f"a group that is {group.state}"]


def _member(member: GroupMember) -> str:
    name = member.instance_id or member.client_id or member.member_id
    return f"{name} at {member.host.removeprefix('/')}"
