"""
Why does this workflow not move? And which version may be retired?

Neither an executor nor Relay knows alone. An executor knows the workflow, its queue and
what runs there; Relay knows the owner, its socket and what is being done about a death.
Here both are put together, in a sentence and a code::

    edge ──▶ Diagnosis ──▶ questions ──▶ operations.Executors    the workflow, counts
                  │ ─────▶ owner_facts ──▶ sockets, rows, ledger, tombstones
                  │ ─────▶ queue_facts ──▶ limits, what runs, what is ahead
                  ▼
              policy ─▶ owners (PENDING), queueing (ENQUEUED) ─▶ Finding        pure
              drain ─▶ VersionStanding                                          pure

The codes are stable, and each has its own details:

==================== ==================================================================
`finished`           it has ended: `status`
`running`            its executor is connected and answers: `executorId`, `lastSeenAt`
`owner_unresponsive` its executor is connected and silent: `executorId`, `lastSeenAt`
`owner_disconnected` its executor may come back until `deadAfter`
`owner_other_version` its executor has another version now: `appVersion`,
                     `executorVersion`
`owner_unknown`      it has no executor, or one that Relay never saw: `executorId`,
                     `appVersion`
`recovery_scheduled` its executor is dead, an order is due at `nextAttemptAt`
`recovery_waiting`   …, and nobody is there to take the work over
`recovery_ordered`   …, and `target` was ordered to
`recovery_braked`    …, and the crash brake spaces the orders: `suspectIds`,
                     `isSuspect`, `brakeLevel`
`recovery_stranded`  …, and nobody of its version lives: `appVersion`, `liveVersions`
`recovery_migrating` …, and the work is being moved to another version
`recovery_ended`     its recovery is over since `endedAt`, and it owns work all the
                     same; the census goes on with it
`recovery_abandoned` an operator gave up on it
`version_absent`     enqueued, and nobody of its version lives: `appVersion`,
                     `liveVersions`
`delayed`            until `until`
`queue_full`         `limit` is `global`, `partition` or `worker` (of each `scope`):
                     `most` may run, `running` do, `runningIn` which executors
`rate_limited`       `started` of `rateLimitMax` were started within
                     `rateLimitPeriodSecs`; free again `until`, at the latest
`queue_waiting`      `ahead` older ones stand before it; `unknown` lists what could not
                     be checked
`unknown`            several processes use its executor's id (`collision`), its
                     executor is just being lost, or its status is none that Relay knows
==================== ==================================================================

All codes of a recovery have `executorId`, `recoveryId`, `state`, `attempts` and
`reason` too. A detail that is not known is absent.

Invariants:

- **Nothing is guessed.** What cannot be known is said to be unknown, with the reason:
  the limits of a queue that stands in code only; counts that an old SDK cannot give.
  That an executor does not listen to a queue is told by no SDK, and so is no code here.
- **Nothing is hidden.** A page of `list_attention` says how many it looked at and how
  many of them run; the next page begins where it ended.
- **A page costs a handful of questions**, whatever its length, and all of them together
  the time of one.
- **No payload is asked for.** What belongs to another application is not there.

On failure: the first question, for the workflows themselves, fails as any other does.
All that follow may fail: the finding says what is missing.

What it does not do: it changes nothing, keeps nothing, and moves no stranded work.
"""

from relay.diagnosis.diagnosis import (
    AttentionPage,
    Diagnosed,
    Diagnosis,
    VersionDrain,
)
from relay.diagnosis.drain import VersionStanding
from relay.diagnosis.findings import Code, Finding

__all__ = [
    "AttentionPage",
    "Code",
    "Diagnosed",
    "Diagnosis",
    "Finding",
    "VersionDrain",
    "VersionStanding",
]
