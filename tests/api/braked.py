"""A row that the crash brake slows down."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from relay.ids import WorkflowId
from relay.records import RecoveryRecord, RecoveryState, WorkflowLossRecord
from tests.api.house import House

LOST_AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
NEXT_AT = LOST_AT + timedelta(minutes=3)
KNOWN, FORGOTTEN = WorkflowId("known"), WorkflowId("forgotten")


async def brake(house: House, record: RecoveryRecord) -> RecoveryRecord:
    """The row with two suspects; of the second nothing more is known."""
    braked = replace(
        record,
        state=RecoveryState.BRAKED,
        lost_at=LOST_AT,
        next_attempt_at=NEXT_AT,
        pending_count=2,
        pending_ids=(KNOWN, FORGOTTEN),
        suspect_ids=(KNOWN, FORGOTTEN),
        brake_level=1,
    )
    async with house.store.write() as work:
        assert await work.recoveries.save(braked, expected_revision=record.revision)
        await work.workflow_losses.save_many(
            [
                WorkflowLossRecord(
                    application_id=record.executor.application.id,
                    workflow_id=KNOWN,
                    name="charge",
                    losses=4,
                    last_lost_at=LOST_AT,
                    handed_on_at=None,
                )
            ]
        )
        found = await work.recoveries.find(record.id)
    assert found is not None
    return found
