"""Reading what has been collected."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from relay.ids import ApplicationRef
from relay.records import MetricRecord
from relay.store import Store

PAGE_ROWS: Final = 500
"""Read in one turn of the loop; a month of a large application has many."""


class MetricReports:
    """Reads the counts that were kept, whether or not anybody is connected."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def list_between(
        self, application: ApplicationRef, start: datetime, end: datetime
    ) -> Sequence[MetricRecord]:
        """
        The counts of all windows that begin from `start` on and before `end`.

        Returns:
            The oldest windows first, in each by type and name.
        """
        found: list[MetricRecord] = []
        async with self._store.read() as work:
            is_last = False
            while not is_last:
                page = await work.metrics.list_page(
                    application.id,
                    start,
                    end,
                    after=found[-1] if found else None,
                    limit=PAGE_ROWS,
                )
                found += page
                is_last = len(page) < PAGE_ROWS
        return found
