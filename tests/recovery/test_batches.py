"""Orders that name several dead executors, and what becomes of each of them."""

from datetime import timedelta

import pytest

from relay.errors import ExecutorFailedError
from relay.ids import ExecutorId, InstanceId
from relay.protocol.messages import (
    Acknowledgement,
    ListWorkflowsRequest,
    RecoveryRequest,
)
from relay.protocol.sdk import capabilities_of
from relay.records import RecoveryState, VersionPolicy
from relay.recovery.orders import NAMED_AT_ONCE
from tests.recovery.crowd import (
    NAMES,
    assert_asked_before_each_order,
    bury_all,
    named_in,
    reach_all,
)
from tests.recovery.records import V1, V2, dead_ref
from tests.recovery.stage import DIRECT, FakePeer, Stage, lost, replying, silence

pytestmark = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)

DONE = RecoveryState.DONE


async def test_deaths_of_one_version_share_one_order(stage: Stage) -> None:
    """One frame, and for each row its own record, proof and story."""
    recoveries = await bury_all(stage)
    peer = stage.connect("peer")

    stage.start()
    await reach_all(stage, recoveries, DONE)

    assert named_in(peer) == [list(NAMES)]
    for recovery in recoveries:
        assert (await stage.find(recovery)).attempts == 1
        story = await stage.list_story(recovery)
        assert [each.entry.operation for each in story] == [
            "recovery.order",
            "recovery.verify",
            "executor.delete",
        ]
        assert story[0].entry.details["batch_size"] == len(NAMES)
    assert stage.metrics.recovery_orders.labels("acknowledged")._value.get() == 4


async def test_lone_order_says_nothing_about_a_batch(stage: Stage) -> None:
    """There is none."""
    recovery = await stage.bury()
    stage.connect("peer")

    stage.start()
    await stage.reach(recovery, DONE)

    assert "batch_size" not in (await stage.list_story(recovery))[0].entry.details


async def test_order_names_a_hundred_at_most(stage: Stage) -> None:
    """More deaths are more orders, and each death is in one of them."""
    names = [f"dead-{number:03}" for number in range(NAMED_AT_ONCE + 10)]
    recoveries = await bury_all(stage, names)
    peer = stage.connect("peer")
    peer.on(ListWorkflowsRequest, replying(()))

    stage.start()
    await reach_all(stage, recoveries, DONE)

    orders = named_in(peer)
    assert [len(order) for order in orders] == [NAMED_AT_ONCE, 10]
    assert sorted(name for order in orders for name in order) == names


async def test_versions_are_not_mixed(stage: Stage) -> None:
    """An SDK recovers its own version only, and says success to the rest."""
    first = await bury_all(stage, ("a1", "a2"), V1)
    second = await bury_all(stage, ("b1", "b2"), V2)
    peers = [stage.connect("one", V1), stage.connect("two", V2)]

    stage.start()
    await reach_all(stage, [*first, *second], DONE)

    assert [named_in(peer) for peer in peers] == [[["a1", "a2"]], [["b1", "b2"]]]


async def test_direct_sdk_never_gets_two_ids(stage: Stage) -> None:
    """It starts what it recovers on the spot: one failing call must not hide others."""
    recoveries = await bury_all(stage)
    peer = stage.connect("peer", sdk=DIRECT)

    stage.start()
    await reach_all(stage, recoveries, DONE)

    assert sorted(named_in(peer)) == [[name] for name in NAMES]


async def test_target_that_came_back_with_a_direct_sdk_gets_no_batch(
    stage: Stage,
) -> None:
    """Its socket was exchanged between the decision and the frame."""
    recoveries = await bury_all(stage)
    peer = stage.connect("peer")

    def downgrade() -> None:
        peer.capabilities = capabilities_of(DIRECT)

    async def downgrade_after_the_record(_: object) -> object:
        stage.store.on_next_commit = downgrade
        return ()

    peer.on(ListWorkflowsRequest, downgrade_after_the_record)
    stage.start()
    await reach_all(stage, recoveries, DONE)

    assert sorted(named_in(peer)) == [[name] for name in NAMES]
    assert (await stage.find(recoveries[0])).attempts == 1


async def test_target_that_came_back_with_another_version_gets_no_order(
    stage: Stage,
) -> None:
    """It would say success and recover nothing."""
    recovery = await stage.bury()
    peer = stage.connect("peer")

    def upgrade() -> None:
        stage.disconnect(peer)
        stage.connect("peer", V2)

    async def upgrade_after_the_record(_: object) -> object:
        stage.store.on_next_commit = upgrade
        return ()

    peer.on(ListWorkflowsRequest, upgrade_after_the_record)
    stage.start()
    await stage.reach(recovery, RecoveryState.STRANDED)

    [upgraded] = stage.peers.peers
    assert peer.asked(RecoveryRequest) == upgraded.asked(RecoveryRequest) == []


async def test_foreign_version_is_ordered_for_one_at_a_time(stage: Stage) -> None:
    """Whether it takes anything shows only in the question afterwards."""
    async with stage.store.write() as work:
        await work.applications.delete(dead_ref().application.id)
    await stage.add_application(version_policy=VersionPolicy.ANY)
    recoveries = await bury_all(stage)
    foreign = stage.connect("foreign", V2)

    stage.start()
    await reach_all(stage, recoveries, RecoveryState.STRANDED)

    assert sorted(named_in(foreign)) == [[name] for name in NAMES]


async def test_executor_back_in_the_moment_of_the_write_is_not_named(
    stage: Stage,
) -> None:
    """The others are ordered all the same, without another record."""
    recoveries = await bury_all(stage)
    peer = stage.connect("peer")

    async def come_back_after_the_record(_: object) -> object:
        stage.store.on_next_commit = lambda: stage.peers.online.add(dead_ref("d2"))
        return ()

    peer.on(ListWorkflowsRequest, come_back_after_the_record)
    stage.start()
    await reach_all(stage, [recoveries[0], *recoveries[2:]], DONE)

    assert named_in(peer) == [["d1", "d3", "d4"]]
    returned = await stage.find(recoveries[1])
    assert (returned.state, returned.attempts) == (RecoveryState.READY, 0)
    assert await stage.list_operations(recoveries[1]) == [
        "recovery.order",
        "recovery.release",
    ]
    assert (await stage.find(recoveries[0])).attempts == 1


async def test_batch_of_executors_that_are_all_back_is_not_sent(stage: Stage) -> None:
    """There is nobody left to name."""
    recoveries = await bury_all(stage)
    peer = stage.connect("peer")

    async def come_back_after_the_record(_: object) -> object:
        stage.store.on_next_commit = lambda: stage.peers.online.update(
            dead_ref(name) for name in NAMES
        )
        return ()

    peer.on(ListWorkflowsRequest, come_back_after_the_record)
    stage.start()
    await reach_all(stage, recoveries, RecoveryState.ORDERED, RecoveryState.READY)
    await stage.pass_time(timedelta(seconds=2))

    assert named_in(peer) == []
    assert {(await stage.find(r)).attempts for r in recoveries} == {0}


async def test_refused_batch_is_split(stage: Stage) -> None:
    """One bad row fails the whole call, so each is asked about and ordered alone."""
    recoveries = await bury_all(stage)
    peer = stage.connect("peer")

    async def choke_on_d3(request: RecoveryRequest) -> object:
        if "d3" in request.executor_ids:
            raise ExecutorFailedError(ExecutorId("peer"), "cannot read d3")
        for executor_id in request.executor_ids:
            stage.workflows.take_over(executor_id, V1)
        return Acknowledgement(success=True)

    peer.on(RecoveryRequest, choke_on_d3)
    stage.start()
    await reach_all(stage, [*recoveries[:2], recoveries[3]], DONE)
    await stage.pass_time(timedelta(seconds=20))

    first, *others = named_in(peer)
    assert first == list(NAMES)
    assert {len(names) for names in others} == {1}
    assert_asked_before_each_order(peer)
    bad = await stage.find(recoveries[2])
    assert bad.closed_at is None
    assert "cannot read d3" in (bad.reason or "")
    assert bad.attempts > 2
    assert "recovery.fail" in await stage.list_operations(recoveries[0])


async def test_batch_lost_with_its_socket_is_asked_about_and_split(
    stage: Stage,
) -> None:
    """Nobody knows how far the target came: what it took over is not ordered again."""
    recoveries = await bury_all(stage)
    dying = stage.connect("dying")
    other: list[FakePeer] = []

    async def die_halfway(request: RecoveryRequest) -> object:
        for executor_id in ("d1", "d2"):
            stage.workflows.take_over(ExecutorId(executor_id), V1)
        stage.disconnect(dying)
        other.append(stage.connect("other"))
        return await lost("dying", delivered=True)(request)

    dying.on(RecoveryRequest, die_halfway)
    stage.start()
    await reach_all(stage, recoveries, DONE)

    assert named_in(dying) == [list(NAMES)]
    assert sorted(named_in(other[0])) == [["d3"], ["d4"]]
    assert_asked_before_each_order(other[0])
    assert [(await stage.find(r)).attempts for r in recoveries] == [1, 1, 2, 2]


async def test_batch_that_killed_its_target_is_split_even_after_a_wait(
    stage: Stage,
) -> None:
    """Else the row that kills would take the others with it for ever."""
    recoveries = await bury_all(stage)
    dying = stage.connect("dying")

    async def die(request: RecoveryRequest) -> object:
        stage.disconnect(dying)
        return await lost("dying", delivered=True)(request)

    dying.on(RecoveryRequest, die)
    stage.start()
    await reach_all(stage, recoveries, RecoveryState.WAITING)
    other = stage.connect("other")
    await reach_all(stage, recoveries, DONE)

    assert sorted(named_in(other)) == [[name] for name in NAMES]


async def test_unanswered_batch_holds_up_its_rows_until_the_deadline(
    stage: Stage,
) -> None:
    """One order a death is outstanding, in a batch as alone; then each goes alone."""
    recoveries = await bury_all(stage)
    hung = stage.connect("hung")
    hung.on(RecoveryRequest, silence)
    stage.start(stage.make_engine(order_timeout_secs=20))
    await reach_all(stage, recoveries, RecoveryState.ORDERED)
    other = stage.connect("other")

    await stage.pass_time(timedelta(seconds=18))
    assert other.asked(RecoveryRequest) == []
    hung.is_responsive = False
    await reach_all(stage, recoveries, DONE)

    assert named_in(hung) == [list(NAMES)]
    assert sorted(named_in(other)) == [[name] for name in NAMES]


async def test_row_whose_work_remains_goes_on_alone(stage: Stage) -> None:
    """The others of its batch are proven and end."""
    recoveries = await bury_all(stage)
    peer = stage.connect("peer")

    async def forget_d3_in_a_batch(request: RecoveryRequest) -> object:
        for executor_id in request.executor_ids:
            if executor_id != "d3" or len(request.executor_ids) == 1:
                stage.workflows.take_over(executor_id, V1)
        return Acknowledgement(success=True)

    peer.on(RecoveryRequest, forget_d3_in_a_batch)
    stage.start()
    await reach_all(stage, recoveries, DONE)

    assert named_in(peer) == [list(NAMES), ["d3"]]
    assert_asked_before_each_order(peer)
    assert [(await stage.find(r)).attempts for r in recoveries] == [1, 1, 2, 1]


async def test_restart_with_a_batch_out_asks_about_each_row(stage: Stage) -> None:
    """What was carried out ends without an order, the rest is ordered one by one."""
    recoveries = await bury_all(stage)
    peer = stage.connect("peer")
    peer.on(RecoveryRequest, silence)
    engine = stage.start()
    await reach_all(stage, recoveries, RecoveryState.ORDERED)

    await stage.kill(engine)
    stage.workflows.take_over(ExecutorId("d1"), V1)
    peer.behaviours.clear()
    books = stage.make_books(InstanceId("next"))
    assert await books.release_orphans(set()) == len(NAMES)
    for recovery in recoveries:
        record = await stage.find(recovery)
        assert (record.state, record.claimed_by) == (RecoveryState.BACKOFF, None)
    stage.start(stage.make_engine(instance_id=InstanceId("next")))
    await reach_all(stage, recoveries, DONE)

    assert named_in(peer)[0] == list(NAMES)
    assert sorted(named_in(peer)[1:]) == [["d2"], ["d3"], ["d4"]]
    assert_asked_before_each_order(peer)


async def test_batch_whose_commit_was_not_confirmed_is_sent_once(
    stage: Stage,
) -> None:
    """The rows say that it was recorded."""
    recoveries = await bury_all(stage)
    peer = stage.connect("peer")

    async def lose_the_order(_: object) -> object:
        stage.store.lose_next_commit()
        return ()

    peer.on(ListWorkflowsRequest, lose_the_order)
    stage.start()
    await reach_all(stage, recoveries, DONE)

    assert named_in(peer) == [list(NAMES)]
    assert {(await stage.find(r)).attempts for r in recoveries} == {1}
