"""Applications keep their settings, and deleted ones are remembered by name."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from relay.db import Database
from relay.errors import ConflictError, NotFoundError
from relay.ids import ApplicationId, OrgName
from relay.records import TombstoneRecord, VersionPolicy
from relay.store import Store
from relay.testing.clock import START, FakeClock
from tests.store.rows import (
    APP,
    LOCAL,
    OTHER_APP,
    add_executors,
    add_recoveries,
    make_application,
    make_entry,
    make_executor,
    make_key,
    make_recovery,
    register,
)

TEN_YEARS = timedelta(days=3653)


async def test_every_setting_survives_a_round_trip(store: Store) -> None:
    """What is inserted is found again, spans of ten years included."""
    await register(store)
    record = make_application(
        executor_timeout=TEN_YEARS,
        gc_time_threshold=TEN_YEARS,
        gc_rows_threshold=2**62,
        global_timeout=TEN_YEARS,
        private_mode=True,
        language="python",
        version_policy=VersionPolicy.ANY,
        imports_allowed=True,
    )

    async with store.write() as work:
        await work.applications.insert(record)

    async with store.read() as work:
        assert await work.applications.find(LOCAL, APP.name) == record
        assert await work.applications.find_by_id(APP.id) == record


async def test_find_looks_only_into_the_named_organization(store: Store) -> None:
    """The same name in another organization is another application."""
    await register(store, APP)

    async with store.read() as work:
        assert await work.applications.find(OrgName("other"), APP.name) is None
        assert await work.applications.find_by_id(ApplicationId("unknown")) is None


async def test_insert_refuses_a_taken_name_and_leaves_the_unit_usable(
    store: Store,
) -> None:
    """A conflict changes nothing, and the transaction goes on."""
    await register(store, APP)
    taken = make_application(replace(OTHER_APP, name=APP.name))

    async with store.write() as work:
        with pytest.raises(ConflictError):
            await work.applications.insert(taken)
        await work.applications.insert(make_application(OTHER_APP))

    async with store.read() as work:
        found = [record.ref for record in await work.applications.list_all()]
    assert found == [OTHER_APP, APP]


async def test_insert_refuses_an_unknown_organization(store: Store) -> None:
    """An application needs an organization."""
    async with store.write() as work:
        with pytest.raises(NotFoundError):
            await work.applications.insert(make_application())


async def test_list_by_organization_leaves_out_others(store: Store) -> None:
    """A tenant sees its own applications, by name."""
    other = OrgName("other")
    foreign = replace(APP, id=ApplicationId("app-3"), organization=other)
    await register(store, APP, OTHER_APP)
    async with store.write() as work:
        await work.organizations.ensure(other)
        await work.applications.insert(make_application(foreign))

    async with store.read() as work:
        mine = await work.applications.list_by_organization(LOCAL)
        every = await work.applications.list_all()

    assert [record.ref for record in mine] == [OTHER_APP, APP]
    assert [record.ref for record in every] == [OTHER_APP, APP, foreign]


async def test_update_writes_settings_and_says_whether_there_was_a_row(
    store: Store,
) -> None:
    """Settings change, and an unknown application changes nothing."""
    await register(store, APP)
    changed = make_application(
        executor_timeout=timedelta(milliseconds=1500), gc_rows_threshold=7
    )

    async with store.write() as work:
        assert await work.applications.update(changed)
        assert not await work.applications.update(make_application(OTHER_APP))

    async with store.read() as work:
        assert await work.applications.find_by_id(APP.id) == changed


async def test_lock_holds_an_application_until_the_end(store: Store) -> None:
    """Changes that each depend on the value before them are not lost."""
    await register(store, APP)

    async def grow() -> None:
        async with store.write() as work:
            found = await work.applications.lock(LOCAL, APP.name)
            assert found is not None
            rows = (found.gc_rows_threshold or 0) + 1
            await work.applications.update(replace(found, gc_rows_threshold=rows))

    await asyncio.gather(*(grow() for _ in range(8)))

    async with store.write() as work:
        grown = await work.applications.lock(LOCAL, APP.name)
        assert await work.applications.lock(OrgName("other"), APP.name) is None
    assert grown == make_application(gc_rows_threshold=8)


async def test_lock_settings_makes_a_change_wait(
    store: Store, database: Database
) -> None:
    """Those who derive deadlines share the settings; a change comes after them."""
    await register(store, APP, OTHER_APP)
    unknown = ApplicationId("unknown")
    changed = make_application(executor_timeout=timedelta(seconds=5))

    async def change() -> None:
        async with store.write() as work:
            await work.applications.update(changed)

    async with asyncio.TaskGroup() as tasks:
        async with store.write() as work:
            found = await work.applications.lock_settings([APP.id, unknown])
            waiting = tasks.create_task(change())
            if database.dialect == "postgresql":  # on SQLite writers take turns anyway
                async with store.write() as other:
                    shared = await other.applications.lock_settings([APP.id])
                    assert shared == found
            await FakeClock.settle()
            assert not waiting.done()
    assert found == {APP.id: make_application()}

    async with store.read() as work:
        assert await work.applications.find_by_id(APP.id) == changed


async def test_set_language_changes_nothing_else(store: Store) -> None:
    """The language follows the executors, whatever else is being changed."""
    await register(store, APP)

    async with store.write() as work:
        assert await work.applications.set_language(APP.id, "go")
        assert not await work.applications.set_language(OTHER_APP.id, "go")

    async with store.read() as work:
        found = await work.applications.find_by_id(APP.id)
    assert found == make_application(language="go")


async def test_delete_takes_everything_but_the_audit_log(store: Store) -> None:
    """Executors, ledger and tombstones go with their application, entries stay."""
    await register(store, APP, OTHER_APP)
    executor, recovery = make_executor(), make_recovery()
    bystander = make_executor("e2", OTHER_APP)
    await add_executors(store, executor, bystander)
    await add_recoveries(store, recovery)
    async with store.write() as work:
        await work.tombstones.insert(
            TombstoneRecord(
                executor=executor.ref,
                app_version=executor.app_version,
                recovery_id=recovery.id,
                deleted_at=START,
            )
        )
        await work.audit.append([make_entry(recovery_id=recovery.id)])

    async with store.write() as work:
        assert await work.applications.delete(APP.id)
        assert not await work.applications.delete(APP.id)

    async with store.read() as work:
        assert await work.applications.find_by_id(APP.id) is None
        assert await work.executors.find(executor.ref.key) is None
        assert await work.executors.find(bystander.ref.key) == bystander
        assert await work.recoveries.find(recovery.id) is None
        assert await work.tombstones.find(executor.ref.key) is None
        assert len(await work.audit.list_by_recovery(recovery.id)) == 1


async def test_delete_empties_a_key_scope_and_does_not_widen_it(store: Store) -> None:
    """A key that loses its last application covers none, not all."""
    await register(store, APP, OTHER_APP)
    one = make_key("one", application_ids=(APP.id,))
    both = make_key("both", application_ids=(APP.id, OTHER_APP.id))
    every = make_key("every")
    async with store.write() as work:
        for place, key in enumerate((one, both, every)):
            await work.keys.insert(key, bytes([place]))

    async with store.write() as work:
        await work.applications.delete(APP.id)

    async with store.read() as work:
        scopes = {
            key.name: key.application_ids for key in await work.keys.list_live(LOCAL)
        }
    assert scopes == {"one": (), "both": (OTHER_APP.id,), "every": None}


async def test_a_deleted_name_is_remembered_until_it_is_inserted(store: Store) -> None:
    """A deleted name is known as such, again after each deletion."""
    await register(store, APP)

    for _ in range(2):
        async with store.write() as work:
            assert not await work.applications.is_deleted(LOCAL, APP.name)
            await work.applications.delete(APP.id)
        async with store.write() as work:
            assert await work.applications.is_deleted(LOCAL, APP.name)
            assert not await work.applications.is_deleted(OrgName("other"), APP.name)
            await work.applications.insert(make_application())
