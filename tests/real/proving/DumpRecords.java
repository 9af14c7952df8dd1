import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** What the Java consumer sees of whole topics, as lines: DumpRecords BOOTSTRAP TOPIC... Ends at the ends found at start. */
public class DumpRecords {
    public static void main(String[] args) {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String isolation : List.of("read_uncommitted", "read_committed")) {
            for (int i = 1; i < args.length; i++) {
                try {
                    dump(out, args[0], isolation, args[i]);
                } catch (RuntimeException e) {
                    // Kafka's exceptions have no stack trace, over which the launcher of source files stumbles.
                    throw new IllegalStateException(isolation + " " + args[i] + ": " + e, e.getCause());
                }
            }
        }
        out.flush();
    }

    private static void dump(PrintStream out, String bootstrap, String isolation, String topic) {
        Properties options = new Properties();
        options.put("bootstrap.servers", bootstrap);
        options.put("isolation.level", isolation);
        options.put("auto.offset.reset", "earliest");
        options.put("enable.auto.commit", "false");
        options.put("max.poll.records", "10000");
        options.put("fetch.max.wait.ms", "50"); // closing waits for the fetch that is out
        var raw = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<>(options, raw, raw)) {
            List<TopicPartition> all = new ArrayList<>();
            for (PartitionInfo info : consumer.partitionsFor(topic)) {
                all.add(new TopicPartition(topic, info.partition()));
            }
            consumer.assign(all);
            Map<TopicPartition, Long> ends = consumer.endOffsets(all);
            long patience = System.currentTimeMillis() + 30000;
            while (!there(consumer, ends)) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    out.println(isolation + "\t" + line(record));
                    patience = System.currentTimeMillis() + 30000;
                }
                if (System.currentTimeMillis() > patience) {
                    throw new IllegalStateException(topic + " does not end: " + ends);
                }
            }
            for (TopicPartition tp : all) {
                out.println(isolation + "\t" + topic + "\t" + tp.partition() + "\tends at\t" + consumer.position(tp));
            }
        }
    }

    private static boolean there(KafkaConsumer<byte[], byte[]> consumer, Map<TopicPartition, Long> ends) {
        return ends.entrySet().stream().allMatch(end -> consumer.position(end.getKey()) >= end.getValue());
    }

    private static String line(ConsumerRecord<byte[], byte[]> record) {
        StringBuilder headers = new StringBuilder();
        for (Header header : record.headers()) {
            headers.append(hex(header.key().getBytes(StandardCharsets.UTF_8))).append('=').append(hex(header.value())).append(',');
        }
        return String.join("\t", record.topic(), "" + record.partition(), "" + record.offset(),
            "" + record.leaderEpoch().orElse(-1), "" + record.timestamp(), "" + record.timestampType().id,
            hex(record.key()), hex(record.value()), headers);
    }

    private static String hex(byte[] bytes) {
        return bytes == null ? "null" : java.util.HexFormat.of().formatHex(bytes);
    }
}
