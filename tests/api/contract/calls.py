"""
Calls of the served operations, and what becomes of them in local mode.

The house they are made in has the application `shop` and the key `old`.
"""

from dataclasses import dataclass
from typing import Any

from tests.api.contract import relayed
from tests.api.contract.expected import EXPECTED
from tests.api.contract.relayed import ECHOED

METRICS_WINDOW = {
    "startTime": "2026-01-01T01:00:00+01:00",
    "endTime": "2026-01-01T00:00:00.001Z",
}

SUCCESSES: dict[str, list[dict[str, Any]]] = {
    "listPermissions": [{}],
    "listTokens": [{}],
    "createToken": [
        {"values": {"tokenName": "bare"}},
        {
            "values": {"tokenName": "a key, 100 % new"},
            "json": {
                **ECHOED,
                "appNames": ["shop"],
                "permissions": ["application.read"],
            },
        },
        {
            "values": {"tokenName": "nulls"},
            "json": {"appNames": None, "permissions": None},
        },
    ],
    "deleteToken": [{}],
    "listAuditLogs": [
        {},
        {
            "params": {
                "startTime": "2026-01-01T00:00:00.123456789+02:00",
                "endTime": "2999-01-01T00:00:00Z",
                "operation": "application.create",
                "subject": "local",
                "target": "shop",
                "limit": 1000,
                "offset": 0,
            }
        },
    ],
    "listApps": [{}],
    "getApp": [{}],
    "registerApp": [
        {"values": {"appName": "new-one"}},
        {"values": {"appName": "n" * 256}, "json": {**ECHOED, "privateMode": True}},
        {"json": {}},
    ],
    "updateApp": [
        {
            "json": {
                **ECHOED,
                "executorTimeoutSecs": 90,
                "gcRowsThreshold": 1000,
                "gcTimeThresholdMs": 86_400_000,
                "globalTimeoutMs": 3_600_000,
                "privateMode": True,
            }
        },
        # In JSON Schema, and so in the contract, 90.0 is an integer.
        {
            "json": {
                "executorTimeoutSecs": 90.0,
                "gcRowsThreshold": 1e3,
                "gcTimeThresholdMs": 86_400_000.0,
                "globalTimeoutMs": 0.0,
            }
        },
        {
            "json": {
                "gcRowsThreshold": None,
                "gcTimeThresholdMs": 0,
                "globalTimeoutMs": None,
            }
        },
    ],
    "deleteApp": [{}],
    "listExecutors": [{}],
    "listMetrics": [{"params": METRICS_WINDOW}],
    **relayed.SUCCESSES,
}
"""Calls of each served operation that must succeed."""


@dataclass(frozen=True)
class Failure:
    """A call that must be refused, and with which status."""

    operation_id: str
    status: int
    request: dict[str, Any]


def _text(content: str) -> dict[str, Any]:
    return {"content": content, "headers": {"Content-Type": "application/json"}}


BAD_BODIES: dict[str, dict[str, Any]] = {
    "createToken": {"values": {"tokenName": "new"}},
    "registerApp": {"values": {"appName": "new"}},
    "updateApp": {},
    **{name: {} for name in relayed.BAD_VALUES},
}
"""Operations that read a body, and where to send it."""

_ASKING_EXECUTORS: dict[str, dict[str, Any]] = {
    name: calls[0] for name, calls in SUCCESSES.items() if 503 in EXPECTED[name].errors
}
FAILURES = [
    *(
        failure
        for name, where in BAD_BODIES.items()
        for failure in (
            Failure(name, 400, {**where, **_text("{")}),
            Failure(name, 413, {**where, **_text(" " * 2_000_000)}),
            Failure(
                name,
                415,
                {**where, "content": "{}", "headers": {"Content-Type": "text/plain"}},
            ),
            Failure(name, 422, {**where, "json": {"unknown": 1}}),
            Failure(name, 422, {**where, "json": []}),
        )
        # What is too large for an import is too large for a test of many.
        if (name, failure.status) != ("importWorkflow", 413)
    ),
    *(
        Failure(name, 404, {"values": {"appName": "unknown"}})
        for name in ("getApp", "deleteApp", "listExecutors")
    ),
    *(
        Failure(name, 404, {**request, "values": {"appName": "unknown"}})
        for name, request in _ASKING_EXECUTORS.items()
    ),
    *(
        Failure(name, 404, {"values": {parameter: "unknown"}})
        for parameter, names in relayed.NAMED.items()
        for name in names
    ),
    *(
        Failure(name, 422, {"json": body})
        for name, bodies in relayed.BAD_VALUES.items()
        for body in bodies
    ),
    *(
        Failure(name, 422, {"params": {key: value}})
        for name, flaws in relayed.BAD_QUERIES.items()
        for key, value in flaws
    ),
    Failure(
        "listMetrics", 404, {"values": {"appName": "unknown"}, "params": METRICS_WINDOW}
    ),
    *(
        Failure("listMetrics", 422, {"params": params})
        for params in (
            {},
            {"startTime": METRICS_WINDOW["startTime"]},
            {"endTime": METRICS_WINDOW["endTime"]},
            {**METRICS_WINDOW, "startTime": "yesterday"},
            {**METRICS_WINDOW, "endTime": "2026-01-01T00:00:01"},
            {**METRICS_WINDOW, "endTime": "2026-01-01T00:00:00Z"},
            {**METRICS_WINDOW, "endTime": "2025-12-31T00:00:00Z"},
        )
    ),
    Failure("setLatestAppVersion", 404, {"json": {"versionName": "unknown"}}),
    Failure("updateApp", 404, {"values": {"appName": "unknown"}, "json": {}}),
    Failure("updateApp", 422, {}),
    Failure("updateApp", 422, {"json": {"executorTimeoutSecs": "60"}}),
    Failure("updateApp", 422, {"json": {"executorTimeoutSecs": 0}}),
    Failure("updateApp", 422, {"json": {"executorTimeoutSecs": 400_000_000}}),
    Failure("updateApp", 422, {"json": {"gcTimeThresholdMs": -1}}),
    Failure("updateApp", 422, {"json": {"gcTimeThresholdMs": 400_000_000_000}}),
    Failure("updateApp", 422, {"json": {"globalTimeoutMs": 1.5}}),
    Failure("updateApp", 422, {"json": {"gcRowsThreshold": -1}}),
    Failure("updateApp", 422, {"json": {"privateMode": None}}),
    Failure("registerApp", 422, {"values": {"appName": "ab"}}),
    Failure("registerApp", 422, {"values": {"appName": "a" * 257}}),
    Failure("registerApp", 422, {"values": {"appName": "Shop"}}),
    Failure("registerApp", 422, {"values": {"appName": "a/bc"}}),
    Failure("deleteToken", 404, {"values": {"tokenName": "unknown"}}),
    Failure(
        "createToken",
        400,
        {"values": {"tokenName": "k"}, "json": {"permissions": ["x"]}},
    ),
    Failure(
        "createToken",
        400,
        {"values": {"tokenName": "k"}, "json": {"permissions": ["token.write"]}},
    ),
    Failure("createToken", 409, {"values": {"tokenName": "old"}}),
    Failure("createToken", 422, {"values": {"tokenName": "a/b"}}),
    Failure(
        "createToken",
        422,
        {"values": {"tokenName": "k"}, "json": {"appNames": ["shop", "shop"]}},
    ),
    Failure("listAuditLogs", 400, {"params": {"limit": 1001}}),
    Failure("listAuditLogs", 422, {"params": {"limit": -1}}),
    Failure("listAuditLogs", 422, {"params": {"limit": "many"}}),
    Failure("listAuditLogs", 422, {"params": {"offset": -1}}),
    Failure("listAuditLogs", 422, {"params": {"startTime": "yesterday"}}),
    Failure("listAuditLogs", 422, {"params": {"endTime": "2026-01-01T00:00:00"}}),
]
"""Calls in local mode that must be refused."""
