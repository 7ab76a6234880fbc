"""
What Relay serves, as one document for Schemathesis.

The two served documents, the contract and Relay's own, are read over HTTP and joined.
Two things are added that the test knows better than they do: for each operation the
error statuses it may answer, in the place of the one `default`, and the links.
"""

from copy import deepcopy

import requests

from relay_api.contract import Document, list_operations
from tests.api.contract.expected import COMMON_ERRORS, EXPECTED, TRANSPORT_ERRORS

READS_BODY = TRANSPORT_ERRORS - {405}
"""What a request may be refused with for its body."""

OWN_ERRORS: dict[str, set[int]] = {
    "getRelaySettings": set(),
    "updateRelaySettings": {400},
    "listRelayExecutors": set(),
    "listAuditLogsV1alpha1": {400},
    "listRecoveries": {400},
    "orderRecovery": {400, 409},
    "getRecovery": set(),
    "retryRecovery": {400, 409},
    "abandonRecovery": {400, 409},
    "migrateRecovery": {400, 409, 502, 503},
    "getMigration": set(),
    "getCensus": set(),
    "diagnoseWorkflow": {502, 503},
    "getAttention": {400, 502, 503},
    "getVersionDrain": set(),
    "getRelayMetrics": set(),
    "getHealth": set(),
    "getReadiness": set(),
}
"""Errors of Relay's own operations beyond the common ones; kept by hand."""


def errors_of(operation_id: str) -> frozenset[int]:
    """
    The statuses with which an operation may refuse a request.

    Of 5xx only 503, where an executor is asked: there may be none, or none any more.
    """
    if operation_id in EXPECTED:
        statuses = EXPECTED[operation_id].errors
    else:
        statuses = COMMON_ERRORS | READS_BODY | OWN_ERRORS[operation_id]
    return frozenset(status for status in statuses if status < 500 or status == 503)


APPLICATION = {"appName": "$request.path.appName"}
FIRST_APPLICATION = {"appName": "$response.body#/0/name"}
ABOUT_APPLICATIONS = (
    *("getApp", "updateApp", "registerApp", "deleteApp", "listExecutors"),
    *("getRelaySettings", "updateRelaySettings", "listRelayExecutors"),
    *("orderRecovery", "listRecoveries", "getCensus", "listMetrics"),
)
ABOUT_WORK = (
    *("listWorkflows", "searchWorkflows", "getWorkflow", "deleteWorkflow"),
    *("listWorkflowSteps", "listWorkflowEvents", "listWorkflowNotifications"),
    *("listWorkflowStreams", "exportWorkflow", "importWorkflow"),
    *("cancelWorkflow", "resumeWorkflow", "forkWorkflow"),
    *("bulkCancelWorkflows", "bulkResumeWorkflows", "bulkDeleteWorkflows"),
    *("bulkForkWorkflowsFromFailure", "getWorkflowAggregates", "getStepAggregates"),
    *("listQueues", "getQueue", "listAppVersions", "setLatestAppVersion"),
    *("listSchedules", "getSchedule", "pauseSchedule", "resumeSchedule"),
    *("triggerSchedule", "backfillSchedule"),
    *("diagnoseWorkflow", "getAttention", "getVersionDrain"),
)
"""What an executor of the application is asked."""
ABOUT_RECOVERIES = (
    *("getRecovery", "retryRecovery", "abandonRecovery"),
    *("migrateRecovery", "getMigration"),
)
WITHOUT_NAMES = (
    *("registerApp", "createToken", "listApps", "listTokens", "listPermissions"),
    *("listAuditLogs", "listAuditLogsV1alpha1"),
    *("getRelayMetrics", "getHealth", "getReadiness"),
)

Link = tuple[str, dict[str, str]]

LINKS: dict[str, list[Link]] = {
    "listApps": [
        *((name, FIRST_APPLICATION) for name in (*ABOUT_APPLICATIONS, *ABOUT_WORK)),
        *((name, {}) for name in WITHOUT_NAMES),
    ],
    "registerApp": [(name, APPLICATION) for name in ABOUT_APPLICATIONS],
    "getApp": [("updateApp", APPLICATION), ("listExecutors", APPLICATION)],
    "updateApp": [("getApp", APPLICATION), ("updateApp", APPLICATION)],
    "getRelaySettings": [
        (name, APPLICATION) for name in ("updateApp", "updateRelaySettings")
    ],
    "updateRelaySettings": [("getRelaySettings", APPLICATION)],
    "deleteApp": [(name, APPLICATION) for name in ("getApp", "registerApp")],
    "createToken": [
        ("deleteToken", {"tokenName": "$response.body#/tokenName"}),
        ("createToken", {"tokenName": "$request.path.tokenName"}),
        ("listTokens", {}),
    ],
    "listTokens": [
        ("deleteToken", {"tokenName": "$response.body#/0/tokenName"}),
        ("createToken", {"tokenName": "$response.body#/0/tokenName"}),
    ],
    "deleteToken": [
        ("createToken", {"tokenName": "$request.path.tokenName"}),
        ("deleteToken", {"tokenName": "$request.path.tokenName"}),
    ],
    "listExecutors": [
        (name, APPLICATION) for name in ("listRelayExecutors", "orderRecovery")
    ],
    "listRecoveries": [
        (name, {**APPLICATION, "recoveryId": "$response.body#/0/id"})
        for name in ABOUT_RECOVERIES
    ],
    "orderRecovery": [("listRecoveries", APPLICATION), ("deleteApp", APPLICATION)],
    "abandonRecovery": [("orderRecovery", APPLICATION)],
    "getMigration": [(name, APPLICATION) for name in ("listMetrics", "listRecoveries")],
    "listWorkflows": [(name, APPLICATION) for name in ABOUT_WORK],
    "listAppVersions": [("setLatestAppVersion", APPLICATION)],
    "getAttention": [
        (
            "diagnoseWorkflow",
            {**APPLICATION, "workflowId": "$response.body#/items/0/workflowId"},
        )
    ],
    "getVersionDrain": [("getAttention", APPLICATION)],
    "forkWorkflow": [
        (name, {**APPLICATION, "workflowId": "$response.body#/workflowId"})
        for name in ("getWorkflow", "listWorkflowSteps", "cancelWorkflow")
    ],
    "triggerSchedule": [
        ("getWorkflow", {**APPLICATION, "workflowId": "$response.body#/workflowId"})
    ],
}
"""Which operations may follow a success, beyond the links that are served."""

NAME = {"type": "string", "pattern": "^[a-z][a-z0-9_-]{2,19}$"}
TEXT = {"type": "string", "pattern": "^[!-~]{1,20}$"}
MILLISECONDS = {"type": ["integer", "null"], "minimum": 0, "maximum": 10**11}
COUNT = {"type": "integer", "minimum": 0, "maximum": 1000}
TEXTS = {"type": "array", "items": TEXT}


GOOD_PARAMETERS: Document = {
    "appName": {"type": "string", "enum": ["shop", "shoe"]},
    "tokenName": NAME,
    "recoveryId": {"type": "string", "enum": ["lost"]},
    **dict.fromkeys(("operation", "subject", "target"), TEXT),
    **dict.fromkeys(("status", "workflowName", "scheduleNamePrefix"), TEXT),
    "workflowId": {"type": "string", "enum": ["done"]},
    "queueName": {"type": "string", "enum": ["jobs"]},
    "scheduleName": {"type": "string", "enum": ["nightly"]},
    "limit": {"type": "integer", "minimum": 1, "maximum": 1000},
    "offset": {"type": "integer", "minimum": 0, "maximum": 2**53 - 1},
}
GOOD_PROPERTIES: Document = {
    "executorId": TEXT,
    "appVersion": TEXT,
    "reason": TEXT,
    "appNames": {"type": "null"},  # whatever it named may be deleted by now
    "permissions": {
        "type": ["array", "null"],
        "items": {"enum": ["application.read", "token.read", "websocket.connect"]},
    },
    "executorTimeoutSecs": {"type": "integer", "minimum": 1, "maximum": 10**8},
    "gcTimeThresholdMs": MILLISECONDS,
    "globalTimeoutMs": MILLISECONDS,
    "gcRowsThreshold": {"type": ["integer", "null"], "minimum": 0, "maximum": 10**9},
    **dict.fromkeys(("limit", "offset"), COUNT),
    "startStep": COUNT,
    "workflowIds": {"type": "array", "items": {"enum": ["done"]}},
    "attributes": {"type": "object", "additionalProperties": TEXT},
    "versionName": {"type": "string", "enum": ["v1"]},
    "timeBucketSizeMs": {"type": "integer", "minimum": 1, "maximum": 10**12},
    **dict.fromkeys(("newWorkflowId", "queueName", "queuePartitionKey"), TEXT),
    **dict.fromkeys(("user", "status", "forkedFrom", "parentWorkflowId"), TEXT),
    **dict.fromkeys(("scheduleName", "workflowIdPrefix", "workflowName"), TEXT),
    "stepName": TEXT,
    "serializedWorkflow": TEXT,
}
"""Values that must be accepted where the documents promise more than can be."""

GOOD_OPERATIONS: dict[str, Document] = {
    "getWorkflowAggregates": {"groupByStatus": {"const": True}},
    "getStepAggregates": {"groupByStatus": {"const": True}},
    "bulkForkWorkflowsFromFailure": {
        "fromLastFailure": {"const": True},
        "fromLastStep": {"const": False},
        **dict.fromkeys(("fromStep", "fromStepName")),
    },
    "migrateRecovery": {"appVersion": {"const": "v1"}},
    "backfillSchedule": {
        "startTime": {"const": "2026-01-01T00:00:00Z"},
        "endTime": {"const": "2026-01-02T00:00:00Z"},
    },
}
"""Properties that belong together: these are sent, and `None` are not."""


def read_surface(url: str, session: requests.Session) -> Document:
    """The operations that the server at `url` answers, in one document."""
    contract, own = (
        session.get(f"{url}{path}").json()
        for path in ("/openapi.json", "/relay/v1/openapi.json")
    )
    for path, method, operation in list_operations(contract):
        if operation.get("x-relay-served") is False:
            del contract["paths"][path][method.lower()]
    schemas = (document["components"]["schemas"] for document in (own, contract))
    surface: Document = {
        **contract,
        "paths": {**own["paths"], **{k: v for k, v in contract["paths"].items() if v}},
        "components": {
            **contract["components"],
            "schemas": {k: v for each in schemas for k, v in each.items()},
        },
    }
    # Who may do what is tested elsewhere; Schemathesis would mostly forget its key.
    del surface["security"], surface["components"]["securitySchemes"]
    for _, _, operation in list_operations(surface):
        operation.pop("security", None)
        _name_statuses(operation)
    return surface


def about_work(surface: Document) -> Document:
    """The part of the surface that executors answer, and what may stop them."""
    return _keep(surface, {*ABOUT_WORK, "listApps", "updateApp", "deleteApp"})


def about_relay(surface: Document) -> Document:
    """The rest of it: what Relay answers by itself."""
    return _keep(surface, _list_ids(surface) - set(ABOUT_WORK))


def walkable(surface: Document) -> Document:
    """
    The surface to walk about in: in one organization, with links, and so that what is
    valid by it is accepted.
    """
    surface = deepcopy(surface)
    served = _list_ids(surface)
    surface["paths"] = {
        path.replace("{orgName}", "local"): item
        for path, item in surface["paths"].items()
    }
    for _, _, operation in list_operations(surface):
        operation["parameters"] = [
            {**each, "schema": GOOD_PARAMETERS.get(each["name"], each["schema"])}
            for each in operation.get("parameters", [])
            if each["name"] != "orgName"
        ]
        if operation["operationId"] in ABOUT_WORK:
            # Only this one has an executor.
            _set_parameter(operation, "appName", {"type": "string", "enum": ["shop"]})
        if operation["operationId"] == "deleteWorkflow":
            # Gone for good, and gone once more: no SDK tells the difference.
            _set_parameter(operation, "workflowId", TEXT)
        if operation["operationId"] == "listMetrics":
            _set_parameter(operation, "startTime", {"const": "2026-01-01T00:00:00Z"})
            _set_parameter(operation, "endTime", {"const": "2999-01-01T00:00:00Z"})
        _add_links(operation, served)
        if "requestBody" in operation:
            _narrow_body(operation, surface["components"]["schemas"])
    return surface


def well_known(surface: Document) -> Document:
    """
    The surface as it is, but for the names in paths.

    Those are names that exist: beside a bad name nothing else would matter. What is
    created gets any name, or one that is sure to be good.
    """
    surface = deepcopy(surface)
    known = {
        "orgName": "local",
        "appName": "shop",
        "tokenName": "a-reader",
        "recoveryId": "lost",
        "workflowId": "done",
        "queueName": "jobs",
        "scheduleName": "nightly",
    }
    created = {
        ("registerApp", "appName"),
        ("createToken", "tokenName"),
        # No SDK tells whether there was such a workflow.
        ("cancelWorkflow", "workflowId"),
        ("deleteWorkflow", "workflowId"),
    }
    for _, _, operation in list_operations(surface):
        for each in operation.get("parameters", []):
            if (operation["operationId"], each["name"]) in created:
                each["schema"] = {"anyOf": [NAME, each["schema"]]}
            elif each["name"] in known:
                each["schema"] = {"const": known[each["name"]]}
        if operation["operationId"] == "migrateRecovery":
            # Any other version is refused, and after the first success all of them.
            _narrow_body(operation, surface["components"]["schemas"])
        elif operation["operationId"] in (*GOOD_OPERATIONS, "setLatestAppVersion"):
            _offer_good_body(operation, surface["components"]["schemas"])
    return surface


def _list_ids(surface: Document) -> set[str]:
    return {operation["operationId"] for *_, operation in list_operations(surface)}


def _keep(surface: Document, operation_ids: set[str]) -> Document:
    paths = {
        path: {
            method: operation
            for method, operation in item.items()
            if operation["operationId"] in operation_ids
        }
        for path, item in surface["paths"].items()
    }
    return {**surface, "paths": {path: item for path, item in paths.items() if item}}


def _add_links(operation: Document, served: set[str]) -> None:
    success = next(
        response
        for status, response in operation["responses"].items()
        if status.startswith("2")
    )
    links = success.setdefault("links", {})
    for link in links.values():
        del link["parameters"]["orgName"]
    for target, parameters in LINKS.get(operation["operationId"], []):
        if target in served:
            links[target] = {"operationId": target, "parameters": parameters}


def _set_parameter(operation: Document, name: str, schema: Document) -> None:
    for each in operation["parameters"]:
        if each["name"] == name:
            each["schema"] = schema


def _offer_good_body(operation: Document, schemas: Document) -> None:
    """Any body is as good as before; some are sure to be accepted."""
    good = deepcopy(operation)
    _narrow_body(good, schemas)
    contents = [
        each["requestBody"]["content"]["application/json"] for each in (good, operation)
    ]
    contents[1]["schema"] = {"anyOf": [content["schema"] for content in contents]}


def _narrow_body(operation: Document, schemas: Document) -> None:
    content = operation["requestBody"]["content"]["application/json"]
    if "$ref" in content["schema"]:
        content["schema"] = deepcopy(schemas[content["schema"]["$ref"].split("/")[-1]])
    schema = content["schema"]
    properties = schema["properties"]
    for name, good in GOOD_PROPERTIES.items():
        if name in properties:
            is_list = "array" in properties[name].get("type", "")
            properties[name] = TEXTS if is_list and good is TEXT else good
    together = GOOD_OPERATIONS.get(operation["operationId"], {})
    if together:
        operation["requestBody"]["required"] = True
    for name, good in together.items():
        if good is None:
            del properties[name]
        else:
            properties[name] = good
            schema["required"] = sorted({*schema.get("required", []), name})


def _name_statuses(operation: Document) -> None:
    problem = operation["responses"].pop("default")
    statuses = set(errors_of(operation["operationId"]))
    if any(
        each["schema"].get("type") == "string" and "pattern" not in each["schema"]
        for each in operation.get("parameters", [])
    ):
        # A NUL in the URL is refused before the operation is found.
        statuses.add(400)
    for status in sorted(statuses):
        operation["responses"][str(status)] = problem
