"""The batch of the offsets topic that a coordinator writes: its records, all with one timestamp and no headers.

The same bytes as ``wire.records.encode_batch`` makes of the keys and values. Committed offsets are written straight
away, without a key and a value in between, because this runs for every commit: what the records of one commit share is
made once. Whatever is not plain goes the general way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from struct import Struct
from typing import Any, ClassVar

from seamark.wire.offsets.records import KEY_VERSION, NO_EXPIRY, VALUE_VERSION
from seamark.wire.protocol.template import gaps_between
from seamark.wire.records.compression import Codec, compress
from seamark.wire.records.record_batch import HEADER_BYTES
from seamark.wire.records.record_writer import frame_batch
from seamark.wire.records.varints import encode_varint, small_varints

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

# Distances below this one take a single byte, twice their value.
SHORT_DELTAS = 64
# Of one record of a template: three runs of bytes, and behind each of them a number.
_FIELDS = 6


class OffsetsBatch:
    """Records are added, then ``encode`` gives the batch, with offsets from 0 or from ``base_offset`` on.

    ``limit`` is what a batch may have; the first records that are added may exceed it, which ``size`` then shows.
    A subclass names its records: those of ``commit_type`` have the fields group_id, topic, partition, offset,
    leader_epoch, metadata, commit_ms and expire_ms; ``to_bytes`` gives the key and the value of any record.
    """

    __slots__ = ("_parts", "count", "limit", "size")

    commit_type: ClassVar[type[Any]]

    def to_bytes(self, record: Any) -> tuple[bytes, bytes | None]:
        raise NotImplementedError

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._parts: list[bytes] = []
        self.count = 0
        # Of the batch with what was added so far.
        self.size = HEADER_BYTES

    def add_records(self, records: Sequence[Any]) -> bool:
        """Add records, all or none; False if there is no room for them beside those that are there.

        Raises EncodeError, and adds nothing, if one of them cannot be written.
        """
        plain: Any = self.commit_type
        parts: list[bytes] = []
        delta = self.count
        group_id = topic = metadata = None
        commit_ms = -1
        key_start = value_end = b""
        value_size = 0
        body_fixed = 0
        for record in records:
            if (
                type(record) is not plain
                or record.expire_ms != NO_EXPIRY
                or delta >= _SMALL_COUNT
                or len(record.metadata) > _LONGEST_PLAIN
                or len(record.group_id) + len(record.topic) > _LONGEST_NAME
            ):
                parts.append(self.encode_record(record, delta))
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
                    parts.append(self.encode_record(record, delta))
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

    def add_again(self, template: RecordsTemplate, offsets: Sequence[int], commit_ms: int) -> bool:
        """As ``add_records``, for the records of a repeated commit; the last of them must be below ``SHORT_DELTAS``."""
        size = self.size + template.size
        if size > self.limit and self.count:
            return False
        self._parts.append(template.encode(self.count, offsets, commit_ms))
        self.count += template.count
        self.size = size
        return True

    def encode_record(self, record: Any, delta: int) -> bytes:
        """Any record, at that distance from the batch's first offset: the general way."""
        key, value = self.to_bytes(record)
        end = _NULL if value is None else _varint(len(value)) + value
        body = b"".join((b"\x00\x00", _varint(delta), _varint(len(key)), key, end, b"\x00"))
        return _varint(len(body)) + body

    def encode(
        self, timestamp_ms: int, codec: Codec = Codec.NONE, base_offset: int = 0, leader_epoch: int = -1
    ) -> bytes:
        content = b"".join(self._parts)
        if codec is not Codec.NONE:
            content = compress(codec, content)
        last = self.count - 1
        return frame_batch(
            content, int(codec), last, timestamp_ms, timestamp_ms, -1, -1, -1, last + 1, base_offset, leader_epoch
        )


class RecordsTemplate:
    """The records of a repeated commit, as bytes with gaps.

    Between two commits of the same partitions the records differ in three numbers each: the distance from the batch's
    first offset, the committed offset, and the time of the commit. The bytes around them are made once, by the same
    writer that writes all other records, and so are the places of the gaps: written with all bits clear and with all
    bits set, the records differ exactly there. ``size`` is that of all records together.
    """

    __slots__ = ("_fields", "_pack", "count", "size")

    def __init__(
        self,
        count: int,
        records_of: Callable[[Sequence[int], int], Sequence[Any]],
        encode_record: Callable[[Any, int], bytes],
    ) -> None:
        """``records_of`` gives the records of a commit with those offsets at that time, ``count`` of them."""
        self.count = count
        clear, stamped = records_of([0] * count, 0), records_of([0] * count, -1)
        offset = records_of([-1] * count, 0)
        layout = ">"
        fields: list[bytes | int] = []
        fixed = b""
        for number in range(self.count):
            content = encode_record(clear[number], 0)
            [delta_at] = gaps_between(content, encode_record(clear[number], SHORT_DELTAS - 1), 1)
            [offset_at] = gaps_between(content, encode_record(offset[number], 0), 8)
            [time_at] = gaps_between(content, encode_record(stamped[number], 0), 8)
            pieces = (
                fixed + content[:delta_at],
                content[delta_at + 1 : offset_at],
                content[offset_at + 8 : time_at],
            )
            layout += "{}sB{}sq{}sq".format(*map(len, pieces))
            fields += (pieces[0], 0, pieces[1], 0, pieces[2], 0)
            fixed = content[time_at + 8 :]
        layout += f"{len(fixed)}s"
        fields.append(fixed)
        packer = Struct(layout)
        self.size = packer.size
        self._pack = packer.pack
        # The numbers in it are those of the commit that was written last.
        self._fields = fields

    def encode(self, delta: int, offsets: Sequence[int], commit_ms: int) -> bytes:
        """The records; ``delta`` is the distance of the first, and that of the last is below ``SHORT_DELTAS``."""
        fields = self._fields
        fields[1::_FIELDS] = range(2 * delta, 2 * (delta + self.count), 2)
        fields[3::_FIELDS] = offsets
        fields[5::_FIELDS] = repeat(commit_ms, self.count)
        return self._pack(*fields)


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


def _varint(value: int) -> bytes:
    return _SMALL[value] if value < _SMALL_COUNT else encode_varint(value)
