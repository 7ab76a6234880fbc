"""The demo itself."""

import asyncio
import os
import signal
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx

from demo.app import STEPS
from demo.stage import (
    APPLICATION,
    CLOCK,
    DemoFailedError,
    Executor,
    Stage,
    open_stage,
    until,
)
from demo.verdict import judge

LIMIT = timedelta(seconds=120)
WORKFLOW = "order-1"
KILLED_IN = "pack"

MEANING = {
    "executor.connect": "HEALTHY: connected",
    "executor.disconnect": "DISCONNECTED: its socket ended, the grace period runs",
    "executor.dead": "DEAD: it did not come back in time",
    "recovery.order": "its work was ordered from {target}",
    "recovery.verify": "verified: nothing of it is pending any more",
    "recovery.fail": "not yet: {reason}",
    "recovery.strand": "nobody runs its version: {reason}",
    "executor.delete": "record deleted",
}

SHOWN_FACTS = (
    "application_name",
    "executor_id",
    "app_version",
    "executor_timeout_secs",
    "reason",
    "grace_secs",
    "target",
    "pending_count",
    "pending_ids",
)


class Narrator:
    """Prints what happens, with the seconds since the demo began."""

    def __init__(self, stage: Stage, http: httpx.AsyncClient) -> None:
        self._stage = stage
        self._http = http
        self._began = CLOCK.monotonic()
        self._names: dict[str, str] = {}
        self._told_entries: set[str] = set()
        self._told_steps = 0
        self.operations: list[str] = []

    def say(self, text: str) -> None:
        sys.stdout.write(f"{CLOCK.monotonic() - self._began:6.1f} s  {text}\n")
        sys.stdout.flush()

    def introduce(self, executor: Executor) -> None:
        """Call the executor by its name from now on."""
        self._names[executor.id] = f"executor {executor.name}"

    def name_in(self, value: object) -> str:
        """`value` as text, with the name of the executor if it is the id of one."""
        text = str(value)
        name = self._names.get(text, "").removeprefix("executor ")
        return f"{name}({text[:8]})" if name else text

    async def tell_news(self) -> None:
        """Print every audit entry and step that is new."""
        for entry in reversed(await self.read_audit()):
            if entry["id"] in self._told_entries:
                continue
            self._told_entries.add(entry["id"])
            if text := self._describe(entry):
                self.say(text)
        steps = self._stage.read_steps()
        for event, step, name in steps[self._told_steps :]:
            done = "is in step" if event == "begin" else "finished step"
            self.say(f"    executor {name} {done} {step!r}")
        self._told_steps = len(steps)

    async def read_audit(self) -> list[dict[str, Any]]:
        """The audit log, newest first."""
        answer = await self._http.get("/v2/orgs/local/audit-logs")
        answer.raise_for_status()
        entries: list[dict[str, Any]] = answer.json()
        return entries

    def _describe(self, entry: dict[str, Any]) -> str | None:
        operation = entry["operation"]
        self.operations.append(operation)
        if operation not in MEANING:
            return None
        details = entry["details"] or {}
        who = self._names.get(details.get("executor_id", ""), "executor ?")
        target = details.get("target", "")
        facts = {"reason": "", **details, "target": self._names.get(target, target)}
        return f"{who}: {MEANING[operation].format(**facts)}"


async def play(stage: Stage, http: httpx.AsyncClient) -> None:
    """The whole story; raises when it does not end well."""
    narrator = Narrator(stage, http)
    narrator.say(f"starting Relay on {stage.url}, data in {stage.directory}")
    await stage.start_relay(http)
    executors = []
    for name in ("A", "B"):
        executor = await stage.start_executor(name)
        executors.append(executor)
        narrator.introduce(executor)
        narrator.say(f"started executor {name} (id {executor.id})")
        await _tell_until(narrator, f"{name} is HEALTHY", _is_healthy(http, executor))
    doomed, heir = executors

    (await http.patch(APPLICATION, json={"executorTimeoutSecs": 3})).raise_for_status()
    narrator.say("PATCHed executorTimeoutSecs to 3")
    await doomed.start_workflow(WORKFLOW)
    narrator.say(f"started workflow {WORKFLOW!r} on executor A: {', '.join(STEPS)}")

    async def is_working() -> bool:
        return ("begin", KILLED_IN, "A") in stage.read_steps()

    await _tell_until(narrator, f"A is in step {KILLED_IN}", is_working)
    await CLOCK.sleep(timedelta(seconds=0.5))
    await doomed.kill()
    recorded = STEPS[: stage.read_workflow(WORKFLOW)[1]]
    narrator.say(f"SIGKILL to executor A in the middle of step {KILLED_IN!r}")
    narrator.say(f"    recorded by DBOS at this moment: {', '.join(recorded)}")

    async def has_ended() -> bool:
        return stage.read_workflow(WORKFLOW)[0] == "SUCCESS"

    async def is_forgotten() -> bool:
        return doomed.id not in await _statuses(http)

    await _tell_until(narrator, "the workflow is SUCCESS", has_ended)
    narrator.say(f"workflow {WORKFLOW!r}: SUCCESS")
    await _tell_until(narrator, "the record of A is deleted", is_forgotten)
    await _tell_until(narrator, "its audit entry is there", _has_told(narrator))
    _show_steps(stage)
    await _show_audit(narrator)
    judge(
        status=stage.read_workflow(WORKFLOW)[0],
        planned=STEPS,
        recorded=recorded,
        noted=stage.read_steps(),
        doomed=doomed.name,
        heir=heir.name,
    )


def _show_steps(stage: Stage) -> None:
    sys.stdout.write("\nWho ran which step:\n")
    for step in STEPS:
        runs = [
            f"{name} {'finished it' if ('end', step, name) in lines else 'was killed'}"
            for lines in [stage.read_steps()]
            for event, noted, name in lines
            if (event, noted) == ("begin", step)
        ]
        sys.stdout.write(f"  {step:<10} {', then '.join(runs)}\n")


async def _show_audit(narrator: Narrator) -> None:
    sys.stdout.write("\nThe audit log, oldest first (GET /v2/orgs/local/audit-logs):\n")
    for entry in reversed(await narrator.read_audit()):
        facts = " ".join(
            f"{key}={narrator.name_in(value)}"
            for key, value in (entry["details"] or {}).items()
            if key in SHOWN_FACTS
        )
        sys.stdout.write(
            f"  {entry['emitTime'][11:23]}  {entry['operation']:<20}"
            f"  {entry['status']:<7}  by {entry['subject']['display']:<5}  {facts}\n"
        )


async def _tell_until(narrator: Narrator, what: str, look: Any) -> None:
    async def tell_and_look() -> bool:
        await narrator.tell_news()
        return bool(await look())

    await until(what, tell_and_look)


def _is_healthy(http: httpx.AsyncClient, executor: Executor) -> Any:
    async def look() -> bool:
        return (await _statuses(http)).get(executor.id) == "HEALTHY"

    return look


def _has_told(narrator: Narrator) -> Any:
    async def look() -> bool:
        return "executor.delete" in narrator.operations

    return look


async def _statuses(http: httpx.AsyncClient) -> dict[str, str]:
    answer = await http.get(f"{APPLICATION}/executors")
    if answer.status_code == 404:
        return {}
    answer.raise_for_status()
    return {row["executorId"]: row["status"] for row in answer.json()}


async def main() -> int:
    """Play it in a directory of its own; the exit status."""
    with tempfile.TemporaryDirectory(prefix="relay-demo-") as directory:
        async with open_stage(Path(directory)) as stage:
            async with httpx.AsyncClient(base_url=stage.url, trust_env=False) as http:
                try:
                    async with CLOCK.timeout(LIMIT):
                        await play(stage, http)
                except (DemoFailedError, TimeoutError, httpx.HTTPError) as error:
                    reason = str(error) or f"not finished after {LIMIT}"
                    sys.stdout.write(f"\nFAILED: {reason}\n")
                    _show_logs(stage)
                    return 1
    sys.stdout.write(
        "\nThe workflow ended SUCCESS on executor B, and no finished step ran twice.\n"
    )
    return 0


def _show_logs(stage: Stage) -> None:
    for log in sorted(stage.directory.glob("*.log")):
        tail = log.read_text(errors="replace").splitlines()[-30:]
        sys.stdout.write(f"\n--- {log.name}\n" + "\n".join(tail) + "\n")


if __name__ == "__main__":
    try:
        status = asyncio.run(main())
        sys.stdout.flush()
    except KeyboardInterrupt:
        status = 128 + signal.SIGINT
    except BrokenPipeError:
        # Whoever read it has seen enough. What is still buffered goes nowhere, or the
        # interpreter would complain at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 128 + signal.SIGPIPE
    sys.exit(status)
