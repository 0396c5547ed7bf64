"""Batches that kafka-python, aiokafka and kio write are read here, and ours there, under every codec they have."""

import datetime
import io
import warnings

import pytest
from aiokafka.record.control_record import ABORT_MARKER, COMMIT_MARKER, ControlRecord
from aiokafka.record.default_records import DefaultRecordBatchBuilder as CompiledBuilder
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy as AiokafkaBuilder
from aiokafka.record.memory_records import MemoryRecords as AiokafkaReader
from kio.records.readers import read_batch as read_kio_batch
from kio.records.schema import NewRecordBatch
from kio.records.schema import Record as KioRecord
from kio.records.schema import RecordHeader as KioHeader
from kio.records.writers import write_batch as write_kio_batch

from seamark.wire.records import (
    Codec,
    Record,
    decode_batch,
    encode_batch,
    encode_control_marker,
    read_header,
    read_records,
)

with warnings.catch_warnings():
    # kafka-python loads its schemas through a deprecated function of the standard library.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder
    from kafka.record.memory_records import MemoryRecords as KafkaPythonReader

TIME_MS = 1_700_000_000_000
RECORDS = [
    Record(0, TIME_MS, 0, b"key", b"value", []),
    Record(1, TIME_MS + 1_000, 0, None, b"x" * 100, [("trace", b"\x00\xff"), ("", b""), ("trace", None)]),
    Record(2, TIME_MS + 70_000_000, 0, b"", None, []),
    Record(3, TIME_MS - 5_000, 0, b"k" * 5_000, b"v" * 70_000, [("schlüssel", b"n" * 300)]),
    *(Record(i, TIME_MS + i, 0, b"%d" % i, b"value of a record " * 5, []) for i in range(4, 400)),
]
IDEMPOTENT = {"producer_id": 4_000, "producer_epoch": 3, "base_sequence": 12}
KAFKA_PYTHON_CODECS = [Codec.NONE, Codec.GZIP]


def built(builder_type, codec, *, is_transactional=False, producer_id=-1, producer_epoch=-1, base_sequence=-1):
    builder = builder_type(
        magic=2,
        compression_type=int(codec),
        is_transactional=is_transactional,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        batch_size=1 << 20,
    )
    for record in RECORDS:
        arguments = (record.offset, record.timestamp_ms, record.key, record.value, record.headers)
        assert builder.append(*arguments) is not None
    return bytes(builder.build())


def seen_by(reader_type, buffer):
    reader = reader_type(buffer)
    seen = []
    while reader.has_next():
        batch = reader.next_batch()
        assert batch.validate_crc()
        seen += [Record(r.offset, r.timestamp, int(r.timestamp_type), r.key, r.value, list(r.headers)) for r in batch]
    return seen


WRITERS = [(AiokafkaBuilder, codec) for codec in Codec] + [(CompiledBuilder, codec) for codec in Codec]
WRITERS += [(KafkaPythonBuilder, codec) for codec in KAFKA_PYTHON_CODECS]


@pytest.mark.parametrize(("builder", "codec"), WRITERS)
def test_batches_of_other_clients_are_read(builder, codec):
    batch = built(builder, codec, is_transactional=True, **IDEMPOTENT)
    assert decode_batch(batch) == RECORDS
    header = read_header(batch)
    assert header.codec is codec
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4_000, 3, 12)


@pytest.mark.parametrize(("builder", "codec"), [(writer, codec) for writer, codec in WRITERS if codec is Codec.NONE])
def test_uncompressed_batches_are_the_same_bytes_as_theirs(builder, codec):
    theirs = built(builder, codec, **IDEMPOTENT)
    ours = encode_batch(RECORDS, **IDEMPOTENT, partition_leader_epoch=read_header(theirs).partition_leader_epoch)
    assert ours == theirs


@pytest.mark.parametrize(
    ("reader", "codec"),
    [(AiokafkaReader, codec) for codec in Codec] + [(KafkaPythonReader, codec) for codec in KAFKA_PYTHON_CODECS],
)
def test_our_batches_are_read_by_other_clients(reader, codec):
    batch = encode_batch(RECORDS, codec=codec, **IDEMPOTENT)
    assert seen_by(reader, batch + encode_batch([Record(400, TIME_MS)])) == [*RECORDS, Record(400, TIME_MS)]


@pytest.mark.parametrize("reader", [AiokafkaReader, KafkaPythonReader])
def test_log_append_time_gaps_and_both_ends_mean_the_same_to_other_clients(reader):
    gapped = [Record(110, TIME_MS, 0, b"a"), Record(119, TIME_MS + 5, 0, b"b")]
    batch = encode_batch(gapped, base_offset=100, last_offset=130, timestamp_type=1, max_timestamp_ms=TIME_MS + 99)
    assert seen_by(reader, batch) == decode_batch(batch)
    assert reader(batch).next_batch().next_offset == read_header(batch).next_offset == 131


@pytest.mark.parametrize(("kind", "marker"), [("commit", COMMIT_MARKER), ("abort", ABORT_MARKER)])
def test_our_transaction_markers_are_those_of_aiokafka(kind, marker):
    batch = encode_control_marker(kind, offset=5, timestamp_ms=TIME_MS, producer_id=1, producer_epoch=0)
    other = AiokafkaReader(batch).next_batch()
    assert other.is_control_batch
    assert other.is_transactional
    assert [ControlRecord.parse(record.key) for record in other] == [marker]


def kio_time(timestamp_ms):
    return datetime.datetime.fromtimestamp(timestamp_ms // 1_000, datetime.UTC)


# kio reads and writes uncompressed batches, and timestamps in whole seconds.
WHOLE_SECONDS = [record for record in RECORDS if record.timestamp_ms % 1_000 == 0]


def test_a_batch_of_kio_is_read():
    buffer = io.BytesIO()
    records = tuple(
        KioRecord(
            attributes=0,
            timestamp=kio_time(record.timestamp_ms),
            offset=record.offset,
            key=record.key,
            value=record.value,
            headers=tuple(KioHeader(key=key.encode(), value=value) for key, value in record.headers),
        )
        for record in WHOLE_SECONDS
    )
    write_kio_batch(buffer, NewRecordBatch(**IDEMPOTENT, records=records, attributes=0))
    assert read_records(buffer.getvalue()) == WHOLE_SECONDS
    assert buffer.getvalue() == encode_batch(WHOLE_SECONDS, partition_leader_epoch=0, **IDEMPOTENT)


def test_our_batch_is_read_by_kio():
    batch, size = read_kio_batch(b"..." + encode_batch(WHOLE_SECONDS, **IDEMPOTENT), 3)
    assert size == len(encode_batch(WHOLE_SECONDS))
    assert [
        Record(
            r.offset,
            int(r.timestamp.timestamp() * 1_000),
            0,
            r.key,
            r.value,
            [(h.key.decode(), h.value) for h in r.headers],
        )
        for r in batch.records
    ] == WHOLE_SECONDS
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (4_000, 3, 12)
