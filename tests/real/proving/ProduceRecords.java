import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.Random;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Fills topics the way Java programs do: ProduceRecords BOOTSTRAP COUNT CODEC=TOPIC... into partitions 0 and 1. */
public class ProduceRecords {
    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[1]);
        for (int i = 2; i < args.length; i++) {
            String[] pair = args[i].split("=");
            Properties options = new Properties();
            options.put("bootstrap.servers", args[0]);
            options.put("compression.type", pair[0]);
            options.put("linger.ms", "5");
            options.put("batch.size", "50000");
            var raw = new ByteArraySerializer();
            try (var producer = new KafkaProducer<>(options, raw, raw)) {
                Random random = new Random(7);
                for (int n = 0; n < count; n++) {
                    producer.send(record(pair[1], n, random));
                }
                producer.flush();
            }
        }
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, int n, Random random) {
        byte[] key = n % 5 == 0 ? null : ("key-" + n % 97).getBytes(StandardCharsets.UTF_8);
        byte[] value = n % 11 == 0 ? null : value(n, random);
        var record = new ProducerRecord<>(topic, n % 2, 1_700_000_000_000L + n * 1000L % 77_000, key, value);
        if (n % 3 == 0) {
            record.headers().add("trace", ("id " + n).getBytes(StandardCharsets.UTF_8));
            record.headers().add("trace", null);
            record.headers().add("caf\u00e9", new byte[] {});
        }
        return record;
    }

    private static byte[] value(int n, Random random) {
        byte[] noise = new byte[random.nextInt(200)];
        random.nextBytes(noise);
        byte[] text = ("{\"number\": " + n + ", \"text\": \"" + "lorem ipsum ".repeat(n % 20) + "\"}").getBytes(StandardCharsets.UTF_8);
        byte[] both = java.util.Arrays.copyOf(text, text.length + noise.length);
        System.arraycopy(noise, 0, both, text.length, noise.length);
        return both;
    }
}
