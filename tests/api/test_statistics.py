"""Workflows and steps, counted by an executor."""

from typing import Any

import pytest

from tests.api.house import House, problem

APP = "/v2/orgs/local/apps/shop"
WORKFLOWS, STEPS = f"{APP}/workflows/aggregates", f"{APP}/steps/aggregates"


@pytest.fixture
async def shop(house: House) -> House:
    """A house with the application `shop`."""
    await house.register("shop")
    return house


async def test_groups_keep_the_keys_of_the_executor(shop: House) -> None:
    """What was not selected is absent, and a group may be null."""
    shop.executors.replies["get_workflow_aggregates"] = {
        "output": [
            {
                "group": {"queue_name": None, "time_bucket": "1767225600000"},
                "count": 3,
                "min_created_at": 1_767_225_600_000,
                "max_queue_wait_ms": None,
                "max_total_latency_ms": 12,
            }
        ]
    }

    response = await shop.client.post(WORKFLOWS, json={"groupByQueueName": True})

    assert response.json() == [
        {
            "group": {"queue_name": None, "time_bucket": "1767225600000"},
            "count": 3,
            "minCreatedAt": "2026-01-01T00:00:00.000Z",
            "maxTotalLatencyMs": 12,
        }
    ]


async def test_counting_workflows_passes_everything_on(shop: House) -> None:
    """Each flag is sent, also those that are off."""
    await shop.client.post(
        WORKFLOWS,
        json={
            "groupByWorkflowName": True,
            "groupByAppVersion": True,
            "selectMaxQueueWaitMs": True,
            "timeBucketSizeMs": 60_000,
            "status": ["SUCCESS"],
            "workflowIds": None,
            "startTime": "2026-01-01T00:00:00Z",
            "attributes": {"tier": "gold"},
        },
    )

    [asked] = shop.executors.received("get_workflow_aggregates")
    assert asked["body"] == {
        "group_by_status": False,
        "group_by_name": True,
        "group_by_queue_name": False,
        "group_by_executor_id": False,
        "group_by_application_version": True,
        "group_by_application_name": False,
        "select_count": False,
        "select_min_created_at": False,
        "select_max_queue_wait_ms": True,
        "select_max_total_latency_ms": False,
        "time_bucket_size_ms": 60_000,
        "status": ["SUCCESS"],
        "start_time": "2026-01-01T00:00:00.000+00:00",
        "attributes": {"tier": "gold"},
        "application_name": ["shop"],
    }


async def test_counting_steps_passes_everything_on(shop: House) -> None:
    """The name of a step is another word to executors."""
    response = await shop.client.post(
        STEPS,
        json={
            "groupByFunctionName": True,
            "selectMaxDurationMs": True,
            "stepName": ["charge", ""],
            "status": [],
            "completedBefore": "2026-01-01T00:00:00Z",
        },
    )

    assert response.json() == [
        {"group": {"function_name": "charge", "status": "SUCCESS"}, "count": 1}
    ]
    [asked] = shop.executors.received("get_step_aggregates")
    assert asked["body"] == {
        "group_by_function_name": True,
        "group_by_status": False,
        "select_count": False,
        "select_max_duration_ms": True,
        "function_name": ["charge"],
        "completed_before": "2026-01-01T00:00:00.000+00:00",
        "application_name": ["shop"],
    }


@pytest.mark.parametrize("path", [WORKFLOWS, STEPS])
async def test_bucket_alone_is_enough(shop: House, path: str) -> None:
    """Something has to tell one group from another."""
    response = await shop.client.post(path, json={"timeBucketSizeMs": 1000.0})

    assert response.status_code == 200
    [asked] = shop.executors.requests
    assert asked["body"]["time_bucket_size_ms"] == 1000


@pytest.mark.parametrize("path", [WORKFLOWS, STEPS])
@pytest.mark.parametrize(
    ("body", "location"),
    [
        (None, "body"),
        ({}, "body"),
        ({"selectCount": True}, "body"),
        ({"groupByStatus": False}, "body"),
        ({"timeBucketSizeMs": 0}, "body.timeBucketSizeMs"),
        ({"timeBucketSizeMs": -1, "groupByStatus": True}, "body.timeBucketSizeMs"),
    ],
)
async def test_nothing_to_group_by_is_refused(
    shop: House, path: str, body: Any, location: str
) -> None:
    """Before an executor is asked."""
    response = await shop.client.post(path, json=body)

    [flaw] = problem(response, 422)["errors"]
    assert flaw["location"] == location
    assert shop.executors.requests == []
