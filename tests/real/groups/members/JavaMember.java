/*
 * A member of Kafka's own consumer; diary and orders as in diary.py. System.nanoTime() is Python's time.monotonic().
 * Run from source, by class path: java -cp JARS JavaMember.java DIARY BOOTSTRAP GROUP TOPIC NAME=VALUE...
 */
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Locale;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class JavaMember implements ConsumerRebalanceListener {
    final FileOutputStream diary;
    final KafkaConsumer<byte[], byte[]> consumer;

    JavaMember(String diary, Properties properties) throws IOException {
        this.diary = new FileOutputStream(diary, true);
        this.consumer = new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    void say(String what, String numbers) {
        String line = String.format(Locale.ROOT, "%.6f %s %s%n", System.nanoTime() / 1e9, what, numbers);
        try {
            diary.write(line.getBytes(StandardCharsets.UTF_8));
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    static String numbers(Collection<TopicPartition> partitions) {
        return partitions.stream().map(tp -> String.valueOf(tp.partition())).collect(Collectors.joining(" "));
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        say("assigned", numbers(partitions));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        try {
            consumer.commitSync(Duration.ofSeconds(5));
        } catch (KafkaException error) {
            say("trouble", error.toString().replace('\n', ' '));
        }
        say("revoked", numbers(partitions));
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        say("lost", numbers(partitions));
    }

    void run(String topic) throws IOException {
        consumer.subscribe(List.of(topic), this);
        say("started", "");
        while (System.in.available() == 0) {
            ConsumerRecords<byte[], byte[]> found = consumer.poll(Duration.ofMillis(100));
            for (TopicPartition tp : found.partitions()) {
                StringBuilder line = new StringBuilder().append(tp.partition());
                for (ConsumerRecord<byte[], byte[]> record : found.records(tp)) {
                    line.append(' ').append(record.offset());
                }
                say("records", line.toString());
            }
            if (!found.isEmpty()) {
                consumer.commitAsync();
            }
        }
        say("leaving", "");
        consumer.close();
        say("left", "");
    }

    public static void main(String[] arguments) throws IOException {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[1]);
        properties.put("group.id", arguments[2]);
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        for (int i = 4; i < arguments.length; i++) {
            String[] option = arguments[i].split("=", 2);
            properties.put(option[0], option[1]);
        }
        new JavaMember(arguments[0], properties).run(arguments[3]);
    }
}
