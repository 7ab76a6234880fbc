"""What a row says about an executor, in the words of the liveness machine."""

from typing import assert_never

from relay.liveness.states import (
    Dead,
    Disconnected,
    ExecutorStatus,
    Grace,
    Healthy,
    State,
    Unknown,
)
from relay.records import ExecutorRecord


def state_of(record: ExecutorRecord | None) -> State:
    """The liveness state that `record` stands for; `None` is a missing row."""
    if record is None:
        return Unknown()
    match record.status:
        case ExecutorStatus.HEALTHY:
            return Healthy(epoch=record.epoch, connection_id=record.connection_id)
        case ExecutorStatus.DISCONNECTED:
            if record.dead_after is None or record.grace_started_at is None:
                raise ValueError(f"{record.ref} is DISCONNECTED without a deadline")
            return Disconnected(
                epoch=record.epoch,
                connection_id=record.connection_id,
                grace=Grace(
                    started_at=record.grace_started_at,
                    deadline=record.dead_after,
                    is_fault=record.grace_is_fault,
                ),
                unseen_starts=record.unseen_starts,
            )
        case ExecutorStatus.DEAD:
            return Dead(epoch=record.epoch, connection_id=record.connection_id)
        case _:
            assert_never(record.status)
