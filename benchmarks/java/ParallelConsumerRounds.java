import io.confluent.parallelconsumer.ParallelConsumerOptions;
import io.confluent.parallelconsumer.ParallelConsumerOptions.CommitMode;
import io.confluent.parallelconsumer.ParallelConsumerOptions.ProcessingOrder;
import io.confluent.parallelconsumer.ParallelStreamProcessor;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.List;
import java.util.Locale;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * The yardstick ParallelConsumerLoad in rounds, so that the JVM gets warm: each line of stdin is one round by a new group.
 *
 *   BOOTSTRAP TOPIC UNORDERED|KEY|PARTITION CONCURRENCY HANDLER_MS TARGET
 *
 * Options, handler and clock are those of the yardstick. With HANDLER_MS "sum" the handler adds up offset and sizes of
 * each record instead, to prove that all of them are handed over. The answer is one line of JSON.
 */
public class ParallelConsumerRounds {
    public static void main(String[] arguments) throws Exception {
        var orders = new BufferedReader(new InputStreamReader(System.in));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            System.out.println(round(line.split(" ")));
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static String round(String[] a) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", a[0]);
        p.put("group.id", "parallel-java-" + System.nanoTime());
        p.put("auto.offset.reset", "earliest");
        p.put("enable.auto.commit", "false");
        p.put("key.deserializer", ByteArrayDeserializer.class.getName());
        p.put("value.deserializer", ByteArrayDeserializer.class.getName());
        boolean isSum = a[4].equals("sum");
        long handlerMs = isSum ? 0 : Long.parseLong(a[4]);
        long target = Long.parseLong(a[5]);
        var options = ParallelConsumerOptions.<byte[], byte[]>builder()
                .ordering(ProcessingOrder.valueOf(a[2]))
                .maxConcurrency(Integer.parseInt(a[3]))
                .consumer(new KafkaConsumer<>(p))
                .commitMode(CommitMode.PERIODIC_CONSUMER_ASYNCHRONOUS)
                .build();
        var processor = ParallelStreamProcessor.createEosStreamProcessor(options);
        processor.subscribe(List.of(a[1]));
        AtomicLong done = new AtomicLong();
        AtomicLong first = new AtomicLong();
        LongAdder total = new LongAdder();
        processor.poll(record -> {
            first.compareAndSet(0, System.nanoTime());
            if (handlerMs > 0) {
                try {
                    Thread.sleep(handlerMs);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
            }
            if (isSum) {
                ConsumerRecord<byte[], byte[]> each = record.getSingleConsumerRecord();
                total.add(each.offset() + each.key().length + each.value().length);
            }
            done.incrementAndGet();
        });
        while (done.get() < target) Thread.sleep(20);
        long records = done.get();
        double seconds = (System.nanoTime() - first.get()) / 1e9;
        processor.closeDontDrainFirst();
        return String.format(Locale.ROOT, "{\"records\": %d, \"records_per_s\": %.0f, \"sum\": %d, \"in_the_end\": %d}",
                records, records / seconds, total.sum(), done.get());
    }
}
