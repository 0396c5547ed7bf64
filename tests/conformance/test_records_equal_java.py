"""Record batches against Apache Kafka's own classes.

It reads ours under every codec and we read its; the bytes are equal where nothing is left to the compressor.
"""

import random

import pytest

from seamark.wire.records import Codec, Record, decode_batch, encode_batch, encode_control_marker, read_header
from tests.support.java import JavaOracle

pytestmark = pytest.mark.java

TIME_MS = 1_700_000_000_000

PROGRAM = """
import java.io.*;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.record.internal.Record;

public class RecordBatchOracle {
    static final HexFormat HEX = HexFormat.of();

    static String hex(ByteBuffer buffer) {
        if (buffer == null) return "-";
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return "x" + HEX.formatHex(bytes);
    }

    static MemoryRecords parse(String hex) {
        return MemoryRecords.readableRecords(ByteBuffer.wrap(HEX.parseHex(hex)));
    }

    static String read(String hex) {
        StringBuilder out = new StringBuilder();
        for (RecordBatch batch : parse(hex).batches()) {
            batch.ensureValid();
            OptionalLong horizon = batch.deleteHorizonMs();
            out.append(String.join(",", "" + batch.baseOffset(), "" + batch.lastOffset(), "" + batch.countOrNull(),
                batch.compressionType().name, "" + batch.timestampType().id, "" + batch.maxTimestamp(),
                "" + batch.isTransactional(), "" + batch.isControlBatch(), "" + batch.producerId(),
                "" + batch.producerEpoch(), "" + batch.baseSequence(), "" + batch.partitionLeaderEpoch(),
                horizon.isPresent() ? "" + horizon.getAsLong() : "-"));
            for (Record record : batch) {
                record.ensureValid();
                out.append(" ").append(record.offset()).append(",").append(record.timestamp())
                    .append(",").append(hex(record.key())).append(",").append(hex(record.value()));
                for (Header header : record.headers()) {
                    byte[] value = header.value();
                    out.append(",").append("x" + HEX.formatHex(header.key().getBytes(StandardCharsets.UTF_8)))
                        .append(",").append(value == null ? "-" : "x" + HEX.formatHex(value));
                }
            }
        }
        return out.toString();
    }

    static ByteBuffer write(String codec, int timestampType, long appendTime, String hex) {
        RecordBatch batch = parse(hex).batches().iterator().next();
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1024), RecordBatch.MAGIC_VALUE_V2,
            Compression.of(CompressionType.forName(codec)).build(),
            timestampType == 0 ? TimestampType.CREATE_TIME : TimestampType.LOG_APPEND_TIME,
            batch.baseOffset(), appendTime, batch.producerId(), batch.producerEpoch(), batch.baseSequence(),
            batch.isTransactional(), batch.partitionLeaderEpoch());
        for (Record record : batch)
            builder.appendWithOffset(
                record.offset(), record.timestamp(), record.key(), record.value(), record.headers());
        return builder.build().buffer();
    }

    static ByteBuffer marker(String kind, String[] w) {
        EndTransactionMarker marker = new EndTransactionMarker(
            kind.equals("commit") ? ControlRecordType.COMMIT : ControlRecordType.ABORT, Integer.parseInt(w[2]));
        return MemoryRecords.withEndTransactionMarker(Long.parseLong(w[3]), Long.parseLong(w[4]),
            Integer.parseInt(w[5]), Long.parseLong(w[6]), Short.parseShort(w[7]), marker).buffer();
    }

    static ByteBuffer empty(long baseOffset, long lastOffset, long timestamp) {
        ByteBuffer buffer = ByteBuffer.allocate(61);
        DefaultRecordBatch.writeEmptyHeader(buffer, RecordBatch.MAGIC_VALUE_V2, 7L, (short) 2, 9, baseOffset,
            lastOffset, 4, TimestampType.CREATE_TIME, timestamp, true, false);
        buffer.flip();
        return buffer;
    }

    public static void main(String[] arguments) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            String answer;
            try {
                switch (words[0]) {
                    case "read": answer = read(words[1]); break;
                    case "write":
                        answer = hex(write(words[1], Integer.parseInt(words[2]), Long.parseLong(words[3]), words[4]));
                        break;
                    case "marker": answer = hex(marker(words[1], words)); break;
                    default:
                        answer = hex(empty(
                            Long.parseLong(words[1]), Long.parseLong(words[2]), Long.parseLong(words[3])));
                }
            } catch (RuntimeException error) {
                answer = "error " + error;
            }
            System.out.println(answer);
            System.out.flush();
        }
    }
}
"""


@pytest.fixture(scope="module")
def kafka():
    with JavaOracle(PROGRAM) as oracle:
        yield oracle


def shown(content):
    return "-" if content is None else "x" + content.hex()


def described(batch):
    """The words with which the program above describes a batch, from our own reader."""
    header = read_header(batch)
    fields = [
        header.base_offset, header.last_offset, header.record_count, header.codec.name.lower(), header.timestamp_type,
        header.max_timestamp_ms, str(header.is_transactional).lower(), str(header.is_control).lower(),
        header.producer_id, header.producer_epoch, header.base_sequence, header.partition_leader_epoch,
        "-" if header.delete_horizon_ms is None else header.delete_horizon_ms,
    ]  # fmt: skip
    words = [",".join(map(str, fields))]
    for record in decode_batch(batch):
        parts = [str(record.offset), str(record.timestamp_ms), shown(record.key), shown(record.value)]
        for key, value in record.headers:
            parts += [shown(key.encode()), shown(value)]
        words.append(",".join(parts))
    return " ".join(words)


def random_records(seed, count):
    draw = random.Random(seed)
    offset = draw.randrange(1 << 40)
    records = []
    for _ in range(count):
        contents = [None, b"", draw.randbytes(draw.randrange(300)), b"repeated " * draw.randrange(400)]
        headers = [
            (draw.choice(["", "trace", "größe", "k" * 100]), draw.choice(contents)) for _ in range(draw.randrange(3))
        ]
        timestamp_ms = TIME_MS + draw.randrange(-10_000, 100_000_000)
        records.append(Record(offset, timestamp_ms, 0, draw.choice(contents), draw.choice(contents), headers))
        offset += draw.choice([1, 1, 1, 5, 3_000])
    return records


IDEMPOTENT = {"producer_id": 4_000, "producer_epoch": 3, "base_sequence": 12, "partition_leader_epoch": 5}


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("count", [1, 40, 1_500])
def test_kafka_reads_our_batches(kafka, codec, count):
    for options in ({}, {**IDEMPOTENT, "is_transactional": True}, {"delete_horizon_ms": TIME_MS + 5}):
        batch = encode_batch(random_records(f"{codec} {count}", count), codec=codec, **options)
        assert kafka.ask(f"read {batch.hex()}") == described(batch)


def test_kafka_gives_every_record_the_time_of_the_append_as_we_do(kafka):
    batch = encode_batch(random_records("append", 20), timestamp_type=1, max_timestamp_ms=TIME_MS + 10**9)
    assert kafka.ask(f"read {batch.hex()}") == described(batch)


def test_kafka_reads_a_batch_that_compaction_thinned(kafka):
    batch = encode_batch([Record(12, TIME_MS, 0, b"k")], base_offset=10, last_offset=30, codec=Codec.LZ4)
    assert kafka.ask(f"read {batch.hex()}") == described(batch)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("count", [1, 40, 1_500])
def test_batches_of_kafka_are_read(kafka, codec, count):
    records = random_records(f"kafka {codec} {count}", count)
    plain = encode_batch(records, **IDEMPOTENT)
    written = bytes.fromhex(kafka.ask(f"write {codec.name.lower()} 0 -1 {plain.hex()}")[1:])
    assert read_header(written).codec is codec
    assert decode_batch(written) == records
    if codec is Codec.NONE:
        assert written == plain


def test_a_log_append_batch_of_kafka_is_read(kafka):
    plain = encode_batch(random_records("log append", 10))
    written = bytes.fromhex(kafka.ask(f"write zstd 1 {TIME_MS + 7} {plain.hex()}")[1:])
    assert {(r.timestamp_ms, r.timestamp_type) for r in decode_batch(written)} == {(TIME_MS + 7, 1)}


@pytest.mark.parametrize("kind", ["commit", "abort"])
def test_transaction_markers_are_the_same_bytes(kafka, kind):
    ours = encode_control_marker(
        kind, offset=77, timestamp_ms=TIME_MS, producer_id=4_000, producer_epoch=3, coordinator_epoch=9,
        partition_leader_epoch=6,
    )  # fmt: skip
    assert kafka.ask(f"marker {kind} 9 77 {TIME_MS} 6 4000 3") == shown(ours)
    assert kafka.ask(f"read {ours.hex()}") == described(ours)


def test_empty_batches_are_the_same_bytes(kafka):
    ours = encode_batch(
        [], base_offset=100, last_offset=119, max_timestamp_ms=TIME_MS, producer_id=7, producer_epoch=2,
        base_sequence=9, partition_leader_epoch=4, is_transactional=True,
    )  # fmt: skip
    assert kafka.ask(f"empty 100 119 {TIME_MS}") == shown(ours)
