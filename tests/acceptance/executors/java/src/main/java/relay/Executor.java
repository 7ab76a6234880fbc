package relay;

import dev.dbos.transact.DBOS;
import dev.dbos.transact.StartWorkflowOptions;
import dev.dbos.transact.config.DBOSConfig;
import dev.dbos.transact.execution.DBOSExecutor;
import dev.dbos.transact.workflow.QueueOptions;
import dev.dbos.transact.workflow.WorkflowHandle;
import dev.dbos.transact.workflow.WorkflowSchedule;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;

/**
 * A DBOS Java application for the acceptance tests; runs on SDK 1.1.
 *
 * <p>The twin of app.py: same commands on stdin, same facts on stdout, same step log.
 */
public final class Executor {
  private final DBOS dbos;
  private final Workflows workflows;

  private Executor(Map<String, String> environment) {
    dbos = new DBOS(configuration(environment));
    Path stepLog = Path.of(environment.get("STEP_LOG"));
    Performer performer = new Performer(dbos, this::id, stepLog);
    workflows = dbos.registerProxy(Workflows.class, performer);
    performer.use(workflows);
  }

  public static void main(String[] arguments) throws IOException {
    Executor executor = new Executor(System.getenv());
    executor.dbos.launch();
    say("ready " + executor.id());
    BufferedReader commands =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = commands.readLine(); line != null; line = commands.readLine()) {
      String[] words = line.strip().split(" ");
      if (words[0].equals("stop")) {
        break;
      }
      say(executor.obey(words));
    }
    executor.dbos.shutdown();
    System.exit(0);
  }

  private static DBOSConfig configuration(Map<String, String> environment) {
    URI database = URI.create(environment.get("SYSTEM_DATABASE_URL"));
    String address = database.getHost() + ":" + database.getPort() + database.getPath();
    String[] account = database.getUserInfo().split(":", 2);
    return DBOSConfig.defaults(environment.get("APP_NAME"))
        .withDatabaseUrl("jdbc:postgresql://" + address)
        .withDbUser(account[0])
        .withDbPassword(account[1])
        .withAppVersion(environment.get("APP_VERSION"))
        .withConductorDomain(environment.get("CONDUCTOR_URL"))
        .withConductorKey(environment.get("CONDUCTOR_KEY"));
  }

  /** Its id, which the SDK draws at launch and has no public word for. */
  private String id() {
    try {
      Method inner = DBOS.class.getDeclaredMethod("getDbosExecutor");
      inner.setAccessible(true);
      return ((DBOSExecutor) inner.invoke(dbos)).executorId();
    } catch (ReflectiveOperationException otherVersion) {
      throw new IllegalStateException(otherVersion);
    }
  }

  /** Obeys one command, and returns the fact that tells of it. */
  private String obey(String[] words) {
    switch (words[0]) {
      case "start" -> {
        int steps = Integer.parseInt(words[2]);
        double seconds = Double.parseDouble(words[3]);
        dbos.startWorkflow(
            () -> workflows.chain(steps, seconds), new StartWorkflowOptions(words[1]));
        return "started " + words[1];
      }
      case "enqueue" -> {
        double seconds = Double.parseDouble(words[2]);
        long delay = Math.round(Double.parseDouble(words[3]) * 1000);
        StartWorkflowOptions queued =
            new StartWorkflowOptions(words[1]).withQueue("jobs");
        dbos.startWorkflow(
            () -> workflows.chain(1, seconds),
            delay == 0 ? queued : queued.withDelay(Duration.ofMillis(delay)));
        return "started " + words[1];
      }
      case "cancel" -> {
        dbos.cancelWorkflow(words[1]);
        return "cancelled " + words[1];
      }
      case "wait" -> {
        dbos.getResult(words[1]);
        return "finished " + words[1];
      }
      case "perform" -> {
        perform();
        return "performed";
      }
      default -> throw new IllegalArgumentException("no such command: " + words[0]);
    }
  }

  /** Has one of everything in the database; the twin of `perform` in app.py. */
  private void perform() {
    furnish();
    WorkflowHandle<String, ?> story =
        dbos.startWorkflow(
            () -> workflows.tell("story"), new StartWorkflowOptions("story"));
    dbos.send("story", "rain", "news");
    WorkflowHandle<?, ?> failing =
        dbos.startWorkflow(
            () -> workflows.fail(), new StartWorkflowOptions("failing"));
    WorkflowHandle<Integer, ?> queued =
        dbos.startWorkflow(
            () -> workflows.chain(2, 0),
            new StartWorkflowOptions("queued").withQueue("jobs"));
    result(story);
    result(queued);
    try {
      result(failing);
      throw new AssertionError("the failing workflow did not fail");
    } catch (IllegalStateException failure) {
      // As it should.
    }
  }

  private static <T> T result(WorkflowHandle<T, ?> handle) {
    try {
      return handle.getResult();
    } catch (RuntimeException failure) {
      throw failure;
    } catch (Exception failure) {
      throw new IllegalStateException(failure);
    }
  }

  /** Has queues and schedules in the database; crontabs begin with the second. */
  private void furnish() {
    dbos.registerQueue("jobs", QueueOptions.setWorkerConcurrency(2));
    dbos.registerQueue(
        "shut",
        QueueOptions.setRateLimit(1, Duration.ofHours(1))
            .andPollingInterval(Duration.ofSeconds(2)));
    String owner = Performer.class.getName();
    dbos.createSchedule(
        new WorkflowSchedule("nightly", "tick", owner, "0 0 3 * * *")
            .withContext(Map.of("hall", 7)));
    dbos.createSchedule(new WorkflowSchedule("hourly", "tick", owner, "0 0 * * * *"));
  }

  private static void say(String fact) {
    System.out.println(fact);
  }
}
