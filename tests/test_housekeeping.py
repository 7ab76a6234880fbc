"""What the server throws away, and when."""

from datetime import timedelta

from relay.audit import engine_entry
from relay.ids import ApplicationId, ApplicationRef, AppName, OrgName
from relay.records import RecoveryState
from relay.server.housekeeping import purge_audit, purge_losses, purge_recoveries
from relay.store import Store
from relay.testing.clock import FakeClock
from tests.store.rows import (
    APP,
    add_recoveries,
    make_application,
    make_loss,
    make_recovery,
    register,
)


def app_of(organization: str) -> ApplicationRef:
    """An application of that organization."""
    return ApplicationRef(
        ApplicationId(organization), OrgName(organization), AppName("loop")
    )


async def test_each_organization_keeps_its_audit_entries_as_long_as_its_row_says(
    store: Store, clock: FakeClock
) -> None:
    """Entries older than that go, younger ones stay."""
    for name, days in (("brief", 7), ("long", 90)):
        async with store.write() as work:
            await work.organizations.ensure(
                OrgName(name), audit_retention=timedelta(days=days)
            )
            await work.audit.append([engine_entry("executor.dead", app_of(name))])
    await clock.advance(timedelta(days=6))
    async with store.write() as work:
        await work.audit.append([engine_entry("executor.delete", app_of("brief"))])

    assert await purge_audit(store) == 0
    await clock.advance(timedelta(days=2))
    assert await purge_audit(store) == 1

    assert await _operations_of(store, "brief") == ["executor.delete"]
    assert await _operations_of(store, "long") == ["executor.dead"]


async def test_closed_recoveries_are_kept_as_long_as_audit_entries(
    store: Store, clock: FakeClock
) -> None:
    """Each organization's; the open ones stay however old they are."""
    for name, days in (("brief", 7), ("long", 90)):
        async with store.write() as work:
            await work.organizations.ensure(
                OrgName(name), audit_retention=timedelta(days=days)
            )
            await work.applications.insert(make_application(app_of(name)))
        await add_recoveries(
            store,
            make_recovery(f"{name}-done", "e1", app_of(name), state=RecoveryState.DONE),
            make_recovery(f"{name}-open", "e1", app_of(name)),
        )

    await clock.advance(timedelta(days=7))
    assert await purge_recoveries(store) == 0
    await clock.advance(timedelta(seconds=1))
    assert await purge_recoveries(store) == 1

    async with store.read() as work:
        left = await work.recoveries.list_all(states=None, limit=10)
    assert {record.id for record in left} == {"brief-open", "long-done", "long-open"}


async def test_counters_of_the_crash_brake_go_a_day_after_their_last_loss(
    store: Store, clock: FakeClock
) -> None:
    """Until then it may be lost again, and the counter says how often it was."""
    await register(store, APP)
    hour = timedelta(hours=1)
    async with store.write() as work:
        await work.workflow_losses.save_many(
            [
                make_loss("old", last_lost_at=clock.now()),
                make_loss("young", last_lost_at=clock.now() + hour),
            ]
        )

    await clock.advance(24 * hour)
    assert await purge_losses(store) == 0
    await clock.advance(timedelta(seconds=1))
    assert await purge_losses(store) == 1
    await clock.advance(hour)
    assert await purge_losses(store) == 1


async def _operations_of(store: Store, organization: str) -> list[str]:
    """What the audit log of `organization` holds, newest first."""
    async with store.read() as work:
        found = await work.audit.list_entries(
            OrgName(organization),
            start=None,
            end=None,
            operation=None,
            subject=None,
            target=None,
            limit=10,
            offset=0,
        )
    return [record.entry.operation for record in found]
