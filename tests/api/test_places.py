"""A flaw is told with the place in the request where the caller has written it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.errors import InvalidInputError
from relay_api.places import KINDS, NOWHERE, Places
from tests.api.contract.calls import SUCCESSES
from tests.api.contract.expected import EXPECTED
from tests.api.contract.judge import (
    OPERATIONS,
    call,
    judge_locations,
    judge_problem,
    list_locations,
)
from tests.api.house import House

NAMES = (
    *("", "workflowId", "workflowIds", "queueName", "scheduleName", "versionName"),
    *("limit", "status", "workflowName", "scheduleNamePrefix", "attributes"),
    *("cancelChildren", "deleteChildren", "startStep", "groupByStatus", "endTime"),
    *("serializedWorkflow", "nobodyKnowsIt"),
)
"""What executors and encoders complain about."""

ASKING = sorted(name for name in SUCCESSES if 503 in EXPECTED[name].errors)


@pytest.mark.parametrize("operation_id", ASKING)
async def test_flaw_that_an_executor_finds_stands_where_the_operation_has_it(
    house: House, operation_id: str
) -> None:
    """Whatever it is called there: no use-case knows all its operations."""
    await house.register("shop")
    await house.client.patch(
        "/relay/v1/orgs/local/apps/shop/settings", json={"importsAllowed": True}
    )
    for name in NAMES:
        house.executors.error = InvalidInputError(name, "is no good")

        answer = await call(house.client, operation_id, **SUCCESSES[operation_id][0])

        problem = judge_problem(operation_id, answer, 422)
        judge_locations(operation_id, problem)
        [flaw] = problem["errors"]
        places = {f"{kind}.{name}" for kind in KINDS} & list_locations(operation_id)
        assert not places or flaw["location"] in places


@pytest.mark.parametrize(
    ("operation_id", "name", "location"),
    [
        ("cancelWorkflow", "workflowId", "path.workflowId"),
        ("bulkCancelWorkflows", "workflowId", "body.workflowIds"),
        ("cancelWorkflow", "cancelChildren", "body.cancelChildren"),
        ("deleteWorkflow", "deleteChildren", "query.deleteChildren"),
        ("bulkDeleteWorkflows", "deleteChildren", "body.deleteChildren"),
        ("getWorkflow", "workflowId", "path.workflowId"),
        ("getWorkflow", "", "path"),
        ("listWorkflows", "status", "query.status"),
        ("listWorkflows", "", "query"),
        ("searchWorkflows", "status", "body.status"),
        ("searchWorkflows", "", "body"),
        ("listSchedules", "scheduleNamePrefix", "query.scheduleNamePrefix"),
        ("triggerSchedule", "scheduleName", "path.scheduleName"),
    ],
)
async def test_each_operation_names_its_own_place(
    house: House, operation_id: str, name: str, location: str
) -> None:
    """To the caller and in the audit log, if there is an entry."""
    await house.register("shop")
    house.executors.error = InvalidInputError(name, "is no good")

    answer = await call(house.client, operation_id, **SUCCESSES[operation_id][0])

    [flaw] = answer.json()["errors"]
    assert flaw["location"] == location
    failures = [
        str(record.entry.details["error"])
        for record in await house.audit()
        if "error" in record.entry.details
    ]
    assert all(f"{location}: is no good" in failure for failure in failures)
    assert bool(failures) is (OPERATIONS[operation_id][1] in ("POST", "DELETE")) or (
        operation_id == "searchWorkflows"
    )


names = st.sampled_from(["workflowId", "workflowIds", "limit", "status", ""])
places = st.builds(
    Places,
    path=st.frozensets(names.filter(bool), min_size=1),
    query=st.frozensets(names.filter(bool)),
    body=st.none() | st.frozensets(names.filter(bool)),
)


@given(known=places, name=names)
def test_location_always_exists(known: Places, name: str) -> None:
    """A name if one fits, else a part of the request that the operation has."""
    parts = {"path": known.path, "query": known.query, "body": known.body or ()}

    kind, _, found = known.locate(name).partition(".")

    if found:
        assert found in parts[kind]
    else:
        assert parts[kind] or (kind == "body" and known.body is not None)


@pytest.mark.parametrize("location", ["path.tokenName", "body.items[3].tag", "body"])
def test_location_is_left_as_it_is(location: str) -> None:
    """The edge names its own values in full."""
    assert NOWHERE.locate(location) == location


def test_one_is_meant_where_an_operation_takes_several() -> None:
    """SDKs name a workflow, and a caller may have sent a list of them."""
    assert Places(body=frozenset({"workflowIds"})).locate("workflowId") == (
        "body.workflowIds"
    )
    assert Places(path=frozenset({"workflowId"})).locate("workflowIds") == (
        "path.workflowId"
    )
