"""The last count of pending work over HTTP."""

from tests.api.house import House, problem
from tests.census.findings import find_everything

CENSUS = "/relay/v1/orgs/local/apps/shop/census"


async def test_before_the_first_census_everything_is_null_or_empty(
    house: House,
) -> None:
    """Unknown is told apart from nothing: every key is there."""
    await house.register("shop")

    response = await house.client.get(CENSUS)

    assert response.status_code == 200
    assert response.json() == {
        "takenAt": None,
        "answeredBy": None,
        "pendingCount": None,
        "complete": None,
        "owners": [],
        "reopened": [],
        "dispute": None,
    }


async def test_census_says_who_owns_work_and_who_counted(house: House) -> None:
    """Strangers, executors that came back from the dead, and both databases."""
    await find_everything(house.store, await house.register("shop"))

    found = (await house.client.get(CENSUS)).json()

    assert found["takenAt"] is not None
    assert (found["answeredBy"], found["pendingCount"]) == ("a", 7)
    assert found["complete"] is False
    [owner] = found["owners"]
    assert owner.keys() == {
        "executorId",
        "appVersion",
        "kind",
        "pendingCount",
        "firstSeenAt",
        "lastSeenAt",
    }
    assert (owner["executorId"], owner["kind"], owner["pendingCount"]) == (
        "stranger",
        "UNKNOWN_OWNER",
        3,
    )
    [reopened] = found["reopened"]
    assert (reopened["executorId"], reopened["appVersion"]) == ("forgotten", "v1")
    assert reopened["reopenedAt"] is not None
    assert found["dispute"]["sides"] == [["a", "b"], ["w"]]


async def test_stranger_vanishes_when_its_recovery_is_ordered(house: House) -> None:
    """The listing leads to the order, and the order out of the listing."""
    await find_everything(house.store, await house.register("shop"))
    [owner] = (await house.client.get(CENSUS)).json()["owners"]

    ordered = await house.client.post(
        CENSUS.replace("census", "recoveries"),
        json={key: owner[key] for key in ("executorId", "appVersion")},
    )

    assert ordered.status_code == 201
    assert (await house.client.get(CENSUS)).json()["owners"] == []


async def test_census_of_an_unknown_application_is_not_found(house: House) -> None:
    """As with everything below an application."""
    problem(await house.client.get(CENSUS), 404)
