"""What was collected of an application, over HTTP."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest

from relay.collection import reports
from relay.collection.reports import PAGE_ROWS
from relay.records import MetricType
from tests.api.house import LONG_AGO, House, problem

PATH = "/v2/orgs/local/apps/shop/metrics"
DAY = {"startTime": "2026-01-01T00:00:00Z", "endTime": "2026-01-02T00:00:00Z"}


async def read(house: House, **times: str) -> Any:
    answer = await house.client.get(PATH, params={**DAY, **times})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_count_has_the_form_of_the_contract(house: House) -> None:
    """With nobody connected."""
    shop = await house.register("shop")
    await house.add_metric(shop, metric_type=MetricType.STEPS, metric_name="charge")

    assert await read(house) == [
        {
            "appId": shop.id,
            "metricType": "step_count",
            "metricName": "charge",
            "granularity": 300,
            "timeBucket": "2026-01-01T00:00:00.000Z",
            "value": 7,
        }
    ]


async def test_an_application_without_counts_has_an_empty_list(house: House) -> None:
    """It is registered, and that is all."""
    await house.register("shop")

    assert await read(house) == []


async def test_windows_are_chosen_by_their_beginning(house: House) -> None:
    """The start is included, the end is not; an offset is an offset."""
    shop = await house.register("shop")
    for minutes in (0, 5, 10):
        begin = LONG_AGO + timedelta(minutes=minutes)
        await house.add_metric(shop, time_bucket=begin, value=1 + minutes)

    rows = await read(
        house,
        startTime="2026-01-01T02:05:00+02:00",
        endTime="2026-01-01T00:10:00Z",
    )

    assert [row["value"] for row in rows] == [6]


async def test_other_applications_are_not_told_of(house: House) -> None:
    """Each has its own counts."""
    await house.register("shop")
    await house.add_metric(await house.register("blog"))

    assert await read(house) == []


async def test_a_window_with_too_many_counts_is_to_be_narrowed(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller reads how many there are and how many an answer holds."""
    monkeypatch.setattr(reports, "MOST_LISTED", 2)
    monkeypatch.setattr(reports, "MOST_COUNTED", 4)
    shop = await house.register("shop")
    told = []
    for number in range(5):
        begin = LONG_AGO + timedelta(minutes=5 * number)
        await house.add_metric(shop, time_bucket=begin)
        answer = await house.client.get(PATH, params=DAY)
        if number < 2:
            assert len(answer.json()) == number + 1
        else:
            [flaw] = problem(answer, 422)["errors"]
            assert flaw["location"] == "query.startTime"
            told.append(flaw["message"])

    words = "narrow the window: it holds {} counts, and an answer 2 at most"
    assert told == [
        words.format(3),
        words.format("at least 4"),
        words.format("at least 4"),
    ]


async def test_many_counts_are_one_answer_in_pages(house: House) -> None:
    """Each once, however many pages they are read in."""
    shop = await house.register("shop")
    row = await house.add_metric(shop)
    names = [f"n{number:04}" for number in range(2 * PAGE_ROWS)]
    end = row.time_bucket + row.granularity
    async with house.store.write() as work:
        assert await work.metrics.close_window(
            shop.id,
            end,
            end + row.granularity,
            [replace(row, time_bucket=end, metric_name=name) for name in names],
            expected_end=end,
        )

    rows = await read(house)

    assert [row["metricName"] for row in rows] == ["checkout", *names]


async def test_reading_ends_with_the_client(house: House) -> None:
    """A month of a large application takes longer than clients wait, who ask again."""
    await house.register("shop")
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": PATH,
        "raw_path": PATH.encode(),
        "query_string": urlencode(DAY).encode(),
        "headers": [(b"host", b"localhost:8090")],
        "client": ("192.0.2.7", 50_000),
    }
    await house.serve(scope, receive, send)

    assert sent[0]["status"] == 499


@pytest.mark.parametrize(
    ("params", "location"),
    [
        ({"endTime": DAY["endTime"]}, "query.startTime"),
        ({"startTime": DAY["startTime"]}, "query.endTime"),
        ({**DAY, "startTime": ""}, "query.startTime"),
        ({**DAY, "endTime": "2026-01-02"}, "query.endTime"),
        ({**DAY, "endTime": DAY["startTime"]}, "query.endTime"),
        ({**DAY, "startTime": "2026-01-03T00:00:00Z"}, "query.endTime"),
    ],
)
async def test_both_times_are_needed_in_their_order(
    house: House, params: dict[str, str], location: str
) -> None:
    """A window without an end could be anything."""
    await house.register("shop")

    document = problem(await house.client.get(PATH, params=params), 422)

    assert [flaw["location"] for flaw in document["errors"]] == [location]


async def test_it_needs_its_own_permission(keyed: House) -> None:
    """Over that application: `application.read` is another one."""
    await keyed.register("shop")
    await keyed.register("blog")
    keys = {
        name: await keyed.mint(name, [permission], [application])
        for name, permission, application in (
            ("right", "metric.read", "shop"),
            ("other", "application.read", "shop"),
            ("elsewhere", "metric.read", "blog"),
        )
    }

    statuses = {
        name: (await keyed.client.get(PATH, params=DAY, headers=headers)).status_code
        for name, headers in keys.items()
    }

    assert statuses == {"right": 200, "other": 403, "elsewhere": 403}
