"""The operations on applications."""

import pytest

from relay.liveness.states import ExecutorStatus
from relay.records import AuditStatus
from relay.registry import SHELL_ACTOR
from tests.api.house import LONG_AGO, House, problem
from tests.registry.sockets import Live

APPS = "/v2/orgs/local/apps"


async def test_register_app_gives_the_documented_defaults(house: House) -> None:
    """A new application has 60 s of grace and every threshold off."""
    put = await house.client.put(f"{APPS}/shop", json={})

    got = await house.client.get(f"{APPS}/shop")
    assert (put.status_code, put.content) == (204, b"")
    assert "content-type" not in put.headers
    assert got.status_code == 200
    application = got.json()
    assert isinstance(application.pop("id"), str)
    assert isinstance(application.pop("orgId"), str)
    assert application == {
        "name": "shop",
        "status": "UNAVAILABLE",
        "language": None,
        "executorTimeoutSecs": 60,
        "gcTimeThresholdMs": None,
        "gcRowsThreshold": None,
        "globalTimeoutMs": None,
        "privateMode": False,
        "dbosCloud": False,
    }


async def test_register_app_needs_no_body(house: House) -> None:
    """An absent body registers with the defaults."""
    response = await house.client.put(f"{APPS}/shop")

    assert response.status_code == 204


async def test_register_app_again_keeps_what_it_does_not_name(house: House) -> None:
    """PUT is idempotent: what the body does not name stays."""
    await house.client.put(f"{APPS}/shop", json={"privateMode": True})
    await house.client.patch(f"{APPS}/shop", json={"executorTimeoutSecs": 90})

    response = await house.client.put(f"{APPS}/shop", json={})

    application = (await house.client.get(f"{APPS}/shop")).json()
    assert response.status_code == 204
    assert application["privateMode"] is True
    assert application["executorTimeoutSecs"] == 90


async def test_register_app_is_audited_when_it_changes_something(house: House) -> None:
    """As a creation, then as updates; what is already so is not written down again."""
    for body in (None, {}, {"privateMode": False}, {"privateMode": True}, {}):
        response = await house.client.put(f"{APPS}/shop", json=body)
        assert response.status_code == 204

    entries = [record.entry for record in await house.audit()]
    assert [(entry.operation, entry.details["private_mode"]) for entry in entries] == [
        ("application.update", True),
        ("application.create", False),
    ]


async def test_update_app_is_audited_even_if_nothing_changes(house: House) -> None:
    """A PATCH names what its caller wants, and that is on record."""
    await house.register("shop")

    for _ in range(2):
        await house.client.patch(f"{APPS}/shop", json={"executorTimeoutSecs": 60})

    records = await house.audit(operation="application.update")
    assert [record.entry.details["executor_timeout_secs"] for record in records] == [
        60,
        60,
    ]


async def test_register_app_is_audited_with_subject_and_address(house: House) -> None:
    """A creation names who, from where, what and how."""
    await house.client.put(f"{APPS}/shop", json={"privateMode": True})

    [record] = await house.audit()
    entry = record.entry
    assert (entry.operation, entry.status) == (
        "application.create",
        AuditStatus.SUCCESS,
    )
    assert (entry.subject.kind, entry.subject.id) == ("user", "local")
    assert entry.source_ip == "192.0.2.7"
    assert entry.target is not None
    assert (entry.target.kind, entry.target.id) == ("application", "shop")
    assert entry.details == {"application_name": "shop", "private_mode": True}


async def test_list_apps_is_sorted_by_name(house: House) -> None:
    """All applications come as a bare array."""
    for name in ("shop", "bank"):
        await house.register(name)

    response = await house.client.get(APPS)

    assert response.status_code == 200
    assert [application["name"] for application in response.json()] == ["bank", "shop"]


async def test_app_is_available_while_an_executor_is_on_line(house: House) -> None:
    """The status follows the sockets, not the rows."""
    ref = await house.register("shop")
    executor = await house.add_executor(ref, "e1")
    house.sockets.live[executor.ref.key] = Live(LONG_AGO)

    response = await house.client.get(f"{APPS}/shop")

    assert response.json()["status"] == "AVAILABLE"


async def test_delete_app_closes_sockets_and_lists_open_recoveries(
    house: House,
) -> None:
    """What nobody will finish any more stands in the audit entry."""
    ref = await house.register("shop")
    executor = await house.add_executor(ref, "e1", ExecutorStatus.DEAD)
    recovery = await house.ledger.order(
        ref, executor.ref.executor_id, executor.app_version, by=SHELL_ACTOR.subject
    )

    response = await house.client.delete(f"{APPS}/shop")

    assert (response.status_code, response.content) == (204, b"")
    [(closed, reason)] = house.sockets.closed_applications
    assert closed == ref.id
    assert len(reason.encode()) <= 123
    entry = (await house.audit())[0].entry
    assert entry.operation == "application.delete"
    [listed] = entry.details["open_recoveries"]
    assert listed["recovery_id"] == recovery.id
    assert listed["executor_id"] == "e1"
    problem(await house.client.get(f"{APPS}/shop"), 404)


async def test_deleted_app_can_be_registered_again(house: House) -> None:
    """PUT brings the name back as a new application."""
    first = await house.register("shop")
    await house.client.delete(f"{APPS}/shop")

    await house.client.put(f"{APPS}/shop")

    again = (await house.client.get(f"{APPS}/shop")).json()
    assert again["id"] != first.id


@pytest.mark.parametrize(
    ("method", "operation"),
    [("PATCH", "application.update"), ("DELETE", "application.delete")],
)
async def test_change_of_an_unknown_app_is_an_audited_404(
    house: House, method: str, operation: str
) -> None:
    """A change that finds nothing is recorded as a failure all the same."""
    response = await house.client.request(
        method, f"{APPS}/nowhere", json={} if method == "PATCH" else None
    )

    problem(response, 404)
    [record] = await house.audit()
    assert record.entry.operation == operation
    assert record.entry.status is AuditStatus.FAILURE


@pytest.mark.parametrize("name", ["ab", "a" * 257, "Shop", "sh%20op", "sh.op"])
async def test_register_app_refuses_a_bad_name(house: House, name: str) -> None:
    """The name rule is stated at the name's place in the path."""
    document = problem(await house.client.put(f"{APPS}/{name}"), 422)

    [error] = document["errors"]
    assert error["location"] == "path.appName"
    assert "3 to 256" in error["message"]


@pytest.mark.parametrize("name", ["abc", "a" * 256, "a-b_9"])
async def test_register_app_accepts_every_good_name(house: House, name: str) -> None:
    """Names of 3 to 256 characters are taken."""
    assert (await house.client.put(f"{APPS}/{name}")).status_code == 204


async def test_other_organizations_do_not_exist(house: House) -> None:
    """Only `local` is an organization, also for changes."""
    problem(await house.client.get("/v2/orgs/other/apps"), 404)
    problem(await house.client.put("/v2/orgs/other/apps/shop"), 404)

    assert await house.audit() == []


async def test_bodies_may_carry_schema(house: House) -> None:
    """`$schema` is accepted and ignored in every body of an application."""
    body = {"$schema": "http://localhost/schemas/PutAppInputBody.json"}

    put = await house.client.put(f"{APPS}/shop", json=body)
    patch = await house.client.patch(f"{APPS}/shop", json={"$schema": 7})

    assert (put.status_code, patch.status_code) == (204, 204)
