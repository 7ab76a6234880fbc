"""The audit log over HTTP, in both of its forms."""

from datetime import timedelta

import pytest

from relay.ids import AppName
from relay.records import (
    RELAY_SUBJECT,
    AuditEntry,
    AuditStatus,
    application_target,
)
from relay.registry import LOCAL_ORGANIZATION
from relay_api.shapes import format_instant
from tests.api.house import House, problem

LOG = "/v2/orgs/local/audit-logs"
OLD_LOG = "/v1alpha1/api/local/audit-logs"


async def fill(house: House) -> None:
    """Three entries by two subjects."""
    await house.client.put("/v2/orgs/local/apps/shop", json={"privateMode": True})
    await house.client.delete("/v2/orgs/local/apps/bank")
    async with house.store.write() as work:
        await work.audit.append(
            [
                AuditEntry(
                    organization=LOCAL_ORGANIZATION,
                    operation="clock.jump",
                    status=AuditStatus.SUCCESS,
                    subject=RELAY_SUBJECT,
                    target=None,
                    source_ip="",
                    details={},
                )
            ]
        )


async def test_audit_log_has_the_documented_shape(house: House) -> None:
    """Newest first, camel case, `target` left out when there is none."""
    await fill(house)

    response = await house.client.get(LOG)

    assert response.status_code == 200
    jump, deletion, creation = response.json()
    for entry in (jump, deletion, creation):
        assert isinstance(entry.pop("id"), str)
        assert entry.pop("emitTime").endswith("Z")
    assert jump == {
        "operation": "clock.jump",
        "status": "success",
        "subject": {"type": "api_key", "id": "relay", "display": "Relay"},
        "sourceIp": "",
        "details": None,
    }
    assert deletion["status"] == "failure"
    assert creation == {
        "operation": "application.create",
        "status": "success",
        "subject": {"type": "user", "id": "local", "display": "local"},
        "target": {"type": "application", "id": "shop"},
        "sourceIp": "192.0.2.7",
        "details": {"application_name": "shop", "private_mode": True},
    }


async def test_old_form_is_snake_case_without_empty_details(house: House) -> None:
    """The same entries, wrapped in an object."""
    await fill(house)

    response = await house.client.get(OLD_LOG)

    jump, _, creation = response.json()["entries"]
    assert response.json().keys() == {"entries"}
    assert jump.keys() == {
        "id",
        "emit_time",
        "operation",
        "status",
        "subject",
        "source_ip",
    }
    assert creation["source_ip"] == "192.0.2.7"
    assert creation["details"] == {"application_name": "shop", "private_mode": True}


@pytest.mark.parametrize(
    ("query", "operations"),
    [
        ({"operation": "application.create"}, ["application.create"]),
        ({"operation": "application"}, []),
        ({"subject": "Relay"}, ["clock.jump"]),
        ({"subject": "relay"}, ["clock.jump"]),
        ({"target": "bank"}, ["application.delete"]),
        ({"target": "bank", "subject": "relay"}, []),
        ({"limit": "1"}, ["clock.jump"]),
        ({"limit": "1", "offset": "2"}, ["application.create"]),
        ({"offset": "3"}, []),
        (
            {"operation": "", "subject": "", "target": ""},
            ["clock.jump", "application.delete", "application.create"],
        ),
    ],
)
async def test_filters_are_exact_and_conjunctive(
    house: House, query: dict[str, str], operations: list[str]
) -> None:
    """Each filter restricts; a blank one does not."""
    await fill(house)

    response = await house.client.get(LOG, params=query)

    assert [entry["operation"] for entry in response.json()] == operations


async def test_start_is_inclusive_and_end_exclusive(house: House) -> None:
    """A window begins at its start and stops short of its end."""
    await fill(house)
    newest = (await house.audit())[0].emitted_at
    at = newest.isoformat()
    after = (newest + timedelta(microseconds=1)).isoformat()

    from_it = await house.client.get(LOG, params={"startTime": at})
    after_it = await house.client.get(LOG, params={"startTime": after})
    before_it = await house.client.get(LOG, params={"endTime": at})
    old = await house.client.get(OLD_LOG, params={"start": at, "end": after})

    assert len(from_it.json()) == 1
    assert after_it.json() == []
    assert len(before_it.json()) == 2
    assert len(old.json()["entries"]) == 1


@pytest.mark.parametrize(
    ("path", "query", "status", "location"),
    [
        (LOG, {"limit": "1001"}, 400, None),
        (LOG, {"limit": "0"}, 422, "query.limit"),
        (LOG, {"limit": "-1"}, 422, "query.limit"),
        (LOG, {"limit": "ten"}, 422, "query.limit"),
        (LOG, {"limit": "1.0"}, 422, "query.limit"),
        (LOG, {"limit": " 1"}, 422, "query.limit"),
        (LOG, {"limit": ""}, 422, "query.limit"),
        (LOG, {"offset": "-1"}, 422, "query.offset"),
        (LOG, {"offset": str(2**63)}, 422, "query.offset"),
        (LOG, {"startTime": "yesterday"}, 422, "query.startTime"),
        (LOG, {"startTime": "2026-01-01T00:00:00"}, 422, "query.startTime"),
        (LOG, {"startTime": "1767225600"}, 422, "query.startTime"),
        (LOG, {"startTime": "2026-02-30T00:00:00Z"}, 422, "query.startTime"),
        (LOG, {"endTime": "0001-01-01T00:00:00+14:00"}, 422, "query.endTime"),
        (OLD_LOG, {"page_size": "1001"}, 400, None),
        (OLD_LOG, {"start": "yesterday"}, 422, "query.start"),
    ],
)
async def test_bad_parameters_are_refused(
    house: House, path: str, query: dict[str, str], status: int, location: str | None
) -> None:
    """Too large a page is 400, everything else that is wrong 422 with its place."""
    document = problem(await house.client.get(path, params=query), status)

    if location is not None:
        assert document["detail"] == "validation failed"
        assert document["errors"][0]["location"] == location


async def test_largest_page_is_allowed(house: House) -> None:
    """1000 is a page, and offsets may be as large as the contract's type."""
    response = await house.client.get(
        LOG, params={"limit": "1000", "offset": str(2**63 - 1)}
    )

    assert response.status_code == 200


@pytest.mark.parametrize(
    "instant",
    [
        "2026-01-01T00:00:00Z",
        "2026-01-01t00:00:00z",
        "2026-01-01T00:00:00.123456789Z",
        "2026-01-01T01:30:00.5+01:30",
    ],
)
async def test_every_precision_and_offset_is_understood(
    house: House, instant: str
) -> None:
    """Clients send nanoseconds and their own offset."""
    response = await house.client.get(LOG, params={"startTime": instant})

    assert response.status_code == 200


async def test_reading_is_not_recorded(house: House) -> None:
    """Looking leaves no trace."""
    await house.client.get(LOG)
    await house.client.get(f"{LOG}?limit=5000")

    assert await house.audit() == []


async def test_engine_entries_carry_their_details(house: House) -> None:
    """Details are data: their keys stay as they are."""
    async with house.store.write() as work:
        await work.audit.append(
            [
                AuditEntry(
                    organization=LOCAL_ORGANIZATION,
                    operation="executor.dead",
                    status=AuditStatus.SUCCESS,
                    subject=RELAY_SUBJECT,
                    target=application_target(AppName("shop")),
                    source_ip="192.0.2.9",
                    details={"executor_id": "e1", "grace_seconds": 60},
                )
            ]
        )

    [entry] = (await house.client.get(LOG)).json()

    assert entry["details"] == {"executor_id": "e1", "grace_seconds": 60}
    assert entry["sourceIp"] == "192.0.2.9"


async def test_instants_are_cut_to_milliseconds(house: House) -> None:
    """Instants are UTC with `Z` and three digits."""
    await fill(house)
    newest = (await house.audit())[0].emitted_at

    [entry, *_] = (await house.client.get(LOG)).json()

    assert entry["emitTime"] == format_instant(newest)
    assert len(entry["emitTime"]) == len("2026-01-01T00:00:00.000Z")
