package relay;

import java.time.Instant;

/** What the executor can run; called through a proxy, each call is a workflow. */
public interface Workflows {
  int chain(int steps, double seconds);

  String tell(String title);

  void fail();

  void tick(Instant scheduledAt, Object context);
}
