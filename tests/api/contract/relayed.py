"""
Calls of the operations that an executor answers, and what must be refused.

They are made in a house whose executor knows the workflows `done` and `running`, the
queue `jobs` and the schedule `nightly`.
"""

from typing import Any

ECHOED = {"$schema": "https://relay.example.org/schemas/Any.json"}
"""What a client sends back that it once got."""

SUCCESSES: dict[str, list[dict[str, Any]]] = {
    "listAppVersions": [{}],
    "setLatestAppVersion": [{"json": {**ECHOED, "versionName": "v1"}}],
    "listQueues": [{}],
    "getQueue": [{}],
    "listSchedules": [
        {},
        {
            "params": {
                "status": "",
                "workflowName": "",
                "scheduleNamePrefix": "night",
                "loadContext": "false",
            }
        },
    ],
    "getSchedule": [{}],
    "pauseSchedule": [{}],
    "resumeSchedule": [{}],
    "triggerSchedule": [{}],
    "backfillSchedule": [
        {
            "json": {
                **ECHOED,
                "startTime": "2026-01-01T00:00:00+02:00",
                "endTime": "2026-01-01T00:00:00.123456789Z",
            }
        }
    ],
    "listWorkflows": [
        {},
        {
            "params": {
                "status": "SUCCESS",
                "workflowName": "checkout",
                "limit": 9,
                "offset": 0,
                "sortDesc": "true",
                "loadInput": "true",
                "loadOutput": "false",
            }
        },
    ],
    "searchWorkflows": [
        {},
        {"json": {**ECHOED, "status": None, "workflowIds": ["done", ""]}},
        {
            "json": {
                "workflowName": ["checkout"],
                "startTime": "2026-01-01T00:00:00Z",
                "endTime": "2999-01-01T00:00:00Z",
                "hasParent": False,
                "wasForkedFrom": False,
                "attributes": {"a": [1, 2.5, None, {"b": "c"}]},
                "limit": 0,
                "offset": 0.0,
                "sortDesc": True,
                "queuesOnly": False,
                "loadInput": True,
                "loadOutput": True,
            }
        },
    ],
    "getWorkflow": [{}],
    "listWorkflowSteps": [{}, {"params": {"limit": 1, "offset": 0}}],
    "listWorkflowEvents": [{}],
    "listWorkflowNotifications": [{}],
    "listWorkflowStreams": [{}],
    "exportWorkflow": [{}, {"params": {"exportChildren": "true"}}],
    "importWorkflow": [{"json": {**ECHOED, "serializedWorkflow": "eA=="}}],
    "cancelWorkflow": [{}, {"json": {**ECHOED, "cancelChildren": True}}],
    "resumeWorkflow": [{}, {"json": {**ECHOED, "queueName": "jobs"}}],
    "forkWorkflow": [
        {},
        {
            "json": {
                **ECHOED,
                "startStep": 2,
                "appVersion": "v1",
                "newWorkflowId": "copy",
                "queueName": "jobs",
                "queuePartitionKey": "k",
            }
        },
    ],
    "deleteWorkflow": [{}, {"params": {"deleteChildren": "true"}}],
    "bulkCancelWorkflows": [
        {"json": {**ECHOED, "workflowIds": ["running", "done"]}},
        {"json": {"workflowIds": [], "cancelChildren": True}},
    ],
    "bulkResumeWorkflows": [
        {"json": {**ECHOED, "workflowIds": ["done"], "queueName": "jobs"}},
        {"json": {"workflowIds": []}},
    ],
    "bulkDeleteWorkflows": [
        {"json": {**ECHOED, "workflowIds": ["done"], "deleteChildren": True}},
        {"json": {"workflowIds": []}},
    ],
    "bulkForkWorkflowsFromFailure": [
        {"json": {**ECHOED, "workflowIds": ["done"], "fromLastFailure": True}},
        {"json": {"workflowIds": ["done"], "fromStep": 0, "fromLastStep": False}},
        {"json": {"workflowIds": ["done"], "fromStepName": "charge"}},
    ],
    "getWorkflowAggregates": [
        {"json": {**ECHOED, "groupByStatus": True, "status": None}},
        {
            "json": {
                "timeBucketSizeMs": 60_000,
                "selectCount": True,
                "selectMinCreatedAt": True,
                "selectMaxQueueWaitMs": True,
                "selectMaxTotalLatencyMs": True,
            }
        },
    ],
    "getStepAggregates": [
        {"json": {**ECHOED, "groupByFunctionName": True, "selectCount": True}},
        {"json": {"timeBucketSizeMs": 1, "status": ["SUCCESS"], "stepName": []}},
    ],
}

NAMED = {
    "workflowId": (
        *("getWorkflow", "listWorkflowSteps", "listWorkflowEvents"),
        *("listWorkflowNotifications", "listWorkflowStreams", "exportWorkflow"),
        *("resumeWorkflow", "forkWorkflow"),
    ),
    "queueName": ("getQueue",),
    "scheduleName": (
        *("getSchedule", "pauseSchedule", "resumeSchedule", "triggerSchedule"),
    ),
}
"""Operations on something that has to exist."""

_DAY = {"startTime": "2026-01-01T00:00:00Z", "endTime": "2026-01-02T00:00:00Z"}
_ONE = {"workflowIds": ["done"]}
BAD_VALUES: dict[str, list[Any]] = {
    "setLatestAppVersion": [{}, {"versionName": None}, {"versionName": " "}],
    "backfillSchedule": [
        {"startTime": _DAY["startTime"]},
        {**_DAY, "endTime": "2026-01-02"},
        {**_DAY, "endTime": "2026-02-30T00:00:00Z"},
        {**_DAY, "startTime": _DAY["endTime"]},
        {"startTime": _DAY["endTime"], "endTime": _DAY["startTime"]},
    ],
    "searchWorkflows": [
        {"limit": -1},
        {"offset": -1},
        {"limit": 2**53},
        {"limit": None},
        {"limit": 1.5},
        {"status": "SUCCESS"},
        {"status": [None]},
        {"user": ["a\0b"]},
        {"startTime": None},
        {"startTime": 0},
        {"hasParent": None},
        {"hasParent": "true"},
        {"sortDesc": None},
        {"loadInput": 1},
        {"attributes": None},
        {"attributes": []},
        {"attributes": {"a": 2**53}},
        {"attributes": {"a": "\0"}},
        {"attributes": {"\0": "a"}},
    ],
    "importWorkflow": [{}, {"serializedWorkflow": ""}, {"serializedWorkflow": "\0"}],
    "cancelWorkflow": [{"cancelChildren": None}, {"queueName": "jobs"}],
    "resumeWorkflow": [{"queueName": None}, {"queueName": 1}],
    "forkWorkflow": [
        {"startStep": -1},
        {"startStep": 2**30},
        {"startStep": None},
        {"newWorkflowId": None},
        {"newWorkflowId": "a\0"},
    ],
    "bulkCancelWorkflows": [{}, {"workflowIds": None}, {"workflowIds": ["", "a"]}],
    "bulkResumeWorkflows": [{}, {**_ONE, "queueName": None}],
    "bulkDeleteWorkflows": [{}, {**_ONE, "deleteChildren": None}],
    "bulkForkWorkflowsFromFailure": [
        {},
        _ONE,
        {**_ONE, "fromLastFailure": False, "fromStepName": ""},
        {**_ONE, "fromLastFailure": True, "fromLastStep": True},
        {**_ONE, "fromLastFailure": True, "fromStep": 0},
        {**_ONE, "fromStep": 0, "fromStepName": "charge"},
        {**_ONE, "fromStep": -1},
        {**_ONE, "fromStep": 2**31},
        {"fromLastStep": True, "workflowIds": None},
    ],
    "getWorkflowAggregates": [
        {},
        {"selectCount": True},
        {"groupByStatus": False},
        {"groupByStatus": None},
        {"timeBucketSizeMs": 0},
        {"timeBucketSizeMs": -1},
        {"timeBucketSizeMs": None},
    ],
    "getStepAggregates": [
        {},
        {"timeBucketSizeMs": 0},
        {"groupByStatus": True, "status": None},
        {"groupByStatus": True, "stepName": None},
        {"groupByStatus": True, "workflowIdPrefix": None},
    ],
}
"""Bodies of the right form with something in them that cannot be meant."""

BAD_QUERIES: dict[str, list[tuple[str, Any]]] = {
    "listWorkflows": [
        ("limit", -1),
        ("limit", "many"),
        ("offset", -1),
        ("sortDesc", "yes"),
        ("loadInput", "1"),
        ("loadOutput", ""),
    ],
    "listWorkflowSteps": [("limit", -1), ("offset", "1.0")],
    "listSchedules": [("loadContext", "no")],
    "exportWorkflow": [("exportChildren", "all")],
    "deleteWorkflow": [("deleteChildren", "all")],
}
