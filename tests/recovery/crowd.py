"""Several dead executors of one version, and what their orders name."""

from collections.abc import Sequence

from relay.ids import AppVersion, ExecutorId, RecoveryId
from relay.protocol.messages import ExistPendingWorkflowsRequest, RecoveryRequest
from relay.records import RecoveryState
from tests.recovery.records import V1
from tests.recovery.stage import FakePeer, Stage

NAMES = ("d1", "d2", "d3", "d4")


async def bury_all(
    stage: Stage, names: Sequence[str] = NAMES, version: AppVersion = V1
) -> list[RecoveryId]:
    return [await stage.bury(name, version=version) for name in names]


async def reach_all(
    stage: Stage, recoveries: Sequence[RecoveryId], *states: RecoveryState
) -> None:
    for recovery in recoveries:
        await stage.reach(recovery, *states)


def named_in(peer: FakePeer) -> list[list[str]]:
    """The executors in each order, sorted."""
    return [sorted(order.executor_ids) for order in peer.asked(RecoveryRequest)]


def assert_asked_before_each_order(peer: FakePeer) -> None:
    """Each naming of an executor follows a question about it."""
    asked: set[ExecutorId] = set()
    for request in peer.requests:
        match request:
            case ExistPendingWorkflowsRequest(executor_id):
                asked.add(executor_id)
            case RecoveryRequest(executor_ids):
                assert asked.issuperset(executor_ids)
                asked.difference_update(executor_ids)
            case _:
                pass
