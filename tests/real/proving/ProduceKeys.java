import java.nio.charset.StandardCharsets;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes numbered records of several keys for some time:
 * ProduceKeys BOOTSTRAP TOPIC KEYS SECONDS MAX_AGE_MS [NAME=VALUE of a producer option]...
 */
public class ProduceKeys {
    public static void main(String[] args) throws Exception {
        int keys = Integer.parseInt(args[2]);
        Properties options = new Properties();
        options.put("bootstrap.servers", args[0]);
        options.put("metadata.max.age.ms", args[4]);
        for (int i = 5; i < args.length; i++) {
            options.put(args[i].split("=", 2)[0], args[i].split("=", 2)[1]);
        }
        var raw = new ByteArraySerializer();
        try (var producer = new KafkaProducer<>(options, raw, raw)) {
            long end = System.currentTimeMillis() + 1000 * Long.parseLong(args[3]);
            for (int n = 1; System.currentTimeMillis() < end; n++) {
                for (int key = 0; key < keys; key++) {
                    byte[] name = ("java-" + key).getBytes(StandardCharsets.UTF_8);
                    byte[] value = Integer.toString(n).getBytes(StandardCharsets.UTF_8);
                    producer.send(new ProducerRecord<>(args[1], name, value));
                }
                Thread.sleep(50);
            }
        }
    }
}
