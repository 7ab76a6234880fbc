"""What is going on about one row of the ledger, in the world of the laws."""

from dataclasses import dataclass

from relay.records import (
    RecoveryRecord,
)
from relay.recovery.policy import (
    Finding,
    Order,
    OrderOutcome,
)


@dataclass(slots=True)
class Attempt:
    """
    One go at one row, taken a step at a time so that anything may happen between.

    `knows_truth` holds until the executor is on line again: since then it may have
    claimed work that nobody was asked about.
    """

    record: RecoveryRecord
    stage: str = "ask"
    finding: Finding | None = None
    before: RecoveryRecord | None = None
    order: Order | None = None
    outcome: OrderOutcome | None = None
    knows_truth: bool = False

    @property
    def name(self) -> str:
        return self.record.executor.executor_id
