"""What a produced batch must be like before it may be appended, in the order in which Kafka looks at it.

First its header and checksum (``check_head``), then all of its records (``check_records``), without making one of
them. Kafka takes some batches that consumers cannot read: records whose offsets or lengths lie. Those are refused here,
as is what unfolds to more than the bounds of ``wire.records.record_walk`` and ``LogSettings.max_decompressed_bytes``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from struct import Struct
from typing import NamedTuple, Protocol

from seamark.broker.log.partition import Partition
from seamark.broker.refusals import NoBatch, RecordsRefused, RefusedByLog, RequestRefused, TooMuchToRead
from seamark.broker.sharing.reading_thread import OneAtATime, Reading, ReadingThread
from seamark.broker.sharing.turns import Steps, Wait
from seamark.counts import counted
from seamark.errors import BadLength, DecodeError, OverLimit, TrailingBytes
from seamark.storage.aside import Aside
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.records.compression import LARGE_BYTES, Codec, Unfolded, unfold, unfolded_bound
from seamark.wire.records.crc32c import crc32c
from seamark.wire.records.record_batch import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CONTROL,
    CRC_POSITION,
    DELETE_HORIZON,
    HEADER,
    HEADER_BYTES,
    INT64_MAX,
    INT64_MIN,
    LENGTH_OVERHEAD,
    LENGTH_POSITION,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_POSITION,
    MAX_TIMESTAMP_POSITION,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    Buffer,
)
from seamark.wire.records.record_walk import RECORD_LENGTH, RecordWalk

# From this version of Produce on a client may use zstd.
ZSTD_VERSION = 7

_ATTRIBUTES = Struct(">h")
_CRC = Struct(">I")
_LENGTH = Struct(">i")
_TIMESTAMP = Struct(">q")
# What the smallest record of the oldest format has behind its length.
LEAST_LENGTH = 14
_PRODUCER_ID_END = 51
# The bits of the attributes that have a meaning.
_KNOWN_ATTRIBUTES = CODEC_MASK | LOG_APPEND_TIME | TRANSACTIONAL | CONTROL | DELETE_HORIZON
# Records and headers that are looked at before others get their turn.
_SLICE = 1_000
# Bad records that are named one by one, so that the answer is not larger than the request.
_NAMED = 1000


# Bytes, and where in them the records begin and end.
Records = tuple[Unfolded, int, int]


class Reader(Protocol):
    """Where large batches are unfolded."""

    @property
    def reading_thread(self) -> ReadingThread: ...

    @property
    def unfolding(self) -> OneAtATime: ...


class ProducedBatch(NamedTuple):
    """What the append needs to know of a batch whose header is sound."""

    content: Buffer
    attributes: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    first_sequence: int
    record_count: int


def check_head(content: Buffer | None, partition: Partition, version: int) -> ProducedBatch:
    """Return what the batch's header says, or refuse it."""
    content = _only_batch(content)
    if content[MAGIC_POSITION] < MAGIC:
        raise _invalid(f"the batch has magic {content[MAGIC_POSITION]}, only 2 is supported")
    size = len(content)
    (attributes,) = _ATTRIBUTES.unpack_from(content, ATTRIBUTES_POSITION)
    if attributes & CODEC_MASK == Codec.ZSTD and version < ZSTD_VERSION:
        raise RequestRefused(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd requires Produce version {ZSTD_VERSION} or later, this request has version {version}",
        )
    if size < HEADER_BYTES:
        # Kafka asks for the producer before it looks at the size.
        code = ErrorCode.UNKNOWN_SERVER_ERROR if size < _PRODUCER_ID_END else ErrorCode.CORRUPT_MESSAGE
        raise RequestRefused(code, f"batch size {size} is below the minimum of {HEADER_BYTES} bytes")
    (
        base_offset, _, _, _, crc, attributes, last_delta, base_timestamp_ms, max_timestamp_ms,
        producer_id, producer_epoch, sequence, count,
    ) = HEADER.unpack_from(content)  # fmt: skip
    if attributes & TRANSACTIONAL:
        raise RequestRefused(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "this broker does not support transactions"
        )
    if base_offset != 0:
        raise _unfit(f"a batch from a producer must have base offset 0, got {base_offset}")
    most = partition.topic.config.max_message_bytes
    if size > most:
        raise RequestRefused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{partition.name} accepts batches of at most {most} bytes, this one has {size}",
        )
    if crc32c(memoryview(content)[ATTRIBUTES_POSITION:]) != crc:
        raise RequestRefused(ErrorCode.CORRUPT_MESSAGE, f"the checksum {crc:#010x} does not match the bytes")
    if attributes & CODEC_MASK > max(Codec):
        raise _unexpected(f"unknown compression codec {attributes & CODEC_MASK}")
    if count <= 0 or last_delta != count - 1:
        raise _unfit(f"the batch has {counted(count, 'record')}, but offsets for {last_delta + 1}")
    if attributes & CONTROL:
        raise _unfit("producers must not write control records")
    if producer_id >= 0 and sequence < 0:
        raise _unfit(f"the batch of producer {producer_id} has the invalid sequence {sequence}")
    return ProducedBatch(
        content, attributes, base_timestamp_ms, max_timestamp_ms, producer_id, producer_epoch, sequence, count
    )


class NobodyWaits(Exception):
    """The client went away before its batch was checked."""


def check_records(
    batch: ProducedBatch, partition: Partition, now_ms: int, reader: Reader, is_wanted: Callable[[], bool]
) -> Generator[Wait | None, None, ProducedBatch]:
    """Look at all records, in slices; return the batch as it is to be appended, or refuse it.

    NobodyWaits as soon as it is not wanted any more: to check a large batch takes seconds.
    """
    codec = Codec(batch.attributes & CODEC_MASK)
    most = partition.topic.config.log_settings.max_decompressed_bytes
    try:
        bound = unfolded_bound(codec, memoryview(batch.content)[HEADER_BYTES:], most)
    except DecodeError as error:
        raise _not_unfolded(error, batch, codec, partition) from None
    small = _if_small(batch, codec, bound)
    if small is not None:
        return (yield from _check_unfolded(batch, codec, small, partition, now_ms, is_wanted))
    # Beside the event loop, and only one such batch is held at a time.
    yield reader.unfolding
    try:
        if not is_wanted():
            raise NobodyWaits
        aside = Aside(partial(_unfold, batch, codec, most))
        yield Reading(reader.reading_thread, aside)
        try:
            unfolded = aside.result()
        except DecodeError as error:
            raise _not_unfolded(error, batch, codec, partition) from None
        del aside
        return (yield from _check_unfolded(batch, codec, unfolded, partition, now_ms, is_wanted))
    finally:
        reader.unfolding.release()


def _if_small(batch: ProducedBatch, codec: Codec, bound: int) -> Records | None:
    """Unfold the batch if that is no work to speak of, and sound; else it is done in another way, which says why."""
    if codec is Codec.NONE:
        content = batch.content
        return content if isinstance(content, bytes) else bytes(content), HEADER_BYTES, len(content)
    # Most batches are small, although some codecs cannot tell before they are unfolded.
    if bound > LARGE_BYTES and len(batch.content) > LARGE_BYTES // 4:
        return None
    try:
        return _unfold(batch, codec, LARGE_BYTES)
    except DecodeError:
        return None


def _check_unfolded(
    batch: ProducedBatch,
    codec: Codec,
    unfolded: Records,
    partition: Partition,
    now_ms: int,
    is_wanted: Callable[[], bool],
) -> Generator[Wait | None, None, ProducedBatch]:
    config = partition.topic.config
    is_compressed = codec is not Codec.NONE
    try:
        walk = _walk(batch, unfolded)
        while not walk.advance(_SLICE):
            yield None
            if not is_wanted():
                raise NobodyWaits
    except OverLimit as error:
        raise TooMuchToRead(f"{partition.name}: {error.reason}") from None
    except BadLength as error:
        is_length = error.field == RECORD_LENGTH and not is_compressed
        raise (_unexpected if is_length else _unfit)(f"the records cannot be read: {error}") from None
    except DecodeError as error:
        raise _unfit(f"the records cannot be read: {error}") from None
    claims_append_time = bool(batch.attributes & LOG_APPEND_TIME)
    if (config.is_compacted and walk.has_null_key) or _is_out_of_range(walk, batch, partition, now_ms):
        yield from _refuse_records(unfolded, batch, partition, now_ms)
    if walk.has_false_offset:
        reason = "the offset deltas of the records must be 0, 1, 2 and so on"
        raise _unexpected(reason) if is_compressed else _unfit(reason)
    if walk.oddity:
        raise _unfit(f"consumers would not be able to read the records: {walk.oddity}")
    if len(batch.content) > config.segment_bytes:
        reason = (
            f"the batch has {len(batch.content)} bytes, but segments of {partition.name} hold at most "
            f"{config.segment_bytes}"
        )
        raise RequestRefused(ErrorCode.RECORD_LIST_TOO_LARGE, reason)
    largest_ms = max(walk.max_timestamp_ms, NO_TIMESTAMP)
    if not config.log_append_time and (claims_append_time or largest_ms != batch.max_timestamp_ms):
        content = _with_true_time(batch, largest_ms)
        return batch._replace(content=content, max_timestamp_ms=largest_ms)
    return batch


def _not_unfolded(error: DecodeError, batch: ProducedBatch, codec: Codec, partition: Partition) -> RequestRefused:
    if isinstance(error, OverLimit):
        return TooMuchToRead(f"{partition.name}: {error.reason}")
    # Kafka reads a zstd stream of no bytes as one of no records, and a second stream as records too many.
    is_counted = isinstance(error, TrailingBytes) or (codec is Codec.ZSTD and len(batch.content) == HEADER_BYTES)
    return (_unfit if is_counted else _unexpected)(f"the records cannot be decompressed: {error}")


def _only_batch(content: Buffer | None) -> Buffer:
    """Return the one batch of a partition; as in Kafka, the start of another one behind it is dropped."""
    size = _batch_size(content, 0)
    if content is None or size is None:
        raise _invalid("the batch is missing or incomplete")
    if size == len(content):
        return content
    if _batch_size(content, size) is not None:
        raise _invalid("there is more than one batch")
    return content[:size]


def _batch_size(content: Buffer | None, start: int) -> int | None:
    """Return how long the batch is that begins there, or None if it is not all there; refuse what cannot begin one."""
    left = 0 if content is None else len(content) - start
    if content is None or left < LENGTH_OVERHEAD:
        return None
    (announced,) = _LENGTH.unpack_from(content, start + LENGTH_POSITION)
    if announced < LEAST_LENGTH:
        raise NoBatch(ErrorCode.CORRUPT_MESSAGE, f"batch length {announced} is below the minimum of {LEAST_LENGTH}")
    if left <= MAGIC_POSITION:
        return None
    if content[start + MAGIC_POSITION] > MAGIC:
        raise NoBatch(ErrorCode.CORRUPT_MESSAGE, f"unknown batch format (magic {content[start + MAGIC_POSITION]})")
    size: int = announced + LENGTH_OVERHEAD
    return size if size <= left else None


def _invalid(reason: str) -> RequestRefused:
    return RequestRefused(ErrorCode.INVALID_RECORD, reason)


def _unfit(reason: str) -> RefusedByLog:
    return RefusedByLog(ErrorCode.INVALID_RECORD, reason)


def _unexpected(reason: str) -> RefusedByLog:
    """Kafka does not expect this either: its answer is the code for what nobody thought of."""
    return RefusedByLog(ErrorCode.UNKNOWN_SERVER_ERROR, reason)


def _unfold(batch: ProducedBatch, codec: Codec, max_bytes: int) -> Records:
    content, size = unfold(codec, memoryview(batch.content)[HEADER_BYTES:], max_bytes, HEADER_BYTES)
    return content, 0, size


def _walk(batch: ProducedBatch, records: Records) -> RecordWalk:
    content, start, end = records
    is_compressed = bool(batch.attributes & CODEC_MASK)
    return RecordWalk(content, start, batch.record_count, batch.base_timestamp_ms, end=end, is_compressed=is_compressed)


def _is_out_of_range(walk: RecordWalk, batch: ProducedBatch, partition: Partition, now_ms: int) -> bool:
    """May there be a record with a timestamp that the topic does not take?"""
    config = partition.topic.config
    if batch.attributes & LOG_APPEND_TIME:
        return True
    if walk.max_timestamp_ms > INT64_MAX or walk.least_timestamp_ms < INT64_MIN:
        return True
    return not config.log_append_time and (
        walk.max_timestamp_ms - now_ms > config.newest_ms_ahead
        or now_ms - walk.least_timestamp_ms > config.oldest_ms_behind
    )


def _refuse_records(records: Records, batch: ProducedBatch, partition: Partition, now_ms: int) -> Steps:
    """Refuse the batch if a record of it is bad by itself, and name those records."""
    bad: list[tuple[int, str]] = []
    count = 0
    code = ErrorCode.INVALID_RECORD
    walk = _walk(batch, records)
    for number, (is_keyless, stamp) in enumerate(walk.one_by_one()):
        reason = None
        if is_keyless and partition.topic.config.is_compacted:
            reason = f"{partition.name} is compacted and requires a key in every record"
        else:
            reason = _bad_stamp(number, stamp, batch, partition, now_ms)
            if reason is not None:
                code = ErrorCode.INVALID_TIMESTAMP
        if reason is not None:
            count += 1
            if count <= _NAMED:
                bad.append((number, reason))
        if number % _SLICE == _SLICE - 1:
            yield None
    if bad:
        what = "with a timestamp too far from now" if code is ErrorCode.INVALID_TIMESTAMP else "without a key"
        more = f"; the first {_NAMED} are listed" if count > _NAMED else ""
        raise RecordsRefused(code, f"{counted(count, 'record')} {what}{more}", bad)


def _bad_stamp(number: int, stamp: int, batch: ProducedBatch, partition: Partition, now_ms: int) -> str | None:
    config = partition.topic.config
    claims_append_time = bool(batch.attributes & LOG_APPEND_TIME)
    if claims_append_time:
        # The time of every record is then the batch's; Kafka takes it for the producer's.
        if config.log_append_time or batch.max_timestamp_ms == NO_TIMESTAMP:
            return f"record {number} claims to have the broker's append time"
        stamp = batch.max_timestamp_ms
    if not INT64_MIN <= stamp <= INT64_MAX:
        return f"the timestamp of record {number} does not fit into an int64"
    if config.log_append_time or stamp == NO_TIMESTAMP:
        return None
    first, last = now_ms - config.oldest_ms_behind, now_ms + config.newest_ms_ahead
    return None if first <= stamp <= last else f"the timestamp {stamp} of record {number} is outside {first} to {last}"


def _with_true_time(batch: ProducedBatch, max_timestamp_ms: int) -> Buffer:
    """The batch with its producers' times, and the largest of them in its header."""
    content = batch.content
    if not isinstance(content, memoryview) or content.readonly:
        content = memoryview(bytearray(content))
    _ATTRIBUTES.pack_into(content, ATTRIBUTES_POSITION, batch.attributes & _KNOWN_ATTRIBUTES & ~LOG_APPEND_TIME)
    _TIMESTAMP.pack_into(content, MAX_TIMESTAMP_POSITION, max_timestamp_ms)
    _CRC.pack_into(content, CRC_POSITION, crc32c(content[ATTRIBUTES_POSITION:]))
    return content
