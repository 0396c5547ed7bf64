import java.io.BufferedReader;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.CloseableIterator;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;
import org.apache.kafka.storage.internals.log.RecordValidationException;

/**
 * Each line is "compact|delete create|append HEX"; the answer is the error code, and for what is taken the batch as Kafka
 * would store it and what Kafka's own consumer finds in it: "sound", or in one word what is wrong.
 */
public final class BatchValidator {
    private static final LogValidator.MetricsRecorder NO_METRICS = new LogValidator.MetricsRecorder() {
        @Override public void recordInvalidMagic() { }
        @Override public void recordInvalidOffset() { }
        @Override public void recordInvalidSequence() { }
        @Override public void recordInvalidChecksums() { }
        @Override public void recordNoKeyCompactedTopic() { }
    };

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = in.readLine()) != null) {
            System.out.println(answer(line.split(" ")));
            System.out.flush();
        }
    }

    private static String answer(String[] asked) {
        try {
            MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(HexFormat.of().parseHex(asked[2])));
            RecordBatch first = records.batches().iterator().next();
            CompressionType codec = first.compressionType();
            LogValidator validator = new LogValidator(records, new TopicPartition("t", 0), Time.SYSTEM, codec,
                Compression.of(codec).build(), asked[0].equals("compact"), RecordBatch.MAGIC_VALUE_V2,
                asked[1].equals("append") ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME,
                Long.MAX_VALUE, 3600000L, 0, AppendOrigin.CLIENT);
            ByteBuffer stored = validator.validateMessagesAndAssignOffsets(
                PrimitiveRef.ofLong(0), NO_METRICS, BufferSupplier.NO_CACHING).validatedRecords().buffer();
            byte[] bytes = new byte[stored.remaining()];
            stored.get(bytes);
            return "0 " + HexFormat.of().formatHex(bytes) + " " + found(MemoryRecords.readableRecords(ByteBuffer.wrap(bytes)));
        } catch (RecordValidationException error) {
            return String.valueOf(Errors.forException(error.invalidException()).code());
        } catch (Throwable error) {
            return Errors.forException(error).code() + " " + error.toString().replace('\n', ' ');
        }
    }

    private static String found(MemoryRecords records) {
        RecordBatch batch = records.batches().iterator().next();
        long expected = 0;
        try (CloseableIterator<Record> each = batch.streamingIterator(BufferSupplier.NO_CACHING)) {
            while (each.hasNext()) {
                Record record = each.next();
                record.ensureValid();
                if (record.offset() != expected++) {
                    return "offsets";
                }
                for (Header header : record.headers()) {
                    if (header.key().contains("\uFFFD")) {
                        return "header-text";
                    }
                }
            }
            return hasLengthBelowNull((DefaultRecordBatch) batch) ? "below-null" : "sound";
        } catch (RuntimeException | IOException error) {
            return "unreadable";
        }
    }

    /** Whether a key, a value or a header's value has a length below -1, which Kafka takes for null. */
    private static boolean hasLengthBelowNull(DefaultRecordBatch batch) throws IOException {
        boolean isBelow = false;
        try (InputStream in = batch.recordInputStream(BufferSupplier.NO_CACHING)) {
            for (int record = 0; record < batch.countOrNull(); record++) {
                varint(in);
                in.read();
                varint(in);
                varint(in);
                isBelow |= skipped(in) < -1;
                isBelow |= skipped(in) < -1;
                for (long headers = varint(in); headers > 0; headers--) {
                    skipped(in);
                    isBelow |= skipped(in) < -1;
                }
            }
        }
        return isBelow;
    }

    private static long skipped(InputStream in) throws IOException {
        long length = varint(in);
        if (length > 0) {
            in.skipNBytes(length);
        }
        return length;
    }

    private static long varint(InputStream in) throws IOException {
        long value = 0;
        int next = 0x80;
        for (int shift = 0; (next & 0x80) != 0; shift += 7) {
            next = in.read();
            if (next < 0) {
                throw new EOFException();
            }
            value |= (next & 0x7FL) << shift;
        }
        return (value >>> 1) ^ -(value & 1);
    }
}
