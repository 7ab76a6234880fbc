"""
A DBOS Python application for the acceptance tests; runs on SDK 2.31 and 3.2.

It is started by `processes.ExecutorProcess` in an environment of its own, and so
imports nothing of Relay. Commands come in on stdin, one a line::

    start <workflow id> <steps> <seconds>     start a workflow
    poison <workflow id> <seconds>            start one that kills its process
    cancel <workflow id>                      cancel a workflow
    wait <workflow id>                        print "finished <workflow id>" at its end
    stop                                      the SDK's own shutdown

Facts go out on stdout (`ready <executor id>`, `started …`, `cancelled …`,
`finished …`), and each execution of a step is appended to the file of `STEP_LOG` at its
start and at its end.
"""

import os
import signal
import sys
import time
from unittest.mock import patch

from dbos import DBOS, SetWorkflowID

NAME = os.environ["APP_NAME"]
STEP_LOG = os.environ["STEP_LOG"]


def note(event: str, workflow: str, step: int) -> None:
    line = f"{event} {workflow} {step} {DBOS.executor_id}\n"
    descriptor = os.open(STEP_LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


@DBOS.step()
def work(workflow: str, step: int, seconds: float) -> str:
    note("begin", workflow, step)
    time.sleep(seconds)  # noqa: TID251 - the program under test, not Relay
    note("end", workflow, step)
    return f"{workflow}/{step}"


@DBOS.workflow()
def chain(steps: int, seconds: float) -> int:
    workflow = DBOS.workflow_id
    assert workflow is not None
    for step in range(1, steps + 1):
        work(workflow, step, seconds)
    return steps


@DBOS.step()
def die(workflow: str, seconds: float) -> None:
    note("begin", workflow, 1)
    time.sleep(seconds)  # noqa: TID251 - the program under test, not Relay
    os.kill(os.getpid(), signal.SIGKILL)


@DBOS.workflow()
def poison(seconds: float) -> None:
    workflow = DBOS.workflow_id
    assert workflow is not None
    die(workflow, seconds)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def launch(executor_id: str) -> None:
    """
    Launch the SDK, under `executor_id` unless that is empty.

    The SDK draws an id for each launch and takes no other. Two processes have one id
    when the image of a process, launched already, is brought to life twice.
    """
    if not executor_id:
        DBOS.launch()
        return
    with patch("dbos._dbos.generate_uuid", lambda: executor_id):
        DBOS.launch()


def main() -> None:
    DBOS(
        config={
            "name": NAME,
            "system_database_url": os.environ["SYSTEM_DATABASE_URL"],
            "application_version": os.environ["APP_VERSION"],
            "conductor_url": os.environ["CONDUCTOR_URL"],
            "conductor_key": os.environ["CONDUCTOR_KEY"],
            "log_level": "INFO",
        }
    )
    launch(os.environ["EXECUTOR_ID"])
    say(f"ready {DBOS.executor_id}")
    for line in sys.stdin:
        command, *words = line.split()
        if command == "start":
            with SetWorkflowID(words[0]):
                DBOS.start_workflow(chain, int(words[1]), float(words[2]))
            say(f"started {words[0]}")
        elif command == "poison":
            with SetWorkflowID(words[0]):
                DBOS.start_workflow(poison, float(words[1]))
            say(f"started {words[0]}")
        elif command == "cancel":
            DBOS.cancel_workflow(words[0])
            say(f"cancelled {words[0]}")
        elif command == "wait":
            DBOS.retrieve_workflow(words[0]).get_result()
            say(f"finished {words[0]}")
        elif command == "stop":
            break
    DBOS.destroy()


if __name__ == "__main__":
    main()
