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
    "getCensus": set(),
    "getRelayMetrics": set(),
    "getHealth": set(),
    "getReadiness": set(),
}
"""Errors of Relay's own operations beyond the common ones; kept by hand."""


def errors_of(operation_id: str) -> frozenset[int]:
    """The statuses with which an operation may refuse a request; 5xx is none."""
    if operation_id in EXPECTED:
        statuses = EXPECTED[operation_id].errors
    else:
        statuses = COMMON_ERRORS | READS_BODY | OWN_ERRORS[operation_id]
    return frozenset(status for status in statuses if status < 500)


APPLICATION = {"appName": "$request.path.appName"}
FIRST_APPLICATION = {"appName": "$response.body#/0/name"}
ABOUT_APPLICATIONS = (
    *("getApp", "updateApp", "registerApp", "deleteApp", "listExecutors"),
    *("getRelaySettings", "updateRelaySettings", "listRelayExecutors"),
    *("orderRecovery", "listRecoveries", "getCensus"),
)
ABOUT_RECOVERIES = ("getRecovery", "retryRecovery", "abandonRecovery")
WITHOUT_NAMES = (
    *("registerApp", "createToken", "listApps", "listTokens", "listPermissions"),
    *("listAuditLogs", "listAuditLogsV1alpha1"),
    *("getRelayMetrics", "getHealth", "getReadiness"),
)

Link = tuple[str, dict[str, str]]

LINKS: dict[str, list[Link]] = {
    "listApps": [
        *((name, FIRST_APPLICATION) for name in ABOUT_APPLICATIONS),
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
}
"""Which operations may follow a success, beyond the links that are served."""

NAME = {"type": "string", "pattern": "^[a-z][a-z0-9_-]{2,19}$"}
TEXT = {"type": "string", "pattern": "^[!-~]{1,20}$"}
MILLISECONDS = {"type": ["integer", "null"], "minimum": 0, "maximum": 10**11}


GOOD_PARAMETERS: Document = {
    "appName": {"type": "string", "enum": ["shop", "shoe"]},
    "tokenName": NAME,
    "recoveryId": {"type": "string", "enum": ["lost"]},
    **dict.fromkeys(("operation", "subject", "target"), TEXT),
    "limit": {"type": "integer", "minimum": 1, "maximum": 1000},
    "offset": {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
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
}
"""Values that must be accepted where the documents promise more than can be."""


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


def walkable(surface: Document) -> Document:
    """
    The surface to walk about in: in one organization, with links, and so that what is
    valid by it is accepted.
    """
    surface = deepcopy(surface)
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
        _add_links(operation)
        if "requestBody" in operation:
            _narrow_body(operation["requestBody"], surface["components"]["schemas"])
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
    }
    created = {("registerApp", "appName"), ("createToken", "tokenName")}
    for _, _, operation in list_operations(surface):
        for each in operation.get("parameters", []):
            if (operation["operationId"], each["name"]) in created:
                each["schema"] = {"anyOf": [NAME, each["schema"]]}
            elif each["name"] in known:
                each["schema"] = {"const": known[each["name"]]}
    return surface


def _add_links(operation: Document) -> None:
    [success] = (
        response
        for status, response in operation["responses"].items()
        if status.startswith("2")
    )
    links = success.setdefault("links", {})
    for link in links.values():
        del link["parameters"]["orgName"]
    for target, parameters in LINKS.get(operation["operationId"], []):
        links[target] = {"operationId": target, "parameters": parameters}


def _narrow_body(body: Document, schemas: Document) -> None:
    content = body["content"]["application/json"]
    if "$ref" in content["schema"]:
        content["schema"] = deepcopy(schemas[content["schema"]["$ref"].split("/")[-1]])
    properties = content["schema"]["properties"]
    properties |= {k: v for k, v in GOOD_PROPERTIES.items() if k in properties}


def _name_statuses(operation: Document) -> None:
    problem = operation["responses"].pop("default")
    for status in sorted(errors_of(operation["operationId"])):
        operation["responses"][str(status)] = problem
