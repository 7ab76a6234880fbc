"""The running application keeps the contract: shapes, success codes, error statuses."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import APIRouter
from openapi_spec_validator import OpenAPIV31SpecValidator
from starlette.types import Receive, Scope, Send

from relay.liveness.states import ExecutorStatus
from relay.settings import RelaySettings
from relay_api.app import create_app
from relay_api.contract import list_operations
from relay_api.routes import applications
from relay_api.routes.contract import relay_document, served_operations
from tests.api.contract.calls import FAILURES, SUCCESSES, Failure
from tests.api.contract.expected import EXPECTED, NEEDS_OIDC, NOT_SERVED
from tests.api.contract.judge import (
    OPERATIONS,
    build_path,
    call,
    judge_locations,
    judge_problem,
    judge_problem_document,
    judge_success,
)
from tests.api.house import LONG_AGO, House, open_house

SERVED = sorted(EXPECTED.keys() - NOT_SERVED)
UNSERVED = "this version of Relay does not serve this operation"
UNSERVED_WITHOUT_OIDC = f"{UNSERVED}: it needs OIDC, which this version does not have"


async def furnish(house: House) -> None:
    """An application with executors in every status, workflows, a count, and a key."""
    shop = await house.register("shop")
    lost = {"grace_started_at": LONG_AGO, "dead_after": LONG_AGO}
    bare = dict.fromkeys(("hostname", "language", "dbos_version", "metadata"))
    await house.add_executor(shop, "executor-1")
    await house.add_executor(shop, "executor-2", ExecutorStatus.DISCONNECTED, **lost)
    await house.add_executor(shop, "executor-3", ExecutorStatus.DEAD, **lost, **bare)
    await house.client.patch(build_path("updateApp"), json={"gcRowsThreshold": 9})
    await house.add_metric(shop)
    await house.mint("old", ["application.read"], ["shop"])
    await house.client.patch(
        "/relay/v1/orgs/local/apps/shop/settings", json={"importsAllowed": True}
    )
    house.executors.work.add("e1", "v1", "running", "done")
    house.executors.work.finish("done")


def test_operations_that_are_not_served_are_the_ones_named(tmp_path: Path) -> None:
    """An operation that gains or loses its route must be moved on or off the list."""
    app = create_app(RelaySettings(data_dir=tmp_path))

    assert served_operations(app) == EXPECTED.keys() - NOT_SERVED
    assert EXPECTED.keys() >= NOT_SERVED


def test_every_served_operation_is_tried() -> None:
    """A newly served operation needs a call here that succeeds."""
    assert sorted(SUCCESSES) == SERVED


@pytest.mark.parametrize("operation_id", SERVED)
def test_route_takes_the_documented_parameters(
    operation_id: str, tmp_path: Path
) -> None:
    """The route reads the parameters that the contract names, and no other."""
    path, method, operation = OPERATIONS[operation_id]
    described = create_app(RelaySettings(data_dir=tmp_path)).openapi()
    route = described["paths"][path][method.lower()]

    def list_parameters(source: dict[str, Any]) -> set[tuple[str, str, bool]]:
        return {
            (part["name"], part["in"], part.get("required", False))
            for part in source.get("parameters", [])
        }

    assert route["operationId"] == operation_id
    assert list_parameters(route) == list_parameters(operation)


@pytest.mark.parametrize(
    ("operation_id", "number"),
    [(name, index) for name in SERVED for index in range(len(SUCCESSES[name]))],
)
async def test_success_is_the_documented_one(
    house: House, operation_id: str, number: int
) -> None:
    """A success has the documented status, media type and shape."""
    await furnish(house)

    answer = await call(house.client, operation_id, **SUCCESSES[operation_id][number])

    body = judge_success(operation_id, answer)
    assert body is None or body, "an empty list would prove nothing"


@pytest.mark.parametrize(
    "failure", FAILURES, ids=lambda failure: f"{failure.operation_id}-{failure.status}"
)
async def test_refusal_is_a_documented_problem(house: House, failure: Failure) -> None:
    """A refused call answers a problem document with a status of the contract."""
    await furnish(house)

    answer = await call(house.client, failure.operation_id, **failure.request)

    problem = judge_problem(failure.operation_id, answer, failure.status)
    if failure.status == 422:
        assert problem["detail"] == "validation failed"
        judge_locations(failure.operation_id, problem)


@pytest.mark.parametrize("operation_id", SERVED)
async def test_unknown_organization_is_not_found(
    house: House, operation_id: str
) -> None:
    """Nothing exists in an organization that does not."""
    answer = await call(house.client, operation_id, values={"orgName": "elsewhere"})

    judge_problem(operation_id, answer, 404)


@pytest.mark.parametrize(
    "operation_id", [name for name in SERVED if name != "listPermissions"]
)
@pytest.mark.parametrize("credential", [None, "Bearer dbos_unknown", "Basic eDp5"])
async def test_stranger_is_asked_for_a_key(
    keyed: House, operation_id: str, credential: str | None
) -> None:
    """Without a key that lives, nothing is told and nothing done."""
    headers = {} if credential is None else {"Authorization": credential}

    answer = await call(keyed.client, operation_id, headers=headers)

    judge_problem(operation_id, answer, 401)
    assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize(
    "operation_id", [name for name in SERVED if name != "listPermissions"]
)
async def test_key_without_the_permission_is_refused(
    keyed: House, operation_id: str
) -> None:
    """A key that may only connect executors may do nothing over HTTP."""
    await keyed.register("shop")
    headers = await keyed.mint("executor", ["websocket.connect"])

    answer = await call(keyed.client, operation_id, headers=headers)

    judge_problem(operation_id, answer, 403)


async def test_permissions_are_listed_to_anybody(keyed: House) -> None:
    """The list of permissions needs no key, in every mode."""
    answer = await call(keyed.client, "listPermissions")

    assert "websocket.connect" in judge_success("listPermissions", answer)


@pytest.mark.parametrize("operation_id", SERVED)
async def test_method_that_a_path_does_not_have_is_refused(
    house: House, operation_id: str
) -> None:
    """A known path answers 405 to other methods, and names those it has."""
    path = build_path(operation_id)
    methods = {
        method
        for name in SERVED
        for template, method, _ in [OPERATIONS[name]]
        # `workflows/search` may be a workflow that is called so.
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path)
    }

    answer = await house.client.request("TRACE", path)

    judge_problem(operation_id, answer, 405)
    assert {name.strip() for name in answer.headers["Allow"].split(",")} == methods


@pytest.mark.parametrize("operation_id", sorted(NOT_SERVED))
async def test_operation_that_is_not_served_is_not_found(
    house: House, operation_id: str
) -> None:
    """What this version does not have answers 404 and says so, and leaves no trace."""
    answer = await call(house.client, operation_id)

    problem = judge_problem(operation_id, answer, 404)
    needs_oidc = operation_id in NEEDS_OIDC
    assert problem["detail"] == (UNSERVED_WITHOUT_OIDC if needs_oidc else UNSERVED)
    assert await house.audit() == []


async def test_gap_is_told_from_a_wrong_path_behind_a_prefix_too(
    migrated_file: Path, tmp_path: Path
) -> None:
    """Whether or not a proxy takes the prefix away."""
    path = build_path("listAlertingRules")
    async with open_house(migrated_file, tmp_path, root_path="/conductor") as house:
        stripped = await house.client.get(path)
        kept = await house.client.get(f"/conductor{path}")
        wrong = await house.client.get(f"{path}-of-mine")

    assert stripped.json()["detail"] == UNSERVED
    assert kept.json()["detail"] == UNSERVED
    assert wrong.json()["detail"] == "there is nothing at this path"


@pytest.mark.parametrize("method", ["PUT", "DELETE", "TRACE"])
async def test_method_that_the_contract_does_not_have_is_no_gap(
    house: House, method: str
) -> None:
    """Only operations of the contract are missing; everything else is wrong."""
    answer = await house.client.request(method, build_path("listAlertingRules"))

    assert answer.status_code == 404
    assert answer.json()["detail"] == "there is nothing at this path"


async def test_gap_on_a_path_with_other_methods_is_404(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing operation does not become a wrong method when a neighbour is served."""
    monkeypatch.setattr(applications, "router", APIRouter())
    app = create_app(house.settings)

    @app.get(OPERATIONS["getApp"][0])
    async def get_app() -> None:
        """The only operation left on this path."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        server = SimpleNamespace(settings=house.settings, registry=house.registry)
        await app({**scope, "state": {"server": server}}, receive, send)

    transport = httpx.ASGITransport(app=serve)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost"
    ) as client:
        missing = await call(client, "deleteApp")
        wrong = await client.post(build_path("getApp"))

    assert judge_problem("deleteApp", missing, 404)["detail"] == UNSERVED
    assert wrong.status_code == 405
    assert wrong.headers["Allow"] == "GET"


async def test_every_form_tells_what_this_server_answers(house: House) -> None:
    """The document has the whole contract, and marks what is missing here."""
    served, total = len(SERVED), len(EXPECTED)

    for path in ("/openapi.json", "/openapi-3.0.json"):
        document = (await house.client.get(path)).json()
        marked = {
            operation["operationId"]
            for *_, operation in list_operations(document)
            if operation.get("x-relay-served") is False
        }
        assert marked == NOT_SERVED
        assert (
            f"answers {served} of these {total} operations"
            in (document["info"]["description"])
        )
    page = (await house.client.get("/docs")).text
    assert f"{served} of {total} operations served here" in page


@pytest.mark.parametrize("operation_id", ["getApp", "createToken"])
async def test_answer_leads_to_its_schema(
    migrated_file: Path, tmp_path: Path, operation_id: str
) -> None:
    """A server that knows its URL says where the schema of an object is, and it is."""
    url = "http://localhost:8090"
    async with open_house(migrated_file, tmp_path, public_url=url) as house:
        await house.register("shop")

        answer = await call(house.client, operation_id, values={"tokenName": "new"})
        address = judge_success(operation_id, answer)["$schema"]
        schema = await house.client.get(httpx.URL(address).path)

    assert schema.json()["$id"] == address


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/schemas/Nothing.json", 404),
        ("GET", "/schemas/Application", 404),
        ("GET", "/nothing", 404),
        ("POST", "/openapi.json", 405),
        ("DELETE", "/docs", 405),
    ],
)
async def test_paths_beside_the_contract_answer_problems_too(
    house: House, method: str, path: str, status: int
) -> None:
    """Errors have one form, wherever they happen."""
    answer = await house.client.request(method, path)

    assert answer.status_code == status
    judge_problem_document(answer)


@pytest.mark.parametrize(
    "path",
    [
        "/openapi.json",
        "/openapi.yaml",
        "/openapi-3.0.json",
        "/docs",
        "/schemas/Application.json",
        "/relay/v1/openapi.json",
    ],
)
async def test_contract_can_be_read_without_a_key(keyed: House, path: str) -> None:
    """The contract is no secret."""
    assert (await keyed.client.get(path)).status_code == 200


def test_relay_document_describes_all_that_is_not_in_the_contract(
    tmp_path: Path,
) -> None:
    """Relay's own paths have a valid document, with nothing in it left undefined."""
    document = relay_document(create_app(RelaySettings(data_dir=tmp_path)))

    OpenAPIV31SpecValidator(document).validate()
    assert "$defs" not in json.dumps(document)
    assert document["paths"].keys() == {
        "/healthz",
        "/readyz",
        "/metrics",
        "/v1alpha1/api/{orgName}/audit-logs",
        "/relay/v1/orgs/{orgName}/apps/{appName}/executors",
        "/relay/v1/orgs/{orgName}/apps/{appName}/settings",
        "/relay/v1/orgs/{orgName}/apps/{appName}/recoveries",
        "/relay/v1/orgs/{orgName}/apps/{appName}/census",
        "/relay/v1/orgs/{orgName}/apps/{appName}/attention",
        "/relay/v1/orgs/{orgName}/apps/{appName}/versions",
        "/relay/v1/orgs/{orgName}/apps/{appName}/workflows/{workflowId}/diagnosis",
        "/relay/v1/orgs/{orgName}/apps/{appName}/recoveries/{recoveryId}",
        "/relay/v1/orgs/{orgName}/apps/{appName}/recoveries/{recoveryId}/retry",
        "/relay/v1/orgs/{orgName}/apps/{appName}/recoveries/{recoveryId}/abandon",
        "/relay/v1/orgs/{orgName}/apps/{appName}/recoveries/{recoveryId}/migrate",
        "/relay/v1/orgs/{orgName}/apps/{appName}/recoveries/{recoveryId}/migration",
    }


def test_relay_document_says_what_is_refused(tmp_path: Path) -> None:
    """A client that keeps to the document is not told that its request is wrong."""
    document = relay_document(create_app(RelaySettings(data_dir=tmp_path)))
    recoveries = document["paths"]["/relay/v1/orgs/{orgName}/apps/{appName}/recoveries"]
    parameters = {
        parameter["name"]: parameter["schema"]
        for parameter in recoveries["get"]["parameters"]
    }
    body = recoveries["post"]["requestBody"]["content"]["application/json"]["schema"]

    def tell(schema: dict[str, Any]) -> dict[str, Any]:
        return {k: v for k, v in schema.items() if k not in ("title", "default")}

    contract = {
        parameter["name"]: parameter["schema"]
        for parameter in OPERATIONS["getApp"][2]["parameters"]
    }
    assert tell(parameters["orgName"]) == contract["orgName"]
    assert tell(parameters["appName"]) == contract["appName"]
    assert tell(parameters["limit"]) == {
        "type": "integer",
        "minimum": 1,
        "maximum": 1000,
    }
    assert tell(parameters["offset"]) == {
        "type": "integer",
        "minimum": 0,
        "maximum": 2**63 - 1,
    }
    settings = document["paths"]["/relay/v1/orgs/{orgName}/apps/{appName}/settings"][
        "patch"
    ]["requestBody"]["content"]["application/json"]["schema"]
    assert tell(settings["properties"]["versionPolicy"]) == {
        "$ref": "#/components/schemas/VersionPolicy"
    }
    assert tell(body["properties"]["executorId"]) == {
        "type": "string",
        "pattern": r"\S",
        "maxLength": 512,
    }
