"""Records of the coordinator to and from the bytes of ``__consumer_offsets``: the one bridge to the wire format.

Keys and values are those Kafka 4.1 writes; 4.3 writes the same and adds the topic's id to offsets, which is read and
not written. Reading never raises for what a log may hold: records of other group types, of unknown versions or with
damaged content come back as None and do not stop a load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from seamark.coordinator.records import (
    GroupRemoved,
    GroupStored,
    OffsetCommitted,
    OffsetRemoved,
    Record,
    StoredMember,
)
from seamark.wire.offsets_topic import (
    Entry,
    GroupEntry,
    MemberMetadata,
    OffsetCommitEntry,
    decode_entry,
    group_metadata_key,
    group_metadata_value,
    offset_commit_key,
    offset_commit_value,
)


def to_bytes(record: Record) -> tuple[bytes, bytes | None]:
    """Key and value of a record; a tombstone has no value."""
    if type(record) is OffsetCommitted:
        return (
            offset_commit_key(record.group_id, record.topic, record.partition),
            offset_commit_value(
                record.offset,
                record.metadata,
                record.commit_ms,
                leader_epoch=record.leader_epoch,
                expire_timestamp=record.expire_ms,
            ),
        )
    if type(record) is GroupStored:
        return group_metadata_key(record.group_id), _group_value(record)
    if type(record) is OffsetRemoved:
        return offset_commit_key(record.group_id, record.topic, record.partition), None
    return group_metadata_key(record.group_id), None


def from_bytes(key: bytes | None, value: bytes | None) -> Record | None:
    """The record behind key and value; None if it is not one the coordinator keeps."""
    return _record_of(decode_entry(key, value), _as_it_is)


def _as_it_is(text: str, _: str) -> str:
    return text


def _record_of(entry: Entry, share: Callable[[str, str], str]) -> Record | None:
    """The entry as a record; ``share`` gives for a text, said twice, the copy of it that is to be kept."""
    if type(entry) is OffsetCommitEntry:
        found = entry.value
        if found is None:
            return OffsetRemoved(entry.group, entry.topic, entry.partition)
        return OffsetCommitted(
            share(entry.group, entry.group),
            share(entry.topic, entry.topic),
            entry.partition,
            found.offset,
            found.leader_epoch,
            share(found.metadata, found.metadata),
            found.commit_timestamp,
            found.expire_timestamp,
        )
    if type(entry) is GroupEntry:
        stored = entry.value
        if stored is None:
            return GroupRemoved(entry.group)
        return GroupStored(
            share(entry.group, entry.group),
            stored.protocol_type,
            stored.generation,
            stored.protocol,
            stored.leader,
            stored.current_state_timestamp,
            tuple(_stored_member(member) for member in stored.members),
        )
    return None


class KeyAndValue(Protocol):
    """A record as it lies in the log; ``seamark.wire.records.Record`` is one."""

    key: bytes | None
    value: bytes | None


class LastValues:
    """The first half of a load: of each raw key only the last value is kept, and only that is decoded.

    Add the records of the whole log, oldest first, then replay what ``take`` yields.
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[bytes | None, bytes | None] = {}

    def add(self, records: Iterable[KeyAndValue]) -> None:
        last = self._last
        for record in records:
            last[record.key] = record.value

    def add_pairs(self, entries: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """As ``add``, for keys and values that come as pairs."""
        self._last.update(entries)

    def take(self) -> Iterator[Record]:
        """The records that count, giving their bytes free on the way.

        Keys that a tombstone ended are left out. Names and texts are shared between the records that have them.
        """
        last = self._last
        shared: dict[str, str] = {}
        share = shared.setdefault
        while last:
            key, value = last.popitem()
            if value is None:
                continue
            record = _record_of(decode_entry(key, value), share)
            if record is not None:
                yield record


def last_records(entries: Iterable[tuple[bytes | None, bytes | None]]) -> Iterator[Record]:
    """The records that a whole log, given as keys and values, replays to."""
    values = LastValues()
    values.add_pairs(entries)
    return values.take()


def _group_value(record: GroupStored) -> bytes:
    return group_metadata_value(
        protocol_type=record.protocol_type,
        generation=record.generation,
        protocol=record.protocol,
        leader=record.leader,
        current_state_timestamp=record.state_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.subscription,
                assignment=member.assignment,
            )
            for member in record.members
        ],
    )


def _stored_member(member: MemberMetadata) -> StoredMember:
    return StoredMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout,
        member.session_timeout,
        bytes(member.subscription),
        bytes(member.assignment),
    )
