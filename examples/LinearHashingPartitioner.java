import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.kafka.clients.producer.Partitioner;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.utils.Utils;

/**
 * Places keys by linear hashing, so that they stay in order for consumers with a barrier while a topic grows.
 *
 * <pre>
 * partitioner.class=LinearHashingPartitioner
 * linear.hashing.initial=orders:6,payments:12
 * metadata.max.age.ms=60000
 * </pre>
 *
 * The numbers are the partition counts with which linear hashing began, and never change. Keys of other topics are placed
 * as by Kafka's own partitioner. Restart the producer after a topic was deleted and created again with fewer partitions.
 */
public class LinearHashingPartitioner implements Partitioner {
    private final Map<String, Integer> initial = new HashMap<>();
    private final Map<String, Integer> counts = new ConcurrentHashMap<>();

    @Override
    public void configure(Map<String, ?> configs) {
        for (String entry : configs.get("linear.hashing.initial").toString().split(",")) {
            String[] parts = entry.trim().split(":");
            initial.put(parts[0], Integer.valueOf(parts[1]));
        }
    }

    @Override
    public int partition(String topic, Object key, byte[] rawKey, Object value, byte[] rawValue, Cluster cluster) {
        if (rawKey == null) {
            List<PartitionInfo> available = new ArrayList<>(cluster.availablePartitionsForTopic(topic));
            if (available.isEmpty()) {
                available.addAll(cluster.partitionsForTopic(topic));
            }
            return available.get(ThreadLocalRandom.current().nextInt(available.size())).partition();
        }
        // A broker with older metadata may have a lower count for a moment: a key must not return to its earlier partition.
        int count = counts.merge(topic, cluster.partitionCountForTopic(topic), Math::max);
        return partition(rawKey, initial.getOrDefault(topic, count), count);
    }

    /** Returns the partition of a key, if linear hashing began with this initial count. */
    public static int partition(byte[] key, int initial, int count) {
        int hash = Utils.toPositive(Utils.murmur2(key));
        int round = initial * Integer.highestOneBit(count / initial);
        int partition = hash % round;
        return partition < count - round ? hash % (2 * round) : partition;
    }

    @Override
    public void close() {}
}
