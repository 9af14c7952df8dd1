/*
 * What Kafka's own consumer reads of some partitions, exactly: one line per record, bytes in base64.
 * Run from source, by class path: java -cp JARS ReadAll.java BOOTSTRAP ISOLATION_LEVEL TOPIC
 * Reads every partition from its beginning to the end offset it had at the start.
 */
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class ReadAll {
    static String encode(byte[] bytes) {
        return bytes == null ? "-" : "=" + Base64.getEncoder().encodeToString(bytes);
    }

    public static void main(String[] arguments) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("isolation.level", arguments[1]);
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        StringBuilder out = new StringBuilder();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties, bytes, bytes)) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (PartitionInfo info : consumer.partitionsFor(arguments[2])) {
                partitions.add(new TopicPartition(info.topic(), info.partition()));
            }
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            while (partitions.stream().anyMatch(p -> consumer.position(p) < ends.get(p))) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    if (record.offset() >= ends.get(new TopicPartition(record.topic(), record.partition()))) {
                        continue;
                    }
                    out.append(record.partition()).append(' ').append(record.offset()).append(' ')
                        .append(record.timestamp()).append(' ').append(record.timestampType().id).append(' ')
                        .append(encode(record.key())).append(' ').append(encode(record.value()));
                    for (Header header : record.headers()) {
                        out.append(' ').append(encode(header.key().getBytes(java.nio.charset.StandardCharsets.UTF_8)))
                            .append(' ').append(encode(header.value()));
                    }
                    out.append('\n');
                }
            }
        }
        System.out.print(out);
    }
}
