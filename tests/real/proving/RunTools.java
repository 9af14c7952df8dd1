import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command line tools one after the other in one JVM, since each JVM takes seconds to start.
 *
 * A line of input is a class name, its standard input and its arguments; the answer is a line with exit code, standard
 * output and standard error. All fields but the exit code are in Base64, with a comma before each.
 */
public class RunTools {
    /** The first exit code of the tool that runs: tools catch what the exit procedure throws, and exit once more. */
    private static Integer ended;

    public static void main(String[] args) throws Exception {
        Exit.setExitProcedure((status, message) -> {
            ended = ended == null ? Integer.valueOf(status) : ended;
            throw new Error("exit");
        });
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = System.out;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = Arrays.stream(line.substring(1).split(",", -1))
                .map(field -> new String(Base64.getDecoder().decode(field), StandardCharsets.UTF_8))
                .toArray(String[]::new);
            var output = new ByteArrayOutputStream();
            var errors = new ByteArrayOutputStream();
            System.setIn(new ByteArrayInputStream(fields[1].getBytes(StandardCharsets.UTF_8)));
            System.setOut(new PrintStream(output, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(errors, true, StandardCharsets.UTF_8));
            int status = run(fields[0], Arrays.copyOfRange(fields, 2, fields.length));
            System.out.flush();
            var encoder = Base64.getEncoder();
            answers.println(status + "," + encoder.encodeToString(output.toByteArray())
                + "," + encoder.encodeToString(errors.toByteArray()));
        }
        Runtime.getRuntime().halt(0);
    }

    private static int run(String tool, String[] arguments) throws Exception {
        ended = null;
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException error) {
            if (ended == null) {
                error.getCause().printStackTrace();
                return 1;
            }
        }
        return ended == null ? 0 : ended;
    }
}
