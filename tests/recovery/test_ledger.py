"""The operator's side of the ledger."""

from dataclasses import replace
from datetime import timedelta

import pytest

from relay.audit import engine_entry
from relay.errors import ConflictError, InvalidInputError, NotFoundError
from relay.ids import (
    ApplicationId,
    ApplicationRef,
    AppName,
    AppVersion,
    ExecutorId,
    RecoveryId,
)
from relay.liveness.states import ExecutorStatus
from relay.records import (
    AuditSubject,
    Owner,
    OwnerKind,
    RecoveryState,
)
from relay.recovery import Ledger
from relay.recovery.policy import Finish, Strand, Wait
from tests.recovery.claims import claim_one, order_one, settle
from tests.recovery.records import (
    ME,
    ORGANIZATION,
    SHOP,
    V1,
    V2,
    dead_ref,
    make_executor,
)
from tests.recovery.stage import Stage

OTHER = ApplicationRef(ApplicationId("app-other"), ORGANIZATION, AppName("other"))
SOMEBODY = AuditSubject(kind="user", id="u-1", display="Somebody")
MINUTE = timedelta(minutes=1)


async def test_recoveries_are_listed_newest_first(stage: Stage, ledger: Ledger) -> None:
    """Filtered by state, one application or all."""
    await stage.add_application(OTHER)
    old = await stage.bury("old")
    await stage.clock.advance(MINUTE)
    new = await stage.bury("new")
    await stage.clock.advance(MINUTE)
    foreign = await stage.bury("foreign", application=OTHER)
    await ledger.abandon(old, "lost cause", by=SOMEBODY)

    own = await ledger.list_recoveries(SHOP)
    ready = await ledger.list_recoveries(SHOP, states={RecoveryState.READY})
    second = await ledger.list_recoveries(SHOP, limit=1, offset=1)
    everything = await ledger.list_all()

    assert [r.id for r in own] == [new, old]
    assert [r.id for r in ready] == [new]
    assert [r.id for r in second] == [old]
    assert [r.id for r in everything] == [foreign, new, old]


async def test_recovery_tells_its_story(stage: Stage, ledger: Ledger) -> None:
    """Every audit entry of it, oldest first, and none of another."""
    recovery = await stage.bury()
    await order_one(stage)
    await ledger.abandon(recovery, "lost cause", by=SOMEBODY)

    story = await ledger.get(recovery, application=SHOP)

    assert story.record.state is RecoveryState.ABANDONED
    assert [r.entry.operation for r in story.entries] == [
        "recovery.order",
        "recovery.abandon",
    ]


async def test_a_story_begins_with_the_loss_of_the_executor(
    stage: Stage, ledger: Ledger
) -> None:
    """Its last disconnect: neither an earlier one nor that of somebody else."""

    async def note_loss(name: str, reason: str) -> None:
        async with stage.store.write() as work:
            await stage.audit.record(
                work, engine_entry("executor.disconnect", dead_ref(name), reason=reason)
            )

    recovery = await stage.bury()
    await note_loss("dead", "earlier")
    await stage.clock.advance(MINUTE)
    lost_at = stage.clock.now()
    for name in ("other", "dead", "third"):
        await note_loss(name, f"lost {name}")
    await stage.clock.advance(MINUTE)
    async with stage.store.write() as work:
        await stage.audit.record(
            work,
            engine_entry(
                "executor.dead",
                dead_ref(),
                recovery_id=recovery,
                disconnected_at=lost_at.isoformat(),
            ),
        )

    told = [record.entry for record in (await ledger.get(recovery)).entries]

    assert [(e.operation, e.details.get("reason")) for e in told] == [
        ("executor.disconnect", "lost dead"),
        ("executor.dead", None),
    ]


async def test_a_recovery_is_known_by_the_beginning_of_its_id(
    stage: Stage, ledger: Ledger
) -> None:
    """If no other begins like it; a whole id is always meant as such."""
    short, long = [
        await stage.bury("dead", epoch=3),
        await stage.bury("deadly", epoch=33),
    ]
    assert (short, long) == ("r-dead-3", "r-deadly-33")

    assert await ledger.identify("r-deadl") == long
    assert await ledger.identify("r-dead-3") == short
    with pytest.raises(NotFoundError):
        await ledger.identify("r-dead-33")
    with pytest.raises(InvalidInputError, match="at least 4 characters"):
        await ledger.identify("r-d")
    with pytest.raises(InvalidInputError, match=r"r-dead-3, r-deadly-33$"):
        await ledger.identify("r-dead")


async def test_a_beginning_of_many_ids_does_not_list_them_all(
    stage: Stage, ledger: Ledger
) -> None:
    """Ten are enough to see that more characters are needed."""
    for number in range(11):
        await stage.bury(f"dead{number}")

    with pytest.raises(InvalidInputError, match=r", …$") as caught:
        await ledger.identify("r-dead")

    assert str(caught.value).count("r-dead") == 10


async def test_recovery_of_another_application_does_not_exist(
    stage: Stage, ledger: Ledger
) -> None:
    """Whoever may see one application learns nothing of another."""
    recovery = await stage.bury()

    with pytest.raises(NotFoundError):
        await ledger.get(recovery, application=OTHER)
    with pytest.raises(NotFoundError):
        await ledger.retry(recovery, by=SOMEBODY, application=OTHER)
    with pytest.raises(NotFoundError):
        await ledger.get(RecoveryId("unknown"))


async def test_retry_makes_a_stranded_row_due(stage: Stage, ledger: Ledger) -> None:
    """At once, with delays and tried versions forgotten, and told as a release."""
    recovery = await stage.bury()
    await settle(stage, await claim_one(stage), Strand(MINUTE, "no v1"))

    returned = await ledger.retry(recovery, by=SOMEBODY, source_ip="192.0.2.1")

    stored = await stage.find(recovery)
    assert stored == returned
    assert stored.state is RecoveryState.READY
    assert stored.next_attempt_at == stage.clock.now()
    entry = (await stage.list_story(recovery))[-1].entry
    assert entry.operation == "recovery.release"
    assert entry.subject == SOMEBODY
    assert entry.source_ip == "192.0.2.1"
    assert entry.details["was"] == "STRANDED"


async def test_retry_makes_a_waiting_row_due(stage: Stage, ledger: Ledger) -> None:
    """Though nobody is connected, an operator may want to see it tried."""
    recovery = await stage.bury()
    await settle(stage, await claim_one(stage), Wait("nobody"))

    await ledger.retry(recovery, by=SOMEBODY)

    assert [c.record.id for c in await stage.make_books().claim(10)] == [recovery]


async def test_retry_is_refused_while_an_attempt_runs(
    stage: Stage, ledger: Ledger
) -> None:
    """Its order may be out; nothing changes and nothing is told."""
    recovery = await stage.bury()
    record = await order_one(stage)

    with pytest.raises(ConflictError, match="being worked on"):
        await ledger.retry(recovery, by=SOMEBODY)

    assert await stage.find(recovery) == record
    assert await stage.list_operations(recovery) == ["recovery.order"]


async def test_closed_recovery_is_final(stage: Stage, ledger: Ledger) -> None:
    """Neither tried again nor abandoned again."""
    recovery = await stage.bury()
    await ledger.abandon(recovery, "lost cause", by=SOMEBODY)

    with pytest.raises(ConflictError, match="ABANDONED"):
        await ledger.retry(recovery, by=SOMEBODY)
    with pytest.raises(ConflictError, match="ABANDONED"):
        await ledger.abandon(recovery, "again", by=SOMEBODY)


async def test_abandoning_deletes_nothing(stage: Stage, ledger: Ledger) -> None:
    """The executor's record stays, the reason is kept and told."""
    recovery = await stage.bury()

    await ledger.abandon(recovery, "  lost cause ", by=SOMEBODY)

    stored = await stage.find(recovery)
    assert (stored.reason, stored.closed_at) == ("lost cause", stage.clock.now())
    assert await stage.find_executor() is not None
    [entry] = [r.entry for r in await stage.list_story(recovery)]
    assert entry.details["reason"] == "lost cause"
    assert entry.details["was"] == "READY"


@pytest.mark.parametrize("reason", ["", "  \n", "x" * 1001, "nul\0"])
async def test_abandoning_needs_a_reason(
    stage: Stage, ledger: Ledger, reason: str
) -> None:
    """Without a usable one nothing changes."""
    recovery = await stage.bury()

    with pytest.raises(InvalidInputError) as caught:
        await ledger.abandon(recovery, reason, by=SOMEBODY)

    assert caught.value.location == "body.reason"
    assert (await stage.find(recovery)).state is RecoveryState.READY


async def test_abandoned_recovery_can_be_opened_anew(
    stage: Stage, ledger: Ledger
) -> None:
    """With the epoch of the executor's row, as the guard of every order."""
    first = await stage.bury(epoch=3)
    await ledger.abandon(first, "lost cause", by=SOMEBODY)

    second = await ledger.order(SHOP, ExecutorId("dead"), V1, by=SOMEBODY)

    assert second.id != first
    assert second.epoch == 3
    assert await stage.find(second.id) == second
    [entry] = [r.entry for r in await stage.list_story(second.id)]
    assert (entry.operation, entry.subject) == ("recovery.request", SOMEBODY)


async def test_unknown_executor_gets_a_dead_row(stage: Stage, ledger: Ledger) -> None:
    """Work of somebody whom Relay never saw can be recovered."""
    record = await ledger.order(SHOP, ExecutorId("stranger"), V2, by=SOMEBODY)

    executor = await stage.find_executor("stranger")
    assert executor is not None
    assert executor.status is ExecutorStatus.DEAD
    assert executor.app_version == V2
    assert executor.epoch == record.epoch == 1
    assert [c.record for c in await stage.make_books().claim(10)] == [
        replace(record, claimed_by=ME, revision=1)
    ]


async def test_stranger_is_recovered_in_the_version_that_the_census_found(
    stage: Stage, ledger: Ledger
) -> None:
    """Another one is a slip: nothing is pending of it, and that would be "verified"."""
    stranger = ExecutorId("stranger")
    async with stage.store.write() as work:
        await work.unknown_owners.note(
            SHOP.id, {Owner(stranger, V2): (OwnerKind.UNKNOWN, 1)}
        )

    with pytest.raises(InvalidInputError, match=f"work of version {V2}, says the"):
        await ledger.order(SHOP, stranger, V1, by=SOMEBODY)

    assert await stage.find_executor("stranger") is None
    record = await ledger.order(SHOP, stranger, V2, by=SOMEBODY)
    assert record.app_version == V2


async def test_deleted_executor_can_be_recovered_again(
    stage: Stage, ledger: Ledger
) -> None:
    """It was cut off but alive, claimed new work and died for good."""
    await stage.bury()
    await settle(stage, await claim_one(stage), Finish(is_verified=True))

    record = await ledger.order(SHOP, ExecutorId("dead"), V1, by=SOMEBODY)
    assert await settle(stage, await claim_one(stage), Finish(is_verified=True))

    assert (await stage.find(record.id)).state is RecoveryState.DONE
    assert await stage.find_executor() is None


@pytest.mark.parametrize(
    "status", [ExecutorStatus.HEALTHY, ExecutorStatus.DISCONNECTED]
)
async def test_living_executor_is_not_recovered(
    stage: Stage, ledger: Ledger, status: ExecutorStatus
) -> None:
    """Its step in flight would run a second time."""
    ref = dead_ref("alive")
    async with stage.store.write() as work:
        await work.executors.insert(make_executor(ref, status=status))

    with pytest.raises(ConflictError, match=status.value):
        await ledger.order(SHOP, ref.executor_id, V1, by=SOMEBODY)

    assert await ledger.list_all() == []


async def test_open_recovery_is_not_opened_twice(stage: Stage, ledger: Ledger) -> None:
    """The answer names the one that is open."""
    recovery = await stage.bury()

    with pytest.raises(ConflictError, match=recovery):
        await ledger.order(SHOP, ExecutorId("dead"), V1, by=SOMEBODY)


async def test_unknown_application_has_no_recoveries(ledger: Ledger) -> None:
    """It may have been deleted while the request was under way."""
    with pytest.raises(NotFoundError):
        await ledger.order(OTHER, ExecutorId("dead"), V1, by=SOMEBODY)


@pytest.mark.parametrize("text", ["", " ", "x" * 513, "\U0001f600" * 257, "nul\0"])
async def test_order_needs_an_id_and_a_version(ledger: Ledger, text: str) -> None:
    """The location says which is wrong, and no row is made."""
    with pytest.raises(InvalidInputError) as bad_id:
        await ledger.order(SHOP, ExecutorId(text), V1, by=SOMEBODY)
    with pytest.raises(InvalidInputError) as bad_version:
        await ledger.order(SHOP, ExecutorId("dead"), AppVersion(text), by=SOMEBODY)

    assert bad_id.value.location == "body.executorId"
    assert bad_version.value.location == "body.appVersion"
    assert await ledger.list_all() == []
