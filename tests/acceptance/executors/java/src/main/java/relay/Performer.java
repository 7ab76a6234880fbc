package relay;

import dev.dbos.transact.DBOS;
import dev.dbos.transact.StartWorkflowOptions;
import dev.dbos.transact.workflow.Workflow;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.time.Instant;
import java.util.function.Supplier;

/** The workflows, of steps that write down where and when they run. */
final class Performer implements Workflows {
  private final DBOS dbos;
  private final Supplier<String> executorId;
  private final Path stepLog;
  private Workflows workflows;

  Performer(DBOS dbos, Supplier<String> executorId, Path stepLog) {
    this.dbos = dbos;
    this.executorId = executorId;
    this.stepLog = stepLog;
  }

  /** Through which a workflow starts another one. */
  void use(Workflows proxy) {
    workflows = proxy;
  }

  @Override
  @Workflow(name = "chain")
  public int chain(int steps, double seconds) {
    String workflow = DBOS.workflowId();
    for (int step = 1; step <= steps; step += 1) {
      work(workflow, step, seconds);
    }
    return steps;
  }

  /** A workflow with everything a workflow can have. */
  @Override
  @Workflow(name = "tell")
  public String tell(String title) {
    work(title, 1, 0);
    dbos.setEvent("status", "told");
    dbos.writeStream("lines", "once");
    dbos.writeStream("lines", "upon a time");
    dbos.closeStream("lines");
    dbos.startWorkflow(
            () -> workflows.chain(1, 0), new StartWorkflowOptions(title + "-child"))
        .getResult();
    String heard = dbos.<String>recv("news", Duration.ofSeconds(10)).orElseThrow();
    return title + ": " + heard;
  }

  @Override
  @Workflow(name = "fail")
  public void fail() {
    throw new IllegalStateException("out of paper");
  }

  @Override
  @Workflow(name = "tick")
  public void tick(Instant scheduledAt, Object context) {}

  private String work(String workflow, int step, double seconds) {
    return dbos.runStep(
        () -> {
          note("begin", workflow, step);
          sleep(seconds);
          note("end", workflow, step);
          return workflow + "/" + step;
        },
        "work");
  }

  private static void sleep(double seconds) {
    try {
      Thread.sleep(Math.round(seconds * 1000));
    } catch (InterruptedException interruption) {
      throw new IllegalStateException(interruption);
    }
  }

  private void note(String event, String workflow, int step) {
    String line = String.join(" ", event, workflow, "" + step, executorId.get()) + "\n";
    try {
      Files.writeString(
          stepLog, line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
  }
}
