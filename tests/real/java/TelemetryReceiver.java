import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;

/** Writes what clients push into files of the folder that the broker's setting "telemetry.folder" names. */
public class TelemetryReceiver implements MetricsReporter, ClientTelemetry {
    private static final AtomicInteger COUNT = new AtomicInteger();
    private Path folder;

    @Override
    public void configure(Map<String, ?> configs) {
        folder = Path.of((String) configs.get("telemetry.folder"));
    }

    @Override
    public ClientTelemetryReceiver clientReceiver() {
        return (context, payload) -> {
            ByteBuffer data = payload.data();
            byte[] bytes = new byte[data.remaining()];
            data.duplicate().get(bytes);
            String name = String.format(
                "%06d %s %s", COUNT.incrementAndGet(), payload.clientInstanceId(), payload.isTerminating());
            try {
                Path written = Files.write(folder.resolve("." + name), bytes);
                Files.move(written, folder.resolve(name), StandardCopyOption.ATOMIC_MOVE);
            } catch (java.io.IOException error) {
                throw new java.io.UncheckedIOException(error);
            }
        };
    }

    @Override
    public void init(List<KafkaMetric> metrics) { }

    @Override
    public void metricChange(KafkaMetric metric) { }

    @Override
    public void metricRemoval(KafkaMetric metric) { }

    @Override
    public void close() { }
}
