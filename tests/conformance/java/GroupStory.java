import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A group of Kafka's own consumers: three members, one leaves, one dies, the rest commits and resumes.
 *  Arguments: bootstrap servers, topic with six partitions, group, class of the assignor. One line per step that held. */
public class GroupStory {
    static final int PARTITIONS = 6;
    static String bootstrap, topic, group, assignor;

    static Map<String, Object> options(String instance, int sessionMs) {
        Map<String, Object> options = new HashMap<>();
        options.put("bootstrap.servers", bootstrap);
        options.put("group.id", group);
        options.put("partition.assignment.strategy", assignor);
        options.put("auto.offset.reset", "earliest");
        options.put("enable.auto.commit", "false");
        options.put("session.timeout.ms", sessionMs);
        options.put("heartbeat.interval.ms", 200);
        options.put("key.deserializer", StringDeserializer.class.getName());
        options.put("value.deserializer", StringDeserializer.class.getName());
        if (instance != null) options.put("group.instance.id", instance);
        return options;
    }

    static KafkaConsumer<String, String> member(String instance, int sessionMs) {
        KafkaConsumer<String, String> made = new KafkaConsumer<>(options(instance, sessionMs));
        made.subscribe(List.of(topic));
        return made;
    }

    static Set<String> seen = new HashSet<>();

    /** Poll everybody until each has partitions and each partition has one owner. */
    static void settle(List<KafkaConsumer<String, String>> members) {
        long end = System.currentTimeMillis() + 40_000;
        while (System.currentTimeMillis() < end) {
            Set<Integer> owned = new HashSet<>();
            int count = 0;
            boolean everybody = true;
            for (KafkaConsumer<String, String> each : members) {
                for (ConsumerRecord<String, String> record : each.poll(Duration.ofMillis(50))) seen.add(record.value());
                everybody &= !each.assignment().isEmpty();
                count += each.assignment().size();
                for (TopicPartition partition : each.assignment()) owned.add(partition.partition());
            }
            if (everybody && count == PARTITIONS && owned.size() == PARTITIONS) return;
        }
        throw new IllegalStateException("the partitions were not shared out among " + members.size());
    }

    public static void main(String[] args) {
        bootstrap = args[0];
        topic = args[1];
        group = args[2];
        assignor = args[3];
        Map<String, Object> producing = Map.of("bootstrap.servers", bootstrap,
            "key.serializer", StringSerializer.class.getName(), "value.serializer", StringSerializer.class.getName());
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(producing)) {
            for (int i = 0; i < 60; i++) producer.send(new ProducerRecord<>(topic, i % PARTITIONS, null, group + i));
        }
        List<KafkaConsumer<String, String>> members = new ArrayList<>();
        for (int i = 0; i < 3; i++) members.add(member(i == 0 ? "static" : null, i == 2 ? 1500 : 30_000));
        settle(members);
        System.out.println("three members");
        members.remove(1).close();
        settle(members);
        System.out.println("one left");
        members.remove(1).close(CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP));
        settle(members);
        System.out.println("one died");
        KafkaConsumer<String, String> last = members.get(0);
        long end = System.currentTimeMillis() + 20_000;
        while (seen.size() < 60 && System.currentTimeMillis() < end) settle(members);
        System.out.println("read " + seen.size());
        TopicPartition first = new TopicPartition(topic, 0);
        last.commitSync(Map.of(first, new OffsetAndMetadata(4, "so far")));
        last.close();
        KafkaConsumer<String, String> back = member("static", 30_000);
        settle(List.of(back));
        OffsetAndMetadata committed = back.committed(Set.of(first)).get(first);
        System.out.println("committed " + committed.offset() + " " + committed.metadata());
        back.close();
    }
}
