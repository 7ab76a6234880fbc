"""Reading what has been collected."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Final

from relay.errors import InvalidInputError
from relay.ids import ApplicationRef
from relay.records import MetricRecord
from relay.store import Store

PAGE_ROWS: Final = 500
"""Read in one transaction, and in one turn of the loop."""

MOST_LISTED: Final = 100_000
"""In one answer: a day of an application that counts 347 names in each 5 minutes."""

MOST_COUNTED: Final = 10 * MOST_LISTED
"""Beyond which an answer that is too large is not measured: a second's work."""


class MetricReports:
    """Reads the counts that were kept, whether or not anybody is connected."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def list_between(
        self, application: ApplicationRef, start: datetime, end: datetime
    ) -> AsyncIterator[Sequence[MetricRecord]]:
        """
        The counts of all windows that begin from `start` on and before `end`.

        Yields:
            Pages, none of them empty: the oldest windows first, in each by type and
            name. Windows that are closed or purged meanwhile may be in or not.

        Raises:
            InvalidInputError: there are more than `MOST_LISTED`; before the first page.
        """
        await self._demand_few(application, start, end)
        last: MetricRecord | None = None
        is_last = False
        while not is_last:
            async with self._store.read() as work:
                page = await work.metrics.list_page(
                    application.id, start, end, after=last, limit=PAGE_ROWS
                )
            is_last = len(page) < PAGE_ROWS
            if page:
                last = page[-1]
                yield page

    async def _demand_few(
        self, application: ApplicationRef, start: datetime, end: datetime
    ) -> None:
        async with self._store.read() as work:
            number = await work.metrics.count(
                application.id, start, end, limit=MOST_COUNTED
            )
        if number > MOST_LISTED:
            at_least = "at least " if number == MOST_COUNTED else ""
            raise InvalidInputError(
                "startTime",
                f"narrow the window: it holds {at_least}{number} counts, and an answer"
                f" {MOST_LISTED} at most",
            )
