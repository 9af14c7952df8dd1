/*
 * What Java's assignors plan. One group per line on stdin, its plans on stdout, both as JSON.
 * Run from source, by class path: java -cp JARS Assignors.java
 *
 * A group: {"topics": {NAME: [[REPLICA, ...] of each partition]}, "racks": {NODE: RACK or null},
 *           "members": {ID: {"topics", "owned": [[TOPIC, PARTITION]], "generation", "rack", "instance",
 *                            "sticky": user data for the sticky assignor, in base64, or null}}}
 * Its plans: {ASSIGNOR: {ID: [[TOPIC, PARTITION]]} or {"error": TEXT}}; "target" is what the cooperative one aims at
 * before it holds anything back.
 */

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

public class Assignors {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** What the cooperative assignor aims at: the sticky plan made from the fields of the subscription. */
    public static class Target extends AbstractStickyAssignor {
        @Override
        public String name() {
            return "target";
        }

        @Override
        protected MemberData memberData(Subscription subscription) {
            return new MemberData(subscription.ownedPartitions(), subscription.generationId(), subscription.rackId());
        }
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode group = JSON.readTree(line);
            Cluster cluster = cluster(group);
            ObjectNode plans = JSON.createObjectNode();
            for (ConsumerPartitionAssignor assignor : List.of(new RangeAssignor(), new RoundRobinAssignor(),
                    new StickyAssignor(), new CooperativeStickyAssignor(), new Target())) {
                GroupSubscription members = members(group, assignor instanceof StickyAssignor);
                try {
                    plans.set(assignor.name(), plan(assignor.assign(cluster, members).groupAssignment()));
                } catch (RuntimeException error) {
                    plans.set(assignor.name(), JSON.createObjectNode().put("error", error.toString()));
                }
            }
            out.println(JSON.writeValueAsString(plans));
        }
        out.flush();
    }

    private static Cluster cluster(JsonNode group) {
        Map<Integer, Node> nodes = new HashMap<>();
        group.get("racks").fields().forEachRemaining(entry -> {
            int id = Integer.parseInt(entry.getKey());
            nodes.put(id, new Node(id, "localhost", 9092, entry.getValue().textValue()));
        });
        List<PartitionInfo> partitions = new ArrayList<>();
        group.get("topics").fields().forEachRemaining(entry -> {
            int number = 0;
            for (JsonNode ids : entry.getValue()) {
                Node[] replicas = new Node[ids.size()];
                for (int i = 0; i < replicas.length; i++)
                    replicas[i] = nodes.get(ids.get(i).intValue());
                partitions.add(new PartitionInfo(entry.getKey(), number++, replicas[0], replicas, replicas));
            }
        });
        return new Cluster("cluster", nodes.values(), partitions, Set.of(), Set.of());
    }

    private static GroupSubscription members(JsonNode group, boolean withUserData) throws Exception {
        Map<String, Subscription> members = new HashMap<>();
        for (Map.Entry<String, JsonNode> entry : (Iterable<Map.Entry<String, JsonNode>>) group.get("members")::fields) {
            JsonNode said = entry.getValue();
            List<String> topics = new ArrayList<>();
            said.get("topics").forEach(topic -> topics.add(topic.textValue()));
            List<TopicPartition> owned = new ArrayList<>();
            said.get("owned").forEach(tp -> owned.add(new TopicPartition(tp.get(0).textValue(), tp.get(1).intValue())));
            byte[] data = said.get("sticky").binaryValue();
            ByteBuffer userData = withUserData && data != null ? ByteBuffer.wrap(data) : null;
            Subscription subscription = new Subscription(topics, userData, owned, said.get("generation").intValue(),
                    Optional.ofNullable(said.get("rack").textValue()));
            subscription.setGroupInstanceId(Optional.ofNullable(said.get("instance").textValue()));
            members.put(entry.getKey(), subscription);
        }
        return new GroupSubscription(members);
    }

    private static ObjectNode plan(Map<String, Assignment> shares) {
        ObjectNode plan = JSON.createObjectNode();
        shares.forEach((member, share) -> {
            ArrayNode partitions = plan.putArray(member);
            for (TopicPartition tp : share.partitions())
                partitions.addArray().add(tp.topic()).add(tp.partition());
        });
        return plan;
    }
}
