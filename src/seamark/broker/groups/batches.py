"""The batch a coordinator writes: its records, all with one timestamp and no headers.

The same bytes as ``wire.records.encode_batch`` makes of what ``coordinator.storing.stored`` gives for these records.
 Committed offsets are written straight away, without a key and a value in between, because this runs for
every commit: what the records of one commit share is made once. Whatever is not plain goes the general way.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from seamark.broker.groups.stored_forms import SHORT_DELTAS, StoredForm
from seamark.coordinator.offsets.commit_patterns import RepeatedRecords
from seamark.coordinator.storing.records import NO_EXPIRY, OffsetCommitted, Record
from seamark.coordinator.storing.stored import to_bytes
from seamark.wire.offsets.offset_commit_records import KEY_VERSION, VALUE_VERSION
from seamark.wire.records.compression import Codec, compress
from seamark.wire.records.crc32c import crc32c
from seamark.wire.records.record_batch import HEADER_BYTES, LENGTH_OVERHEAD, MAGIC
from seamark.wire.records.varints import encode_varint, small_varints

_BEFORE_CRC = Struct(">qiib")
_CRC = Struct(">I")
_FROM_ATTRIBUTES = Struct(">hiqqqhii")
_SMALL = small_varints()
_SMALL_COUNT = len(_SMALL)
_NULL = encode_varint(-1)
# Attributes and the timestamp's distance from the batch's, both zero, and then the offset's distance.
_STARTS = tuple(b"\x00\x00" + delta for delta in _SMALL)

# The end of a key and the start of a value: partition, size of the value as a one-byte varint, version, offset, epoch.
_pack_middle = Struct(">iBhqi").pack
_pack_time = Struct(">qxx").pack
_pack_short = Struct(">h").pack
_VALUE_FIXED = 24
# Metadata up to here has a length of one byte, in the record as in the value.
_LONGEST_PLAIN = 63 - _VALUE_FIXED
_LONGEST_NAME = 500


class GroupBatch:
    """Records are added, then ``encode`` gives the batch, with offsets from 0 or from ``base_offset`` on.

    ``limit`` is what a batch may have; the first records that are added may exceed it, which ``size`` then shows.
    """

    __slots__ = ("_parts", "count", "limit", "size")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._parts: list[bytes] = []
        self.count = 0
        # Of the batch with what was added so far.
        self.size = HEADER_BYTES

    def add(self, records: Sequence[Record]) -> bool:
        """Add records, all or none; False if there is no room for them beside those that are there.

        Raises EncodeError, and adds nothing, if one of them cannot be written.
        """
        if type(records) is RepeatedRecords and self.count + len(records) <= SHORT_DELTAS:
            return self._add_again(records)
        parts: list[bytes] = []
        delta = self.count
        group_id = topic = metadata = None
        commit_ms = -1
        key_start = value_end = b""
        value_size = 0
        body_fixed = 0
        for record in records:
            if (
                type(record) is not OffsetCommitted
                or record.expire_ms != NO_EXPIRY
                or delta >= _SMALL_COUNT
                or len(record.metadata) > _LONGEST_PLAIN
                or len(record.group_id) + len(record.topic) > _LONGEST_NAME
            ):
                parts.append(_encode_record(record, delta))
                delta += 1
                continue
            if (
                record.topic != topic
                or record.group_id != group_id
                or record.metadata != metadata
                or record.commit_ms != commit_ms
            ):
                group_id, topic, metadata, commit_ms = record.group_id, record.topic, record.metadata, record.commit_ms
                text = metadata.encode()
                value_size = _VALUE_FIXED + len(text)
                if len(text) > _LONGEST_PLAIN:
                    parts.append(_encode_record(record, delta))
                    delta += 1
                    metadata = None
                    continue
                key_start = _key_start(group_id, topic)
                value_end = b"%c%b%b" % (len(text) + 1, text, _pack_time(commit_ms))
                body_fixed = len(key_start) + len(value_end) + 19
            start = _STARTS[delta]
            parts += (
                _SMALL[len(start) + body_fixed],
                start,
                key_start,
                _pack_middle(record.partition, value_size * 2, VALUE_VERSION, record.offset, record.leader_epoch),
                value_end,
            )
            delta += 1
        size = self.size + sum(map(len, parts))
        if size > self.limit and self.count:
            return False
        self._parts += parts
        self.count = delta
        self.size = size
        return True

    def _add_again(self, records: RepeatedRecords) -> bool:
        pattern = records.pattern
        form: StoredForm | None = pattern.stored_form
        if form is None:
            form = pattern.stored_form = StoredForm(pattern, _encode_record)
        size = self.size + form.size
        if size > self.limit and self.count:
            return False
        self._parts.append(form.encode(self.count, records.offsets, records.commit_ms))
        self.count += len(records)
        self.size = size
        return True

    def encode(
        self, timestamp_ms: int, codec: Codec = Codec.NONE, base_offset: int = 0, leader_epoch: int = -1
    ) -> bytes:
        content = b"".join(self._parts)
        if codec is not Codec.NONE:
            content = compress(codec, content)
        last = self.count - 1
        covered = _FROM_ATTRIBUTES.pack(int(codec), last, timestamp_ms, timestamp_ms, -1, -1, -1, last + 1) + content
        start = _BEFORE_CRC.pack(base_offset, HEADER_BYTES - LENGTH_OVERHEAD + len(content), leader_epoch, MAGIC)
        return start + _CRC.pack(crc32c(covered)) + covered


def _key_start(group_id: str, topic: str) -> bytes:
    """The key's size and the key up to its partition."""
    group_bytes = group_id.encode()
    topic_bytes = topic.encode()
    size = len(group_bytes) + len(topic_bytes) + 10
    return b"".join(
        (
            _varint(size),
            _pack_short(KEY_VERSION),
            _pack_short(len(group_bytes)),
            group_bytes,
            _pack_short(len(topic_bytes)),
            topic_bytes,
        )
    )


def _encode_record(record: Record, delta: int) -> bytes:
    """The general way."""
    key, value = to_bytes(record)
    end = _NULL if value is None else _varint(len(value)) + value
    body = b"".join((b"\x00\x00", _varint(delta), _varint(len(key)), key, end, b"\x00"))
    return _varint(len(body)) + body


def _varint(value: int) -> bytes:
    return _SMALL[value] if value < _SMALL_COUNT else encode_varint(value)
