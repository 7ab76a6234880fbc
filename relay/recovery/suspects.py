"""The suspects of the crash brake, as operators see them."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from relay.ids import ApplicationId, RecoveryId, WorkflowId
from relay.records import RecoveryRecord
from relay.store import UnitOfWork


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """
    A workflow that seems to kill its executors, and its history.

    `losses` is how many executors in a row were lost with it pending. All but the id is
    `None` once nothing has been lost for so long that the counter was thrown away.
    """

    workflow_id: WorkflowId
    name: str | None
    losses: int | None
    last_lost_at: datetime | None


async def find_suspects(
    work: UnitOfWork, records: Collection[RecoveryRecord]
) -> Mapping[RecoveryId, Sequence[Suspect]]:
    """The suspects of each of these rows; an empty sequence where there are none."""
    ids: dict[ApplicationId, set[WorkflowId]] = defaultdict(set)
    for record in records:
        if record.suspect_ids:
            ids[record.executor.application.id].update(record.suspect_ids)
    counters = {
        application_id: await work.workflow_losses.find_many(application_id, wanted)
        for application_id, wanted in ids.items()
    }
    suspects: dict[RecoveryId, Sequence[Suspect]] = {}
    for record in records:
        known = counters.get(record.executor.application.id, {})
        suspects[record.id] = [
            Suspect(
                workflow_id=id_,
                name=counter.name if (counter := known.get(id_)) else None,
                losses=counter.losses if counter else None,
                last_lost_at=counter.last_lost_at if counter else None,
            )
            for id_ in record.suspect_ids
        ]
    return suspects
