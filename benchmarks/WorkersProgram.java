import io.confluent.parallelconsumer.ParallelConsumerOptions;
import io.confluent.parallelconsumer.ParallelConsumerOptions.ProcessingOrder;
import io.confluent.parallelconsumer.ParallelStreamProcessor;
import java.io.FileOutputStream;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Processes a topic with parallel-consumer, as workers_programs.py does with others: the same arguments and output. */
public class WorkersProgram {
    static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    static final AtomicLong DONE = new AtomicLong();

    public static void main(String[] words) throws Exception {
        String servers = words[0], topic = words[1], group = words[2], order = words[3], handler = words[5];
        int concurrency = Integer.parseInt(words[4]), every = Integer.parseInt(words[6]);
        FileOutputStream diary = words[7].isEmpty() ? null : new FileOutputStream(words[7], true);
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
            Map.of("bootstrap.servers", servers, "group.id", group, "group.instance.id", "one",
                "enable.auto.commit", "false", "auto.offset.reset", "earliest", "max.poll.records", "2000"),
            new ByteArrayDeserializer(), new ByteArrayDeserializer());
        ParallelStreamProcessor<byte[], byte[]> processor = ParallelStreamProcessor.createEosStreamProcessor(
            ParallelConsumerOptions.<byte[], byte[]>builder()
                .consumer(consumer)
                .ordering(order.equals("none") ? ProcessingOrder.UNORDERED : ProcessingOrder.valueOf(order.toUpperCase()))
                .maxConcurrency(concurrency)
                .commitInterval(Duration.ofSeconds(1))
                .build());
        processor.subscribe(List.of(topic));
        processor.poll(context -> {
            ConsumerRecord<byte[], byte[]> record = context.getSingleConsumerRecord();
            handle(handler, record);
            if (diary != null) {
                write(diary, record);
            }
            long done = DONE.incrementAndGet();
            if (done % every == 0) {
                System.out.println(done);
            }
        });
    }

    static void handle(String handler, ConsumerRecord<byte[], byte[]> record) {
        if (handler.equals("compute")) {
            long until = THREADS.getCurrentThreadCpuTime() + 1_000_000;
            while (THREADS.getCurrentThreadCpuTime() < until) {
            }
            return;
        }
        boolean isStuck = handler.equals("stick") && new String(record.key()).equals("stuck");
        try {
            Thread.sleep(isStuck ? 60_000 : 10);
        } catch (InterruptedException e) {
            throw new RuntimeException(e);
        }
    }

    static synchronized void write(FileOutputStream diary, ConsumerRecord<byte[], byte[]> record) {
        try {
            diary.write((record.partition() + " " + record.offset() + "\n").getBytes());
        } catch (java.io.IOException e) {
            throw new RuntimeException(e);
        }
    }
}
