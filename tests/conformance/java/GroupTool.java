import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.tools.consumer.group.ConsumerGroupCommand;

/**
 * Runs Kafka's own consumer group tool many times in one JVM.
 *
 * A question is the tool's command line, words separated by tabs. The answer is its exit code and everything that it
 * printed, separated by a tab; line breaks of the text come as form feeds.
 */
public final class GroupTool {
    private static final class Ended extends RuntimeException {
        final int code;

        Ended(int code, String text) {
            super(text);
            this.code = code;
        }
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        Exit.setExitProcedure((code, text) -> {
            throw new Ended(code, text);
        });
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream screen = new PrintStream(printed, true, StandardCharsets.UTF_8);
            System.setOut(screen);
            System.setErr(screen);
            int code = 0;
            try {
                ConsumerGroupCommand.main(line.split("\t"));
            } catch (Ended ended) {
                code = ended.code;
                if (ended.getMessage() != null) {
                    screen.println(ended.getMessage());
                }
            }
            String text = printed.toString(StandardCharsets.UTF_8).replace('\r', ' ').replace('\n', '\f');
            answers.println(code + "\t" + text.replace('\t', ' '));
            answers.flush();
        }
    }
}
