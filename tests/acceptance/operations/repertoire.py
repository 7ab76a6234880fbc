"""
One check an operation.

They run in this order on one executor that has performed: reads first, then what
changes. A check raises `AssertionError` when the operation does not work, returns a
remark when it works and differs, and nothing when there is nothing to say.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeAlias

from tests.acceptance.operations.api import APPLICATION, Api, instant
from tests.acceptance.processes import CLOCK, until

Check: TypeAlias = Callable[[Api], Awaitable[str | None]]

CHECKS: dict[str, Check] = {}
"""By operation, in the order in which they run."""


def checks(operation: str) -> Callable[[Check], Check]:
    """Make a function the check of `operation`."""

    def note(check: Check) -> Check:
        CHECKS[operation] = check
        return check

    return note


@checks("listWorkflows")
async def list_workflows(api: Api) -> None:
    shown = await api.call("GET", "workflows")
    assert {row["workflowId"] for row in shown} >= {
        "story",
        "story-child",
        "failing",
        "queued",
    }
    assert all(row["input"] is row["output"] is None for row in shown)
    [failing] = await api.call("GET", "workflows", params={"status": "ERROR"})
    assert failing["workflowId"] == "failing"


@checks("searchWorkflows")
async def search_workflows(api: Api) -> str | None:
    [failing] = await api.call(
        "POST", "workflows/search", {"status": ["ERROR"], "loadOutput": True}
    )
    assert "out of paper" in failing["error"]
    [child] = await api.call(
        "POST", "workflows/search", {"parentWorkflowId": ["story"]}
    )
    assert child["workflowId"] == "story-child"
    newest = await api.call("POST", "workflows/search", {"limit": 2, "sortDesc": True})
    assert len(newest) == 2
    first, second = (instant(row["createdAt"]) for row in newest)
    assert first >= second
    past = {"endTime": "2020-01-01T00:00:00.123456789+02:00"}
    assert await api.call("POST", "workflows/search", past) == []
    assert await api.call("POST", "workflows/search", {"workflowIds": ["none"]}) == []
    begun = await api.call("POST", "workflows/search", {"workflowIdPrefix": ["sto"]})
    stories = sorted(row["workflowId"] for row in begun)
    assert stories == ["story", "story-child"]
    guessed = await api.call("POST", "workflows/search", {"workflowIdPrefix": ["s_o"]})
    if sorted(row["workflowId"] for row in guessed) == stories:
        return "% and _ in a prefix are wildcards"
    assert guessed == []
    return None


@checks("getWorkflow")
async def get_workflow(api: Api) -> None:
    story = await api.workflow("story")
    assert story["status"] == "SUCCESS"
    assert "story" in story["input"]
    assert "story: rain" in story["output"]
    assert story["executorId"] == api.executor.executor_id
    assert instant(story["createdAt"]) <= instant(story["updatedAt"])
    queued = await api.workflow("queued")
    assert queued["queueName"] == "jobs"
    assert instant(queued["dequeuedAt"]) if queued["dequeuedAt"] else True
    await api.is_gone("nobody/knows?it#%25")


@checks("listWorkflowSteps")
async def list_steps(api: Api) -> None:
    steps = await api.call("GET", "workflows/story/steps")
    assert [step["stepId"] for step in steps] == sorted(
        step["stepId"] for step in steps
    )
    [work] = [step for step in steps if step["stepName"].endswith("work")]
    assert "story/1" in work["output"]
    assert "story-child" in {step["childWorkflowId"] for step in steps}
    two = await api.call(
        "GET", "workflows/story/steps", params={"limit": "2", "offset": "1"}
    )
    assert two == steps[1:3]


@checks("listWorkflowEvents")
async def list_events(api: Api) -> None:
    [event] = await api.call("GET", "workflows/story/events")
    assert event["key"] == "status"
    assert "told" in event["value"]
    assert await api.call("GET", "workflows/failing/events") == []


@checks("listWorkflowNotifications")
async def list_notifications(api: Api) -> None:
    [message] = await api.call("GET", "workflows/story/notifications")
    assert message["topic"] == "news"
    assert "rain" in message["message"]
    assert message["consumed"] is True
    assert instant(message["createdAt"]).year >= 2024


@checks("listWorkflowStreams")
async def list_streams(api: Api) -> None:
    [stream] = await api.call("GET", "workflows/story/streams")
    assert stream["key"] == "lines"
    assert ["once" in stream["values"][0], "upon a time" in stream["values"][1]] == [
        True,
        True,
    ]
    assert len(stream["values"]) == 2


@checks("getWorkflowAggregates")
async def get_workflow_aggregates(api: Api) -> None:
    rows = await api.call(
        "POST",
        "workflows/aggregates",
        {"groupByStatus": True, "selectCount": True, "workflowName": ["tell", "fail"]},
    )
    counts = {row["group"]["status"]: row["count"] for row in rows}
    assert counts == {"SUCCESS": 1, "ERROR": 1}
    refused = await api.send("POST", "workflows/aggregates", {"selectCount": True})
    assert refused.status_code == 422, refused.text


@checks("getStepAggregates")
async def get_step_aggregates(api: Api) -> None:
    rows = await api.call(
        "POST",
        "steps/aggregates",
        {"groupByFunctionName": True, "selectCount": True, "selectMaxDurationMs": True},
    )
    work = [row for row in rows if row["group"]["function_name"].endswith("work")]
    assert [row["count"] for row in work] == [4]


@checks("listMetrics")
async def list_metrics(api: Api) -> None:
    """The collection has asked for what `perform` did, and keeps it."""
    now = CLOCK.now()
    window = {
        "startTime": (now - timedelta(days=2)).isoformat(),
        "endTime": (now + timedelta(hours=1)).isoformat(),
    }

    async def look() -> bool:
        shown = await api.call("GET", "metrics", params=window)
        return {"tell", "fail"} <= {
            row["metricName"].rpartition(".")[2]
            for row in shown
            if row["metricType"] == "workflow_count" and row["value"] >= 1
        }

    await until("the workflows were counted", look, within=30)


@checks("listQueues")
async def list_queues(api: Api) -> None:
    shown = await api.call("GET", "queues")
    assert {queue["name"] for queue in shown} >= {"jobs", "shut"}


@checks("getQueue")
async def get_queue(api: Api) -> None:
    jobs = await api.call("GET", "queues/jobs")
    assert (jobs["workerConcurrency"], jobs["concurrency"]) == (2, None)
    shut = await api.call("GET", "queues/shut")
    assert (shut["rateLimitMax"], shut["rateLimitPeriodSecs"]) == (1, 3600)
    await api.call("GET", "queues/none", status=404)


@checks("listSchedules")
async def list_schedules(api: Api) -> None:
    shown = await api.call("GET", "schedules")
    assert [row["scheduleName"] for row in shown] == ["hourly", "nightly"]
    [nightly] = await api.call(
        "GET", "schedules", params={"scheduleNamePrefix": "night"}
    )
    assert nightly["scheduleName"] == "nightly"


@checks("getSchedule")
async def get_schedule(api: Api) -> str | None:
    nightly = await api.call("GET", "schedules/nightly")
    assert nightly["status"] == "ACTIVE"
    assert "hall" in nightly["context"]
    await api.call("GET", "schedules/none", status=404)
    if nightly["cronExpression"] == "0 0 3 * * *":
        return "a cron expression begins with the second"
    assert nightly["cronExpression"] == "0 3 * * *"
    return None


@checks("pauseSchedule")
async def pause_schedule(api: Api) -> None:
    await api.call("POST", "schedules/nightly/pause", status=204)
    assert (await api.call("GET", "schedules/nightly"))["status"] == "PAUSED"
    [paused] = await api.call("GET", "schedules", params={"status": "PAUSED"})
    assert paused["scheduleName"] == "nightly"
    await api.call("POST", "schedules/none/pause", status=404)


@checks("resumeSchedule")
async def resume_schedule(api: Api) -> None:
    await api.call("POST", "schedules/nightly/resume", status=204)
    assert (await api.call("GET", "schedules/nightly"))["status"] == "ACTIVE"
    await api.call("POST", "schedules/none/resume", status=404)


@checks("triggerSchedule")
async def trigger_schedule(api: Api) -> None:
    response = await api.send("POST", "schedules/nightly/trigger")
    assert response.status_code == 201, response.text
    workflow_id = response.json()["workflowId"]
    found = await api.relay.http.get(response.headers["location"])
    assert found.json()["workflowId"] == workflow_id
    await api.becomes(workflow_id, "SUCCESS", within=30)
    wanted = {"scheduleName": ["nightly"]}
    [of_schedule] = await api.call("POST", "workflows/search", wanted)
    assert of_schedule["workflowId"] == workflow_id
    assert of_schedule["scheduleName"] == "nightly"
    await api.call("POST", "schedules/none/trigger", status=404)


@checks("backfillSchedule")
async def backfill_schedule(api: Api) -> None:
    end = CLOCK.now().replace(minute=30) - timedelta(hours=2)
    body = {
        "startTime": (end - timedelta(hours=3)).isoformat(),
        "endTime": end.isoformat(),
    }
    shown = await api.call("POST", "schedules/hourly/backfill", body)
    assert len(set(shown["workflowIds"])) == 3
    await api.call("POST", "schedules/none/backfill", body, status=404)


@checks("listAppVersions")
async def list_versions(api: Api) -> None:
    [version] = await api.call("GET", "versions")
    assert version["versionName"] == "v1"
    assert instant(version["createdAt"]).year >= 2024


@checks("setLatestAppVersion")
async def set_latest_version(api: Api) -> None:
    await api.call("PATCH", "versions/latest", {"versionName": "v1"}, status=204)
    await api.call("PATCH", "versions/latest", {"versionName": "v0"}, status=404)
    assert (await api.call("GET", "versions"))[0]["versionName"] == "v1"


@checks("forkWorkflow")
async def fork_workflow(api: Api) -> None:
    response = await api.send("POST", "workflows/queued/fork", {})
    assert response.status_code == 201, response.text
    forked = response.json()["workflowId"]
    assert forked in response.headers["location"]
    await api.becomes(forked, "SUCCESS", within=30)
    assert (await api.workflow(forked))["forkedFrom"] == "queued"
    wanted = {"newWorkflowId": "fork/ü", "appVersion": "v1"}
    await api.call("POST", "workflows/queued/fork", wanted, status=201)
    await api.becomes("fork/ü", "SUCCESS", within=30)
    await api.call("POST", "workflows/none/fork", {}, status=404)


@checks("bulkForkWorkflowsFromFailure")
async def fork_from_failure(api: Api) -> str | None:
    path = "workflows/bulk-fork-from-failure"
    wanted = {"fromLastFailure": True, "appVersion": "v1"}
    shown = await api.call("POST", path, {"workflowIds": ["queued"], **wanted})
    [forked] = shown["workflowIds"]
    await api.becomes(forked, "SUCCESS", within=30)
    both = {"workflowIds": ["queued"], "fromLastFailure": True, "fromLastStep": True}
    refused = await api.send("POST", path, both)
    assert refused.status_code == 422, refused.text
    stepless = await api.send("POST", path, {"workflowIds": ["failing"], **wanted})
    if stepless.status_code == 422:
        assert "has no steps" in stepless.text, stepless.text
        return "a workflow without steps is refused"
    assert stepless.status_code == 200, stepless.text
    await api.becomes(stepless.json()["workflowIds"][0], "ERROR", within=30)
    return None


@checks("cancelWorkflow")
async def cancel_workflow(api: Api) -> None:
    await api.executor.begin("long/1", steps=8, seconds=0.5)
    await api.call("POST", "workflows/long%2F1/cancel", status=204)
    await api.becomes("long/1", "CANCELLED", within=30)
    await api.call("POST", "workflows/none/cancel", {}, status=204)


@checks("resumeWorkflow")
async def resume_workflow(api: Api) -> None:
    await api.call("POST", "workflows/long%2F1/resume", status=204)
    await api.becomes("long/1", "SUCCESS", within=60)


@checks("bulkCancelWorkflows")
async def bulk_cancel(api: Api) -> None:
    for name in ("long-2", "long-3"):
        await api.executor.begin(name, steps=8, seconds=0.5)
    ids = {"workflowIds": ["long-2", "long-3"], "cancelChildren": True}
    await api.call("POST", "workflows/bulk-cancel", ids, status=204)
    for name in ("long-2", "long-3"):
        await api.becomes(name, "CANCELLED", within=30)


@checks("bulkResumeWorkflows")
async def bulk_resume(api: Api) -> None:
    ids = {"workflowIds": ["long-2", "long-3"], "queueName": "jobs"}
    await api.call("POST", "workflows/bulk-resume", ids, status=204)
    for name in ("long-2", "long-3"):
        await api.becomes(name, "SUCCESS", within=60)


@checks("exportWorkflow")
async def export_workflow(api: Api) -> None:
    shown = await api.call("GET", "workflows/queued/export")
    assert len(shown["serializedWorkflow"]) > 50
    await api.call("GET", "workflows/none/export", status=404)


@checks("importWorkflow")
async def import_workflow(api: Api) -> None:
    exported = await api.call("GET", "workflows/queued/export")
    await api.call("POST", "workflows/import", exported, status=403)
    allowed = await api.relay.http.patch(
        f"/relay/v1/orgs/local/apps/{APPLICATION}/settings",
        json={"importsAllowed": True},
    )
    assert allowed.status_code == 204, allowed.text
    await api.call("DELETE", "workflows/queued", status=204)
    await api.is_gone("queued")
    await api.call("POST", "workflows/import", exported, status=201)
    assert (await api.workflow("queued"))["status"] == "SUCCESS"


@checks("deleteWorkflow")
async def delete_workflow(api: Api) -> None:
    await api.call(
        "DELETE", "workflows/story", status=204, params={"deleteChildren": "true"}
    )
    await api.is_gone("story")
    await api.is_gone("story-child")
    await api.call("DELETE", "workflows/none", status=204)


@checks("bulkDeleteWorkflows")
async def bulk_delete(api: Api) -> None:
    ids = {"workflowIds": ["long-2", "long-3", "none"]}
    await api.call("POST", "workflows/bulk-delete", ids, status=204)
    await api.is_gone("long-2")
    await api.is_gone("long-3")
