"""Judges answers of the running application by the contract."""

import re
from datetime import datetime
from typing import Any
from urllib.parse import quote

import httpx
from jsonschema import Draft202012Validator, FormatChecker

from relay_api.contract import list_operations, load_contract
from tests.api.contract.expected import EXPECTED

CONTRACT = load_contract()
OPERATIONS = {
    operation["operationId"]: (path, method, operation)
    for path, method, operation in list_operations(CONTRACT)
}
SAMPLES = {
    "orgName": "local",
    "appName": "shop",
    "tokenName": "old",
    "workflowId": "done",
    "queueName": "jobs",
    "scheduleName": "nightly",
}
"""What stands in a path unless a test says otherwise."""

_FORMATS = FormatChecker(formats=())


@_FORMATS.checks("date-time", raises=ValueError)
def _is_instant(value: object) -> bool:
    return not isinstance(value, str) or (
        datetime.fromisoformat(value).utcoffset() is not None and "T" in value
    )


@_FORMATS.checks("int32")
def _is_int32(value: object) -> bool:
    return not isinstance(value, int) or -(2**31) <= value < 2**31


@_FORMATS.checks("int64")
def _is_int64(value: object) -> bool:
    return not isinstance(value, int) or -(2**63) <= value < 2**63


@_FORMATS.checks("uri")
def _is_uri(value: object) -> bool:
    return (
        not isinstance(value, str) or re.match(r"[a-z][a-z0-9+.-]*:", value) is not None
    )


def build_path(operation_id: str, **values: str) -> str:
    """The operation's path with every name filled in and encoded."""
    path = OPERATIONS[operation_id][0]
    known = SAMPLES | values
    return re.sub(
        r"\{(\w+)\}", lambda name: quote(known.get(name[1], "some"), safe=""), path
    )


async def call(
    client: httpx.AsyncClient,
    operation_id: str,
    *,
    values: dict[str, str] | None = None,
    **request: Any,
) -> httpx.Response:
    """Calls an operation; `values` go into its path, `request` to the client."""
    method = OPERATIONS[operation_id][1]
    return await client.request(
        method, build_path(operation_id, **(values or {})), **request
    )


def judge_success(operation_id: str, answer: httpx.Response) -> Any:
    """The answer's JSON (None without a body), if it is the success documented."""
    status = EXPECTED[operation_id].success
    assert answer.status_code == status, answer.text
    documented = OPERATIONS[operation_id][2]["responses"][str(status)]
    for header in documented.get("headers", {}):
        assert header in answer.headers
    if "content" not in documented:
        assert answer.content == b""
        return None
    assert answer.headers["Content-Type"] == "application/json"
    body = answer.json()
    judge_shape(documented["content"]["application/json"]["schema"], body)
    return body


def judge_problem(operation_id: str, answer: httpx.Response, status: int) -> Any:
    """The problem document, if it is one that the operation may answer."""
    assert status in EXPECTED[operation_id].errors, "a test must not ask for this"
    assert answer.status_code == status, answer.text
    return judge_problem_document(answer)


def judge_problem_document(answer: httpx.Response) -> Any:
    """The problem document, if the answer is one that says which and why."""
    assert answer.headers["Content-Type"] == "application/problem+json"
    body = answer.json()
    judge_shape({"$ref": "#/components/schemas/ErrorModel"}, body)
    assert body["status"] == answer.status_code
    assert body["title"]
    assert body["detail"]
    return body


def judge_locations(operation_id: str, problem: Any) -> None:
    """Asserts that every flaw of a problem stands where the operation has a value."""
    declared = list_locations(operation_id)
    for flaw in problem["errors"]:
        if flaw["message"] == "no such property":
            assert flaw["location"].startswith("body."), flaw
        else:
            [*_, place] = re.findall(r"^\w+(?:\.[^.\[]+)?", flaw["location"])
            assert place in declared, flaw


def list_locations(operation_id: str) -> set[str]:
    """Each parameter and property of the body, and each part that has any."""
    operation = OPERATIONS[operation_id][2]
    places = {
        f"{parameter['in']}.{parameter['name']}"
        for parameter in operation.get("parameters", [])
    }
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        name = schema["$ref"].rpartition("/")[2]
        shape = CONTRACT["components"]["schemas"][name]
        places |= {"body", *(f"body.{key}" for key in shape["properties"])}
    return places | {place.partition(".")[0] for place in places}


def judge_shape(schema: dict[str, Any], value: Any) -> None:
    """Asserts that `value` is valid for a schema that may refer to components."""
    whole = {**schema, "components": CONTRACT["components"]}
    Draft202012Validator(whole, format_checker=_FORMATS).validate(value)
