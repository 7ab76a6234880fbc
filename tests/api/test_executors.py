"""The two listings of executors."""

from datetime import timedelta

import pytest

from relay.liveness.states import ExecutorStatus
from relay.protocol.sdk import OLD_SDK_WARNING
from tests.api.house import LONG_AGO, House, problem
from tests.registry.sockets import Live

EXECUTORS = "/v2/orgs/local/apps/shop/executors"
DETAILS = "/relay/v1/orgs/local/apps/shop/executors"


async def test_executor_has_the_documented_shape(house: House) -> None:
    """Every key is there, also the one that no SDK fills."""
    ref = await house.register("shop")
    await house.add_executor(ref, "e1")

    response = await house.client.get(EXECUTORS)

    assert response.status_code == 200
    assert response.json() == [
        {
            "executorId": "e1",
            "appId": ref.id,
            "appVersion": "v1",
            "status": "HEALTHY",
            "hostId": None,
            "hostname": "node-1",
            "createdAt": "2026-01-01T00:00:00.000Z",
            "updatedAt": "2026-01-01T00:00:02.000Z",
            "language": "python",
            "dbosVersion": "3.2.0",
            "executorMetadata": {"zone": "a"},
        }
    ]


async def test_unknown_facts_are_null(house: House) -> None:
    """An executor that told little about itself still has every key."""
    ref = await house.register("shop")
    await house.add_executor(
        ref, "e1", hostname=None, language=None, dbos_version=None, metadata=None
    )

    [executor] = (await house.client.get(EXECUTORS)).json()

    for key in ("hostId", "hostname", "language", "dbosVersion", "executorMetadata"):
        assert executor[key] is None


async def test_updated_at_is_the_last_sign_of_life(house: House) -> None:
    """The socket knows better than the row, which follows in batches."""
    ref = await house.register("shop")
    executor = await house.add_executor(ref, "e1")
    house.sockets.live[executor.ref.key] = Live(LONG_AGO + timedelta(minutes=9))

    [shown] = (await house.client.get(EXECUTORS)).json()

    assert shown["updatedAt"] == "2026-01-01T00:09:00.000Z"
    assert shown["createdAt"] == "2026-01-01T00:00:00.000Z"


@pytest.mark.parametrize("is_live", [False, True])
async def test_last_sign_of_life_is_never_before_the_beginning(
    house: House, *, is_live: bool
) -> None:
    """Also when this process is a little behind the database, which dates the row."""
    ref = await house.register("shop")
    early = LONG_AGO - timedelta(milliseconds=3)
    executor = await house.add_executor(ref, "e1", last_seen_at=early)
    if is_live:
        house.sockets.live[executor.ref.key] = Live(early)

    [shown] = (await house.client.get(EXECUTORS)).json()
    [details] = (await house.client.get(DETAILS)).json()

    assert shown["updatedAt"] == shown["createdAt"]
    assert details["lastSeenAt"] == details["createdAt"]


async def test_executors_of_every_status_are_listed(house: House) -> None:
    """A record is shown until recovery deletes it."""
    ref = await house.register("shop")
    for position, status in enumerate(ExecutorStatus):
        await house.add_executor(
            ref,
            f"e{position}",
            status,
            created_at=LONG_AGO + timedelta(seconds=position),
        )

    shown = (await house.client.get(EXECUTORS)).json()

    assert [executor["status"] for executor in shown] == list(ExecutorStatus)


async def test_executors_of_many_pages_are_listed_oldest_first(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands are read bit by bit, so that nothing else has to wait."""
    monkeypatch.setattr("relay.registry.executors.PAGE", 2)
    ref = await house.register("shop")
    for age in range(5):
        await house.add_executor(
            ref,
            f"e{age}",
            ExecutorStatus.DEAD,
            created_at=LONG_AGO - timedelta(seconds=age),
        )

    shown = (await house.client.get(EXECUTORS)).json()

    assert [each["executorId"] for each in shown] == ["e4", "e3", "e2", "e1", "e0"]


async def test_executors_of_an_unknown_application_are_404(house: House) -> None:
    """Not an empty list."""
    problem(await house.client.get(EXECUTORS), 404)
    problem(await house.client.get(DETAILS), 404)


async def test_details_show_what_the_contract_cannot(house: House) -> None:
    """Since, address, load, and what is wrong with it."""
    ref = await house.register("shop")
    executor = await house.add_executor(
        ref,
        "e1",
        ExecutorStatus.DISCONNECTED,
        dead_after=LONG_AGO + timedelta(seconds=61),
        dbos_version="2.28.0",
        last_error="the peer was silent",
    )
    house.sockets.colliding.add(executor.ref.key)
    house.sockets.live[executor.ref.key] = Live(
        LONG_AGO + timedelta(seconds=9), in_flight=3, is_responsive=False
    )

    [shown] = (await house.client.get(DETAILS)).json()

    assert shown == {
        "executorId": "e1",
        "appVersion": "v1",
        "status": "DISCONNECTED",
        "since": "2026-01-01T00:00:01.000Z",
        "deadAfter": "2026-01-01T00:01:01.000Z",
        "createdAt": "2026-01-01T00:00:00.000Z",
        "lastSeenAt": "2026-01-01T00:00:09.000Z",
        "hostname": "node-1",
        "peerAddress": "192.0.2.7",
        "language": "python",
        "dbosVersion": "2.28.0",
        "inFlight": 3,
        "unresponsive": True,
        "collision": True,
        "flapping": False,
        "recoverable": False,
        "warnings": [OLD_SDK_WARNING],
        "lastError": "the peer was silent",
    }


async def test_executor_without_a_socket_has_nothing_in_flight(house: House) -> None:
    """Nothing is known against it."""
    ref = await house.register("shop")
    await house.add_executor(ref, "e1")

    [shown] = (await house.client.get(DETAILS)).json()

    assert (shown["inFlight"], shown["unresponsive"]) == (0, False)
    assert (shown["collision"], shown["recoverable"]) == (False, True)
    assert shown["warnings"] == []
