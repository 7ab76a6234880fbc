"""
A DBOS Python application for the acceptance tests; runs on SDK 2.31 and 3.2.

It is started by `processes.ExecutorProcess` in an environment of its own, and so
imports nothing of Relay. Commands come in on stdin, one a line::

    start <workflow id> <steps> <seconds>     start a workflow
    poison <workflow id> <seconds>            start one that kills its process
    family <workflow id> <steps> <seconds>    start one that awaits a child with steps
    pair <workflow id> <seconds>              start one with two steps at once
    enqueue <workflow id> <seconds> <delay>   put one into `jobs`, after `perform`
    cancel <workflow id>                      cancel a workflow
    send <workflow id> <text>                 send a workflow a message
    wait <workflow id>                        print "finished <workflow id>" at its end
    perform                                   have one of everything, see `perform`
    stop                                      the SDK's own shutdown

Facts go out on stdout (`ready <executor id>`, `started …`, `cancelled …`, `sent …`,
`finished …`, `performed`), and each execution of a step is appended to the file of
`STEP_LOG` at its start and at its end.
"""

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress
from datetime import datetime
from unittest.mock import patch

from dbos import DBOS, Queue, SetEnqueueOptions, SetWorkflowID

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


@DBOS.workflow()
def parent(steps: int, seconds: float) -> None:
    """It awaits the child between its own two steps."""
    workflow = DBOS.workflow_id
    assert workflow is not None
    work(workflow, 1, 0.0)
    with SetWorkflowID(f"{workflow}-child"):
        child = DBOS.start_workflow(chain, steps, seconds)
    child.get_result()
    work(workflow, 2, 0.0)


@DBOS.step()
async def work_beside(workflow: str, step: int, seconds: float) -> None:
    note("begin", workflow, step)
    await asyncio.sleep(seconds)  # noqa: TID251 - the program under test, not Relay
    note("end", workflow, step)


@DBOS.workflow()
async def pair(seconds: float) -> None:
    """Its second step is recorded before its first; a third follows both."""
    workflow = DBOS.workflow_id
    assert workflow is not None
    await asyncio.gather(
        work_beside(workflow, 1, seconds), work_beside(workflow, 2, 0.0)
    )
    await work_beside(workflow, 3, 0.0)


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


@DBOS.workflow()
def tell(title: str) -> str:
    """A workflow with everything a workflow can have."""
    work(title, 1, 0.0)
    DBOS.set_event("status", "told")
    DBOS.write_stream("lines", "once")
    DBOS.write_stream("lines", "upon a time")
    DBOS.close_stream("lines")
    with SetWorkflowID(f"{title}-child"):
        chain(1, 0.0)
    heard = DBOS.recv("news", timeout_seconds=10)
    return f"{title}: {heard}"


@DBOS.workflow()
def fail() -> None:
    raise ValueError("out of paper")


@DBOS.workflow()
def tick(scheduled_at: datetime, context: object) -> None:
    pass


def register_jobs() -> Queue:
    return DBOS.register_queue("jobs", worker_concurrency=2)


def perform() -> None:
    """
    Have one of everything in the database.

    The workflows `story` (with `story-child`), `failing` and `queued`, the queues
    `jobs` and `shut`, the schedules `nightly` and `hourly`.
    """
    jobs = register_jobs()
    DBOS.register_queue(
        "shut", limiter={"limit": 1, "period": 3600.0}, polling_interval_sec=2.0
    )
    DBOS.create_schedule(
        schedule_name="nightly",
        workflow_fn=tick,
        schedule="0 3 * * *",
        context={"hall": 7},
    )
    DBOS.create_schedule(schedule_name="hourly", workflow_fn=tick, schedule="0 * * * *")
    with SetWorkflowID("story"):
        story = DBOS.start_workflow(tell, "story")
    DBOS.send("story", "rain", "news")
    with SetWorkflowID("failing"):
        failing = DBOS.start_workflow(fail)
    with SetWorkflowID("queued"):
        queued = jobs.enqueue(chain, 2, 0.0)
    story.get_result()
    queued.get_result()
    with suppress(ValueError):
        failing.get_result()


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
        elif command == "family":
            with SetWorkflowID(words[0]):
                DBOS.start_workflow(parent, int(words[1]), float(words[2]))
            say(f"started {words[0]}")
        elif command == "pair":
            with SetWorkflowID(words[0]):
                DBOS.start_workflow(pair, float(words[1]))
            say(f"started {words[0]}")
        elif command == "enqueue":
            delay = float(words[2])
            with (
                SetWorkflowID(words[0]),
                SetEnqueueOptions(delay_seconds=delay or None),
            ):
                register_jobs().enqueue(chain, 1, float(words[1]))
            say(f"started {words[0]}")
        elif command == "cancel":
            DBOS.cancel_workflow(words[0])
            say(f"cancelled {words[0]}")
        elif command == "send":
            DBOS.send(words[0], words[1], "news")
            say(f"sent {words[0]}")
        elif command == "wait":
            DBOS.retrieve_workflow(words[0]).get_result()
            say(f"finished {words[0]}")
        elif command == "perform":
            perform()
            say("performed")
        elif command == "stop":
            break
    DBOS.destroy()


if __name__ == "__main__":
    main()
