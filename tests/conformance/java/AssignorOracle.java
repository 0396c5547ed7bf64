import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Answers questions to Kafka's own assignors, one line each; fields are separated by tabs and "-" stands for nothing.
 *
 * assign, assignor, topics, member, member, ...
 *     topics: "orders=a+b,c,- clicks=a" gives, per topic, the racks of the replicas of each partition
 *     member: "id|instance|rack|generation|topics|owned|user data", lists with commas, owned as topic:index, user data in hex
 *     answer: "id=orders:0,orders:1" per member, separated by tabs
 * remember, assignor, generation, owned
 *     answer: the user data that a member sends after it was given those partitions, in hex
 *
 * An exception of the assignor is answered as "!" and its text.
 */
public final class AssignorOracle {
    private static final String NOTHING = "-";

    public static void main(String[] arguments) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        // Loggers write to System.out, which is the channel for answers.
        System.setOut(new PrintStream(OutputStream.nullOutputStream()));
        String line;
        while ((line = questions.readLine()) != null) {
            String[] fields = line.split("\t");
            try {
                answers.println(fields[0].equals("assign") ? assign(fields) : remember(fields));
            } catch (RuntimeException problem) {
                answers.println("!" + problem);
            }
        }
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException("no assignor is called " + name);
        };
    }

    private static String assign(String[] fields) {
        Map<String, Subscription> sorted = new TreeMap<>();
        for (String member : Arrays.asList(fields).subList(3, fields.length)) {
            String[] parts = member.split("\\|");
            ByteBuffer userData = parts[6].equals(NOTHING) ? null : ByteBuffer.wrap(HexFormat.of().parseHex(parts[6]));
            Subscription subscription = new Subscription(
                list(parts[4]), userData, partitions(parts[5]), Integer.parseInt(parts[3]), text(parts[2]));
            subscription.setGroupInstanceId(text(parts[1]));
            sorted.put(parts[0], subscription);
        }
        // The consumer keeps its group in a plain HashMap; filling it by id settles the order of ids that collide.
        Map<String, Subscription> group = new HashMap<>();
        sorted.forEach(group::put);

        Map<String, Assignment> result = assignor(fields[1]).assign(cluster(fields[2]), new GroupSubscription(group)).groupAssignment();
        List<String> lines = new ArrayList<>();
        result.forEach((member, assignment) -> {
            List<String> names = new ArrayList<>();
            assignment.partitions().forEach(partition -> names.add(partition.topic() + ":" + partition.partition()));
            lines.add(member + "=" + String.join(",", names));
        });
        return String.join("\t", lines);
    }

    private static String remember(String[] fields) {
        ConsumerPartitionAssignor assignor = assignor(fields[1]);
        assignor.onAssignment(
            new Assignment(partitions(fields[3])),
            new ConsumerGroupMetadata("group", Integer.parseInt(fields[2]), "member", Optional.empty()));
        ByteBuffer userData = assignor.subscriptionUserData(Set.of());
        byte[] bytes = new byte[userData.remaining()];
        userData.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    private static Cluster cluster(String topics) {
        Map<String, Node> nodes = new HashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        for (String topic : topics.equals(NOTHING) ? new String[0] : topics.split(" ")) {
            String[] nameAndRacks = topic.split("=");
            int index = 0;
            for (String racks : nameAndRacks[1].split(",")) {
                Node[] replicas = Arrays.stream(racks.split("\\+"))
                    .map(rack -> nodes.computeIfAbsent(
                        rack, name -> new Node(nodes.size(), "host", 9092, name.equals(NOTHING) ? null : name)))
                    .toArray(Node[]::new);
                partitions.add(new PartitionInfo(nameAndRacks[0], index++, replicas[0], replicas, replicas));
            }
        }
        return new Cluster("cluster", nodes.values(), partitions, Collections.emptySet(), Collections.emptySet());
    }

    private static List<TopicPartition> partitions(String owned) {
        return list(owned).stream().map(name -> {
            int colon = name.lastIndexOf(':');
            return new TopicPartition(name.substring(0, colon), Integer.parseInt(name.substring(colon + 1)));
        }).toList();
    }

    private static List<String> list(String names) {
        return names.equals(NOTHING) ? List.of() : List.of(names.split(","));
    }

    private static Optional<String> text(String field) {
        return field.equals(NOTHING) ? Optional.empty() : Optional.of(field);
    }
}
