"""Records of the coordinator to and from the bytes of ``__consumer_offsets``: the one bridge to the wire format.

Keys and values are those Kafka 4.1 writes; 4.3 writes the same and adds the topic's id to offsets, which is read and
not written. Reading never raises for what a log may hold: records of other group types, of unknown versions or with
damaged content come back as None and do not stop a load, which counts them by their kinds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from seamark.coordinator.storing.records import (
    GroupRemoved,
    GroupStored,
    OffsetCommitted,
    OffsetRemoved,
    Record,
    StoredMember,
)
from seamark.counts import counted
from seamark.wire.offsets.offsets_topic import (
    Entry,
    GroupEntry,
    MemberMetadata,
    NewerEntry,
    OffsetCommitEntry,
    UnreadableEntry,
    decode_entry,
    group_metadata_key,
    group_metadata_value,
    offset_commit_key,
    offset_commit_value,
)

# So many kinds of records that a load skips are told apart in its line of the log.
_SKIPPED_KINDS = 5


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
        value = entry.value
        if value is None:
            return OffsetRemoved(entry.group, entry.topic, entry.partition)
        return OffsetCommitted(
            share(entry.group, entry.group),
            share(entry.topic, entry.topic),
            entry.partition,
            value.offset,
            value.leader_epoch,
            share(value.metadata, value.metadata),
            value.commit_timestamp,
            value.expire_timestamp,
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


class SkippedRecords:
    """What a load leaves out: how many records, of which kinds, and the key of one of the oldest."""

    __slots__ = ("count", "key", "kinds")

    def __init__(self) -> None:
        self.count = 0
        self.key: bytes | None = None
        self.kinds: Counter[str] = Counter()

    def add(self, entry: NewerEntry | UnreadableEntry) -> None:
        self.count += 1
        # Keys are taken newest first.
        self.key = entry.raw_key
        kind = f"{entry.name}, which this broker does not keep" if isinstance(entry, NewerEntry) else entry.reason
        # Reasons have numbers out of the record in them: there may be as many as there are records.
        self.kinds[kind if kind in self.kinds or len(self.kinds) < _SKIPPED_KINDS else "others"] += 1

    def has(self, key: bytes | None, value: bytes | None) -> bool:
        """Whether a record of the log is the one whose key was noted."""
        return key == self.key and value is not None and from_bytes(key, value) is None

    def __str__(self) -> str:
        kinds = "; ".join(f"{count} of them: {kind}" for kind, count in self.kinds.most_common())
        return f"skipped {counted(self.count, 'record')} that cannot be loaded ({kinds})"


class LastValues:
    """The first half of a load: of each raw key only the last value is kept, and only that is decoded.

    Add the records of the whole log, oldest first, then replay what ``take`` yields.
    """

    __slots__ = ("_last", "skipped")

    def __init__(self) -> None:
        self._last: dict[bytes | None, bytes | None] = {}
        self.skipped = SkippedRecords()

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
            entry = decode_entry(key, value)
            record = _record_of(entry, share)
            if record is not None:
                yield record
            elif isinstance(entry, NewerEntry | UnreadableEntry):
                self.skipped.add(entry)


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
