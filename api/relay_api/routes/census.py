"""The last count of pending work: `/relay/v1/orgs/{orgName}/apps/{appName}/census`."""

from typing import Annotated

from fastapi import APIRouter

from relay.access import Permission
from relay.census import CensusReport
from relay.records import DisputeRecord, OwnerKind, OwnerRecord, TombstoneRecord
from relay.registry import Actor
from relay_api.dependencies import ApplicationName, ServerHere, reads_application
from relay_api.shapes import Answer, Instant

router = APIRouter(prefix="/relay/v1/orgs/{orgName}/apps/{appName}/census")


class Owner(Answer):
    """
    Pending work that nobody will recover unless an operator asks for it.

    `kind` says why: `UNKNOWN_OWNER` was never seen here, `OTHER_VERSION` is there with
    another version, and the recovery of `ABANDONED` was given up.
    """

    executor_id: str
    app_version: str
    kind: OwnerKind
    pending_count: int
    first_seen_at: Instant
    last_seen_at: Instant


class Reopening(Answer):
    """An executor whose record was deleted, and that owned pending work again."""

    executor_id: str
    app_version: str
    deleted_at: Instant
    reopened_at: Instant | None


class Dispute(Answer):
    """Executors that read different databases: the ids on either side."""

    since: Instant
    sides: list[list[str]]


class Census(Answer):
    """
    Who owns the pending work of an application, as one executor counted it.

    `takenAt`, `answeredBy`, `pendingCount` and `complete` are null before the first
    count. `complete` is false where the SDK could list the oldest workflows only.
    `dispute` is null unless executors of the application read different databases; as
    long as they do, no record of a dead executor is deleted.
    """

    taken_at: Instant | None
    answered_by: str | None
    pending_count: int | None
    complete: bool | None
    owners: list[Owner]
    reopened: list[Reopening]
    dispute: Dispute | None


@router.get("", operation_id="getCensus")
async def get_census(
    _: Annotated[Actor, reads_application(Permission.APPLICATION_READ)],
    server: ServerHere,
    name: ApplicationName,
) -> Census:
    """What the last count of pending work found, the longest known owners first."""
    view = await server.registry.applications.get(name)
    return _to_census(await server.census_reports.get(view.record.ref))


def _to_census(report: CensusReport) -> Census:
    taken = report.census
    return Census(
        taken_at=taken.taken_at if taken else None,
        answered_by=taken.answered_by if taken else None,
        pending_count=taken.pending_count if taken else None,
        complete=taken.is_complete if taken else None,
        owners=[_to_owner(record) for record in report.owners],
        reopened=[_to_reopening(record) for record in report.reopened],
        dispute=_to_dispute(report.dispute) if report.dispute else None,
    )


def _to_owner(record: OwnerRecord) -> Owner:
    return Owner(
        executor_id=record.owner.executor_id,
        app_version=record.owner.app_version,
        kind=record.kind,
        pending_count=record.pending_count,
        first_seen_at=record.first_seen_at,
        last_seen_at=record.last_seen_at,
    )


def _to_reopening(record: TombstoneRecord) -> Reopening:
    return Reopening(
        executor_id=record.executor.executor_id,
        app_version=record.app_version,
        deleted_at=record.deleted_at,
        reopened_at=record.reopened_at,
    )


def _to_dispute(record: DisputeRecord) -> Dispute:
    return Dispute(
        since=record.since,
        sides=[sorted(side.executor_ids) for side in record.sides],
    )
