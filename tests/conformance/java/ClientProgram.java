import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Kafka's own Java clients as a program that is told what to do by lines of JSON; the orders are described in
 *  tests/conformance/clients/program.py. The consumer belongs to its own thread, which works off the queue. */
public class ClientProgram {
    static final Map<String, String> ASSIGNORS = Map.of("range", "Range", "roundrobin", "RoundRobin", "sticky", "Sticky",
        "cooperative-sticky", "CooperativeSticky");

    final String bootstrap;
    final Admin admin;
    final LinkedBlockingQueue<Runnable> todo = new LinkedBlockingQueue<>();
    KafkaConsumer<String, String> consumer;
    Thread reader;
    volatile boolean stopping;
    volatile List<Integer> owned = List.of();
    final List<String> read = new ArrayList<>();

    ClientProgram(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    void join(JsonNode order) {
        Map<String, Object> options = new HashMap<>();
        options.put("bootstrap.servers", bootstrap);
        options.put("group.id", order.get("group").asText());
        options.put("partition.assignment.strategy",
            "org.apache.kafka.clients.consumer." + ASSIGNORS.get(order.get("assignor").asText()) + "Assignor");
        options.put("session.timeout.ms", order.get("session_ms").asInt());
        options.put("heartbeat.interval.ms", 300);
        options.put("auto.offset.reset", "earliest");
        options.put("enable.auto.commit", "false");
        if (!order.get("instance").isNull()) options.put("group.instance.id", order.get("instance").asText());
        String topic = order.get("topic").asText();
        stopping = false;
        reader = new Thread(() -> {
            consumer = new KafkaConsumer<>(options, new StringDeserializer(), new StringDeserializer());
            consumer.subscribe(List.of(topic));
            while (!stopping) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100)))
                    synchronized (read) { read.add(record.value()); }
                List<Integer> now = new ArrayList<>();
                for (TopicPartition each : consumer.assignment()) now.add(each.partition());
                owned = now;
                for (Runnable next = todo.poll(); next != null; next = todo.poll()) next.run();
            }
            consumer.close();
            owned = List.of();
        });
        reader.setDaemon(true);
        reader.start();
    }

    Object commit() throws Exception {
        CompletableFuture<Map<String, Long>> done = new CompletableFuture<>();
        todo.add(() -> {
            try {
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                Map<String, Long> told = new TreeMap<>();
                for (TopicPartition each : consumer.assignment()) {
                    offsets.put(each, new OffsetAndMetadata(consumer.position(each)));
                    told.put("" + each.partition(), consumer.position(each));
                }
                consumer.commitSync(offsets);
                done.complete(told);
            } catch (Exception e) {
                done.completeExceptionally(e);
            }
        });
        return done.get();
    }

    Object produce(String topic, String codec, JsonNode values) throws Exception {
        Map<String, Object> options = Map.of("bootstrap.servers", bootstrap, "compression.type", codec, "linger.ms", 20);
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(options, new StringSerializer(), new StringSerializer())) {
            int count = producer.partitionsFor(topic).size();
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (JsonNode value : values)
                sent.add(producer.send(new ProducerRecord<>(topic, sent.size() % count, null, value.asText())));
            for (Future<RecordMetadata> each : sent) each.get();
        }
        return null;
    }

    Object describe(String group) throws Exception {
        ConsumerGroupDescription found = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        return Map.of("state", found.groupState().toString(), "members", found.members().size());
    }

    Object offsets(String group, String topic) throws Exception {
        Map<String, Long> told = new TreeMap<>();
        admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().forEach((partition, offset) -> {
            if (partition.topic().equals(topic)) told.put("" + partition.partition(), offset.offset());
        });
        return told;
    }

    Object carryOut(JsonNode order) throws Exception {
        String topic = order.path("topic").asText();
        String group = order.path("group").asText();
        switch (order.get("do").asText()) {
            case "create":
                admin.createTopics(List.of(new NewTopic(topic, order.get("partitions").asInt(), (short) 1))).all().get();
                return null;
            case "delete_topic":
                admin.deleteTopics(List.of(topic)).all().get();
                return null;
            case "topics":
                return (Collection<String>) new TreeSet<>(admin.listTopics().names().get());
            case "produce":
                return produce(topic, order.get("codec").asText(), order.get("values"));
            case "join":
                join(order);
                return null;
            case "status":
                synchronized (read) { return Map.of("owned", owned, "read", List.copyOf(read)); }
            case "commit":
                return commit();
            case "leave":
                stopping = true;
                reader.join(30_000);
                return null;
            case "describe":
                return describe(group);
            case "offsets":
                return offsets(group, topic);
            case "reset":
                admin.alterConsumerGroupOffsets(group, Map.of(new TopicPartition(topic, order.get("partition").asInt()),
                    new OffsetAndMetadata(order.get("offset").asLong()))).all().get();
                return null;
            case "delete_group":
                admin.deleteConsumerGroups(List.of(group)).all().get();
                return null;
            default:
                throw new IllegalArgumentException("no such order: " + order);
        }
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        ObjectMapper json = new ObjectMapper();
        ClientProgram program = new ClientProgram(args[0]);
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            Map<String, Object> answer = new HashMap<>();
            try {
                answer.put("result", program.carryOut(json.readTree(line)));
            } catch (Throwable e) {
                answer.put("error", e.toString());
            }
            answers.println(json.writeValueAsString(answer));
            answers.flush();
        }
        System.exit(0);
    }
}
