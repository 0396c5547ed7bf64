import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;
import org.apache.kafka.storage.internals.log.RecordValidationException;

/** Each line is "compact|delete create|append HEX"; the answer is the error code, and the batch as Kafka would store it. */
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
            return "0 " + HexFormat.of().formatHex(bytes);
        } catch (RecordValidationException error) {
            return String.valueOf(Errors.forException(error.invalidException()).code());
        } catch (Throwable error) {
            return Errors.forException(error).code() + " " + error.toString().replace('\n', ' ');
        }
    }
}
