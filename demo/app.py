"""
The application of the demo: an order in six steps, on DBOS.

It knows of Relay what any application does: a URL and a key. What each step does is
written into a file, so that the demo can tell who did it.
"""

import os
import sys
import time

from dbos import DBOS, SetWorkflowID

STEPS = ("reserve", "charge", "pack", "label", "ship", "notify")
STEP_SECONDS = 1.2


def note(event: str, step: str) -> None:
    """Append one line; several processes write the same file."""
    with open(os.environ["DEMO_STEPS"], "a", buffering=1) as log:
        log.write(f"{event} {step} {os.environ['DEMO_NAME']}\n")


@DBOS.step()
def perform(step: str) -> str:
    """One step of an order."""
    note("begin", step)
    time.sleep(STEP_SECONDS)  # noqa: TID251 - an application, not Relay
    note("end", step)
    return f"{step}: done"


@DBOS.workflow()
def fulfil() -> str:
    """The order: every step is recorded by DBOS when it has ended."""
    for step in STEPS:
        perform(step)
    return "shipped"


def main() -> None:
    """Launch, tell the executor's id, and start a workflow for each line of input."""
    DBOS(
        config={
            "name": "demo-shop",
            "application_version": "1.0",
            "system_database_url": os.environ["DEMO_DATABASE"],
            "conductor_url": os.environ["DEMO_RELAY"],
            "conductor_key": "any-key-will-do",
            "log_level": "WARNING",
        }
    )
    DBOS.launch()
    sys.stdout.write(f"{DBOS.executor_id}\n")
    sys.stdout.flush()
    for line in sys.stdin:
        with SetWorkflowID(line.strip()):
            DBOS.start_workflow(fulfil)


if __name__ == "__main__":
    main()
