"""Gathers what is known of the owners of pending workflows, for all of them at once."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from relay.census.counting import SHOWN_OWNERS
from relay.diagnosis.facts import LiveSight, OwnerStanding
from relay.diagnosis.ports import LivePeers
from relay.ids import ApplicationRef, AppVersion, ExecutorId, ExecutorRef
from relay.liveness.states import ExecutorStatus
from relay.protocol.workflows import WorkflowRow
from relay.records import ExecutorRecord, Owner, OwnerFacts
from relay.store import Store, UnitOfWork


def find_owner(workflow: WorkflowRow) -> Owner | None:
    """Whom a row names as its executor, if it does; of older SDKs without a version."""
    if workflow.executor_id is None:
        return None
    version = AppVersion(workflow.app_version or "")
    return Owner(ExecutorId(workflow.executor_id), version)


async def gather_owners(
    store: Store,
    peers: LivePeers,
    application: ApplicationRef,
    owners: Collection[Owner],
) -> Mapping[Owner, OwnerStanding]:
    """
    What is known of each of these.

    Rows are only read for those that are not connected. A handful of statements is
    enough, and one more for each that is DISCONNECTED.
    """
    sights = {owner: _look(peers, application, owner) for owner in owners}
    absent = [owner for owner, sight in sights.items() if sight is None]
    found = {
        owner: OwnerStanding(facts=OwnerFacts(), live=sight)
        for owner, sight in sights.items()
    }
    if absent:
        async with store.read() as work:
            found |= await _read(work, application, absent)
    return found


def _look(
    peers: LivePeers, application: ApplicationRef, owner: Owner
) -> LiveSight | None:
    ref = ExecutorRef(application, owner.executor_id)
    peer = peers.find(ref)
    if peer is None:
        return None
    return LiveSight(
        app_version=peer.info.application_version,
        last_seen_at=peer.last_seen_at,
        is_responsive=peer.is_responsive,
        is_colliding=peers.is_colliding(ref),
    )


async def _read(
    work: UnitOfWork, application: ApplicationRef, owners: Sequence[Owner]
) -> Mapping[Owner, OwnerStanding]:
    facts = await work.owner_facts.find_many(application.id, owners)
    recoveries = await work.recoveries.find_open_many(
        {(application.id, owner.executor_id) for owner in owners}
    )
    records = await _find_disconnected(work, application, facts)
    listed = await _find_listed(work, application, facts)
    standings: dict[Owner, OwnerStanding] = {}
    for owner in owners:
        record = records.get(owner.executor_id)
        standings[owner] = OwnerStanding(
            facts=facts.get(owner, OwnerFacts()),
            status_since=record.status_since if record else None,
            dead_after=record.dead_after if record else None,
            recovery=recoveries.get((application.id, owner.executor_id)),
            listed_at=listed.get(owner),
        )
    return standings


async def _find_disconnected(
    work: UnitOfWork, application: ApplicationRef, facts: Mapping[Owner, OwnerFacts]
) -> Mapping[ExecutorId, ExecutorRecord]:
    found: dict[ExecutorId, ExecutorRecord] = {}
    for owner, known in facts.items():
        if known.status is ExecutorStatus.DISCONNECTED:
            record = await work.executors.find((application.id, owner.executor_id))
            if record is not None:
                found[owner.executor_id] = record
    return found


async def _find_listed(
    work: UnitOfWork, application: ApplicationRef, facts: Mapping[Owner, OwnerFacts]
) -> Mapping[Owner, datetime]:
    """When the census first listed the strangers."""
    if not any(known.is_stranger for known in facts.values()):
        return {}
    records = await work.unknown_owners.list_by_application(
        application.id, limit=SHOWN_OWNERS
    )
    return {record.owner: record.first_seen_at for record in records}
