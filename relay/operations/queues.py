"""Queues as their executors know them."""

from collections.abc import Sequence

from relay.errors import NotFoundError
from relay.operations.asking import Executors
from relay.operations.clerk import Clerk
from relay.operations.scope import check_owner, is_foreign
from relay.protocol.queues import GetQueueRequest, ListQueuesRequest, QueueRow

KIND = "queue"


class Queues:
    """What can be learned about queues; raises as `Workflows` does."""

    def __init__(self, *, clerk: Clerk, executors: Executors) -> None:
        self._clerk = clerk
        self._executors = executors

    async def list_all(self, application: str) -> Sequence[QueueRow]:
        """The queues of an application, by name."""
        record = await self._clerk.find(application)
        rows = await self._executors.read(
            record, ListQueuesRequest(application=record.ref.name)
        )
        own = [row for row in rows if not is_foreign(row.application_name, record)]
        return sorted(own, key=lambda row: row.name)

    async def get(self, application: str, name: str) -> QueueRow:
        """One queue."""
        record = await self._clerk.find(application)
        row = await self._executors.read(
            record, GetQueueRequest(queue_name=name), about=(KIND, name)
        )
        if row is None:
            raise NotFoundError(KIND, name)
        check_owner(row.application_name, record, KIND, name)
        return row
