"""Everything that `dbosctl` asks for, in both modes, with a real executor behind it."""

from dataclasses import dataclass
from datetime import timedelta

import pytest

from tests.acceptance.cli import (
    COMMANDS,
    FAILURE,
    MISSING,
    OK,
    UNAUTHORISED,
    USAGE,
    Cli,
)
from tests.acceptance.environments import PYTHON
from tests.acceptance.processes import CLOCK, ExecutorProcess, RelayProcess, until
from tests.acceptance.stage import Stage

pytestmark = pytest.mark.acceptance

NEEDS_A_USER = {"whoami"}
"""Commands that a key cannot use: who calls is known of people only."""


@dataclass(frozen=True, slots=True)
class Office:
    """A Relay with one executor, and the command line of somebody who may do all."""

    relay: RelayProcess
    executor: ExecutorProcess
    cli: Cli


@pytest.fixture(params=["local", "keys"])
async def office(request: pytest.FixtureRequest, stage: Stage) -> Office:
    """In keys mode the executor comes in with a key that the command line made."""
    relay = await stage.relay(
        RELAY_AUTH=request.param, DBOS__METRICS_COLLECTION_PERIOD="1"
    )
    cli = Cli(str(relay.http.base_url), "loop")
    if request.param == "keys":
        cli.token = (await relay.command("key", "create", "--admin")).strip()
        relay.http.headers["Authorization"] = f"Bearer {cli.token}"
    await cli.succeed("app register", "loop")
    made = await cli.succeed("api-key create", "loop-key")
    executor = await stage.executor(
        PYTHON[0], "performer", relay=relay, key=made["token"]
    )
    # HEALTHY: from now on its versions are told at once.
    [version] = await cli.succeed("app versions", "loop")
    assert version["versionName"] == "v1"
    await executor.perform()
    return Office(relay, executor, cli)


async def test_every_command_works(office: Office) -> None:
    """About 40 s: each call that the command line makes is answered as documented."""
    cli = office.cli
    await _look_after_applications(office)
    await _look_at_workflows(cli)
    await _change_workflows(cli, office.executor)
    await _look_after_queues_and_schedules(cli)
    await _look_after_keys(cli)

    outcome = await cli.run("whoami")

    if cli.token:
        # An installation without an identity provider has no such path at all.
        assert outcome.code == MISSING, outcome
    else:
        assert outcome.answer == {"name": "local", "orgName": "local"}
    unused = set(COMMANDS) - cli.used
    assert unused == (NEEDS_A_USER if cli.token else set())


async def test_exit_codes_tell_what_went_wrong(stage: Stage) -> None:
    """0 well, 1 refused or failed, 2 wrong words, 3 no key, 4 nothing of that name."""
    relay = await stage.relay(RELAY_AUTH="keys")
    key = (await relay.command("key", "create", "--admin")).strip()
    cli = Cli(str(relay.http.base_url), "loop", token=key)
    reader = Cli(cli.url, "loop")
    made = await cli.succeed(
        "api-key create", "reader", permissions=["application.read"]
    )
    reader.token = made["token"]
    nobody = Cli(cli.url, "loop")
    stranger = Cli(cli.url, "loop", token=f"{key[:-8]}AAAAAAAA")
    abroad = Cli(cli.url, "loop", token=key, organisation="elsewhere")
    await cli.succeed("app register", "loop")

    codes = {
        "well": await reader.run("app list"),
        "no permission": await reader.run("app delete", "loop"),
        "nonsense": await cli.run("app update", "loop", executorTimeoutSecs=-1),
        "nobody to ask": await cli.run("workflow list"),
        "no field": await cli.run("app update", "loop"),
        "no word": await cli.run("workflow cancel"),
        "no key": await nobody.run("app list"),
        "unknown key": await stranger.run("app list"),
        "unknown application": await cli.run("app get", "none"),
        "unknown organisation": await abroad.run("app list"),
    }

    assert {name: outcome.code for name, outcome in codes.items()} == {
        "well": OK,
        "no permission": FAILURE,
        "nonsense": FAILURE,
        "nobody to ask": FAILURE,
        "no field": USAGE,
        "no word": USAGE,
        "no key": UNAUTHORISED,
        "unknown key": UNAUTHORISED,
        "unknown application": MISSING,
        "unknown organisation": MISSING,
    }
    assert codes["no field"].asked == codes["no word"].asked == 0
    await relay.kill()
    assert (await cli.run("app list")).code == FAILURE


async def _look_after_applications(office: Office) -> None:
    cli = office.cli
    assert (await cli.run("app list")).ids == ("loop",)
    await cli.succeed("app update", "loop", executorTimeoutSecs=42, privateMode=True)
    changed = await cli.succeed("app get", "loop")
    assert (changed["executorTimeoutSecs"], changed["privateMode"]) == (42, True)
    await cli.succeed("app update", "loop", privateMode=False)
    await cli.succeed("app register", "spare")
    assert await cli.succeed("app executors", "spare") == []
    await cli.succeed("app delete", "spare")
    assert (await cli.run("app list")).ids == ("loop",)
    assert (await cli.run("app get", "spare")).code == MISSING
    assert (await cli.run("app executors", "loop")).ids == (
        office.executor.executor_id,
    )
    assert (await cli.run("app versions", "loop")).ids == ("v1",)
    await cli.succeed("app set-version", "loop", versionName="v1")

    async def is_counted() -> bool:
        now = CLOCK.now()
        hour = {"startTime": now - timedelta(hours=1), "endTime": now}
        return bool(await cli.succeed("app metrics", "loop", **hour))

    await until("metrics have a row", is_counted, within=30)


async def _look_at_workflows(cli: Cli) -> None:
    everything = await cli.run("workflow list")
    assert {"story", "story-child", "failing", "queued"} <= {*everything.ids}
    assert len((await cli.run("workflow list", limit=1, offset=1)).ids) == 1
    old = await cli.run("workflow list", endTime=CLOCK.now() - timedelta(days=1))
    assert (old.code, old.ids) == (OK, ())
    story = await cli.succeed("workflow get", "story")
    assert story["status"] == "SUCCESS"
    assert len(await cli.succeed("workflow steps", "story")) >= 1
    [event] = await cli.succeed("workflow events", "story")
    assert event["key"] == "status"
    assert (await cli.run("workflow get", "none/of?them#")).code == MISSING


async def _change_workflows(cli: Cli, executor: ExecutorProcess) -> None:
    for name in ("one/1", "two", "three"):
        await executor.begin(name, steps=8, seconds=0.5)
    both = "two\nthree\n"

    await cli.succeed("workflow cancel", "one/1", cancelChildren=True)
    await cli.succeed("workflow cancel", "-", stdin=both)
    for name in ("one/1", "two", "three"):
        await _becomes(cli, name, "CANCELLED")
    cancelled = await cli.run("workflow list", status=["CANCELLED"])
    assert {*cancelled.ids} == {"one/1", "two", "three"}
    await cli.succeed("workflow resume", "one/1", queueName="jobs")
    await cli.succeed("workflow resume", "-", stdin=both)
    for name in ("one/1", "two", "three"):
        await _becomes(cli, name, "SUCCESS")

    forked = (await cli.succeed("workflow fork", "queued"))["workflowId"]
    assert forked != "queued"
    await _becomes(cli, forked, "SUCCESS")
    await cli.succeed("workflow delete", "story", deleteChildren=True)
    for name in ("story", "story-child"):
        assert (await cli.run("workflow get", name)).code == MISSING
    listed = await cli.run("workflow list")
    await cli.succeed("workflow delete", "-", stdin="\n".join(listed.ids))
    assert (await cli.run("workflow list")).ids == ()


async def _becomes(cli: Cli, workflow_id: str, status: str) -> None:
    async def look() -> bool:
        shown = await cli.succeed("workflow get", workflow_id)
        return bool(shown["status"] == status)

    await until(f"{workflow_id} is {status}", look, within=60)


async def _look_after_queues_and_schedules(cli: Cli) -> None:
    assert {"jobs", "shut"} <= {*(await cli.run("queue list")).ids}
    assert (await cli.succeed("queue get", "jobs"))["workerConcurrency"] == 2
    assert (await cli.run("queue get", "none")).code == MISSING
    assert (await cli.run("schedule list")).ids == ("hourly", "nightly")
    for command, status in (("pause", "PAUSED"), ("resume", "ACTIVE")):
        await cli.succeed(f"schedule {command}", "nightly")
        shown = await cli.succeed("schedule get", "nightly")
        assert shown["status"] == status
        assert (await cli.run(f"schedule {command}", "none")).code == MISSING
    triggered = await cli.succeed("schedule trigger", "nightly")
    await _becomes(cli, triggered["workflowId"], "SUCCESS")
    now = CLOCK.now()
    hour = {"startTime": now - timedelta(hours=1), "endTime": now}
    filled = await cli.succeed("schedule backfill", "hourly", **hour)
    assert len(filled["workflowIds"]) <= 1


async def _look_after_keys(cli: Cli) -> None:
    known = {"application.read", "websocket.connect"}
    assert known <= {*await cli.succeed("permission list")}
    made = await cli.succeed(
        "api-key create", "ci", appNames=["loop"], permissions=["application.read"]
    )
    assert made["token"].startswith("dbos_")
    listed = {row["tokenName"]: row for row in await cli.succeed("api-key list")}
    assert listed["ci"]["permissions"] == ["application.read"]
    assert len(listed["ci"]["appIds"]) == 1
    assert listed["loop-key"]["appIds"] == []
    await cli.succeed("api-key delete", "ci")
    assert "ci" not in (await cli.run("api-key list")).ids
