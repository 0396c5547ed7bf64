"""What a produced batch must be like before it may be appended, in the order in which Kafka looks at it.

The header alone decides, with two exceptions for which the records are read: a compacted topic takes no record
without a key, and a batch with a time out of range names the records that are. The checksum is the log's to check.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from seamark.broker.partition import Partition
from seamark.broker.refusals import NoBatch, RecordsRefused, RefusedByLog, RequestRefused
from seamark.counts import counted
from seamark.errors import DecodeError
from seamark.wire.compression import Codec
from seamark.wire.crc32c import crc32c
from seamark.wire.error_codes import ErrorCode
from seamark.wire.record_batch import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CONTROL,
    CRC_POSITION,
    HEADER,
    HEADER_BYTES,
    INT64_MAX,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_POSITION,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    Buffer,
)
from seamark.wire.records import check_crc, decode_batch, read_header

# From this version of Produce on a client may use zstd.
ZSTD_VERSION = 7

_ATTRIBUTES = Struct(">h")
_CRC = Struct(">I")
_LENGTH = Struct(">i")
# What the smallest record of the oldest format has behind its length.
LEAST_LENGTH = 14
LENGTH_POSITION = 8


class ProducedBatch(NamedTuple):
    """What the append needs to know of a batch; ``content`` is what is to be appended."""

    content: Buffer
    producer_id: int
    producer_epoch: int
    first_sequence: int
    record_count: int
    max_timestamp_ms: int


def check_batch(content: Buffer | None, partition: Partition, version: int, now_ms: int) -> ProducedBatch:
    """Return the batch's facts, or refuse it."""
    size = 0 if content is None else len(content)
    if content is None or size < LENGTH_OVERHEAD:
        raise _invalid("there is no batch")
    (announced,) = _LENGTH.unpack_from(content, LENGTH_POSITION)
    if announced < LEAST_LENGTH:
        raise NoBatch(ErrorCode.CORRUPT_MESSAGE, f"a batch of {announced} bytes cannot be")
    if size <= MAGIC_POSITION:
        raise _invalid("there is no batch")
    if content[MAGIC_POSITION] > MAGIC:
        raise NoBatch(ErrorCode.CORRUPT_MESSAGE, f"there is no format {content[MAGIC_POSITION]} of batches")
    if content[MAGIC_POSITION] < MAGIC:
        raise _invalid(f"the batch has format {content[MAGIC_POSITION]}, only 2 is taken")
    if size < HEADER_BYTES:
        raise _invalid(f"{size} bytes are no batch")
    (
        base_offset,
        length,
        _,
        _,
        _,
        attributes,
        last_delta,
        _,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        sequence,
        count,
    ) = HEADER.unpack_from(content)
    if attributes & CODEC_MASK == Codec.ZSTD and version < ZSTD_VERSION:
        raise RequestRefused(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd is for Produce requests from version {ZSTD_VERSION} on, this one has {version}",
        )
    if length + LENGTH_OVERHEAD < size:
        raise _invalid("there is more than one batch")
    if length + LENGTH_OVERHEAD > size:
        raise _invalid(f"the batch of {length + LENGTH_OVERHEAD} bytes was cut off at {size}")
    config = partition.topic.config
    if base_offset != 0:
        raise _unfit(f"a producer's batch begins at offset 0, not at {base_offset}")
    if size > config.max_message_bytes:
        raise RequestRefused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{partition.name} takes batches of {config.max_message_bytes} bytes at most, this one has {size}",
        )
    if size > config.segment_bytes:
        raise RequestRefused(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"the segments of {partition.name} hold {config.segment_bytes} bytes at most, this batch has {size}",
        )
    if attributes & CONTROL:
        raise _unfit("control records are the broker's to write")
    if attributes & TRANSACTIONAL:
        raise RequestRefused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "there are no transactions here")
    if attributes & CODEC_MASK > max(Codec):
        # Kafka does not expect this either: its answer is the code for what nobody thought of.
        raise RefusedByLog(ErrorCode.UNKNOWN_SERVER_ERROR, f"there is no codec {attributes & CODEC_MASK}")
    if count <= 0 or last_delta != count - 1:
        raise _unfit(f"the batch has {counted(count, 'record')} and offsets for {last_delta + 1}")
    if producer_id >= 0 and (sequence < 0 or producer_epoch < 0):
        raise _unfit(f"producer {producer_id} gave its batch the sequence {sequence} in epoch {producer_epoch}")
    if attributes & LOG_APPEND_TIME and not config.log_append_time:
        content = _with_create_time(content)
    if not config.log_append_time and (
        (max_timestamp_ms != NO_TIMESTAMP and max_timestamp_ms - now_ms > config.newest_ms_ahead)
        or config.oldest_ms_behind != INT64_MAX
    ):
        _check_timestamps(content, partition, now_ms)
    if config.is_compacted:
        _check_keys(content, partition)
    return ProducedBatch(content, producer_id, producer_epoch, sequence, count, max_timestamp_ms)


def _invalid(reason: str) -> RequestRefused:
    return RequestRefused(ErrorCode.INVALID_RECORD, reason)


def _unfit(reason: str) -> RefusedByLog:
    return RefusedByLog(ErrorCode.INVALID_RECORD, reason)


def _with_create_time(content: Buffer) -> bytes:
    """Take back a producer's claim that the broker had stamped its records."""
    header = read_header(content)
    check_crc(content, 0, header)
    changed = bytearray(content)
    _ATTRIBUTES.pack_into(changed, ATTRIBUTES_POSITION, header.attributes & ~LOG_APPEND_TIME)
    _CRC.pack_into(changed, CRC_POSITION, crc32c(memoryview(changed)[ATTRIBUTES_POSITION:]))
    return bytes(changed)


def _check_timestamps(content: Buffer, partition: Partition, now_ms: int) -> None:
    config = partition.topic.config
    first, last = now_ms - config.oldest_ms_behind, now_ms + config.newest_ms_ahead
    bad = [
        (
            number,
            f"the timestamp {stamp} of record {number} is not in {first} to {last}",
        )
        for number, (stamp, _) in enumerate(_stamps_and_keys(content))
        if stamp != NO_TIMESTAMP and not first <= stamp <= last
    ]
    if bad:
        reason = f"{counted(len(bad), 'record')} with a timestamp too far from now"
        raise RecordsRefused(ErrorCode.INVALID_TIMESTAMP, reason, bad)


def _check_keys(content: Buffer, partition: Partition) -> None:
    bad = [
        (number, f"{partition.name} is compacted and takes no record without a key")
        for number, (_, key) in enumerate(_stamps_and_keys(content))
        if key is None
    ]
    if bad:
        reason = f"{counted(len(bad), 'record')} without a key, which cannot be compacted"
        raise RecordsRefused(ErrorCode.INVALID_RECORD, reason, bad)


def _stamps_and_keys(content: Buffer) -> list[tuple[int, bytes | None]]:
    try:
        return [(record.timestamp_ms, record.key) for record in decode_batch(content)]
    except DecodeError as error:
        raise RequestRefused(ErrorCode.CORRUPT_MESSAGE, f"the batch cannot be read: {error}") from None
