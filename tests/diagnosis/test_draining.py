"""The versions of an application: what is gathered, also when nobody can be asked."""

from dataclasses import replace
from datetime import timedelta

from relay.db import Database
from relay.diagnosis import Diagnosis
from relay.diagnosis.drain import VersionWork
from relay.errors import NoExecutorError
from relay.ids import AppName, AppVersion, ExecutorId
from relay.liveness.states import ExecutorStatus
from relay.protocol.sdk import Sdk
from relay.protocol.statistics import WorkflowAggregatesRequest
from relay.records import DisputeRecord, DisputeSide
from tests.diagnosis.cases import enqueued, pending
from tests.diagnosis.office import Office
from tests.diagnosis.peers import NOW
from tests.operations.crew import DONE, Crew
from tests.recovery.records import (
    NOW as SEEN_AT,
)
from tests.recovery.records import (
    SHOP,
    V1,
    V2,
    dead_ref,
    make_executor,
    make_recovery,
    make_settings,
)
from tests.recovery.stage import replying

HEALTHY = ExecutorStatus.HEALTHY


async def test_each_version_shows_executors_work_and_last_sign(office: Office) -> None:
    office.executors.versions = ["v2", "v1"]
    office.peers.connect("e1", last_seen_at=NOW)
    await office.add(
        make_executor(dead_ref("e1"), status=HEALTHY),
        make_executor(dead_ref("e2"), status=HEALTHY),
        make_executor(dead_ref("e3"), app_version=V2),
    )
    office.hold(
        pending(app_version="v2"),
        enqueued("a", app_version="v2"),
        enqueued("b", app_version="v2", status="DELAYED"),
        enqueued("c", app_version=None),
        pending(workflow_id="d", status="SUCCESS"),
    )

    drain = await office.diagnosis.drain("shop")

    assert (drain.latest, drain.unversioned) == ("v2", VersionWork(enqueued=1))
    old, new = drain.versions
    assert old.crew.by_status == {HEALTHY: 2}
    assert old.crew.last_seen_at == NOW
    assert (old.work, old.is_latest, old.is_safe) == (VersionWork(), False, True)
    assert new.crew.by_status == {ExecutorStatus.DEAD: 1}
    assert new.crew.last_seen_at == SEEN_AT
    assert new.work == VersionWork(pending=1, enqueued=1, delayed=1)
    assert (new.is_latest, new.is_safe) == (True, False)
    assert len(office.executors.asked) == 2


async def test_without_an_executor_the_rows_are_shown_and_nothing_is_safe(
    office: Office,
) -> None:
    nobody = NoExecutorError(AppName("shop"))
    office.executors.failures = dict.fromkeys(
        ("get_workflow_aggregates", "list_application_versions"), nobody
    )
    await office.add(make_executor(dead_ref("e1")))

    drain = await office.diagnosis.drain("shop")

    [version] = drain.versions
    assert (drain.latest, drain.unversioned) == (None, None)
    assert (version.work, version.is_latest, version.is_safe) == (None, None, False)
    assert "no healthy executor of 'shop' is connected" in version.reason


async def test_an_open_recovery_keeps_a_version(office: Office) -> None:
    office.executors.versions = ["v2"]
    await office.add(make_recovery(dead_ref("gone")))

    drain = await office.diagnosis.drain("shop")

    old = drain.versions[0]
    assert (old.version, old.is_safe) == ("v1", False)
    assert "A recovery" in old.reason


async def test_versions_of_other_applications_in_the_database_are_not_listed(
    office: Office, database: Database
) -> None:
    """An SDK that names no owners tells of them, and the latest may be one of them."""
    crew = Crew(database)
    java = Sdk("java", "1.2.0")
    peer = crew.connect("e1", replying(DONE), version=V2, sdk=java)
    peer.on(WorkflowAggregatesRequest, replying(()))
    crew.know_versions(AppVersion("theirs"), V2, V1)
    await office.add(make_executor(dead_ref("gone"), app_version=V1))
    diagnosis = Diagnosis(
        store=office.store,
        executors=crew.executors,
        peers=office.peers,
        settings=make_settings(),
        clock=crew.clock,
    )

    drain = await diagnosis.drain("shop")

    assert drain.latest == V2
    assert [(each.version, each.is_safe) for each in drain.versions] == [
        (V1, True),
        (V2, False),
    ]


async def test_executors_that_read_different_databases_keep_every_version(
    office: Office,
) -> None:
    office.executors.versions = ["v2"]
    await office.add(make_executor(dead_ref("e1"), status=HEALTHY))
    sides = [DisputeSide(frozenset({ExecutorId(name)}), 1) for name in ("e1", "e2")]
    async with office.store.write() as work:
        await work.disputes.save(
            DisputeRecord(application_id=SHOP.id, since=NOW, sides=(sides[0], sides[1]))
        )

    drain = await office.diagnosis.drain("shop")

    assert "different databases" in drain.versions[0].reason


async def test_a_fleet_of_several_pages_is_counted_whole(office: Office) -> None:
    records = [
        make_executor(dead_ref(f"e{number:04}"), status=HEALTHY)
        for number in range(501)
    ]
    last = replace(records[-1], last_seen_at=SEEN_AT + timedelta(seconds=5))
    async with office.store.write() as work:
        await work.executors.insert_many([*records[:-1], last])

    drain = await office.diagnosis.drain("shop")

    [version] = drain.versions
    assert version.crew.by_status == {HEALTHY: 501}
    assert version.crew.last_seen_at == last.last_seen_at
