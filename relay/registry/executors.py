"""Executors as callers see them: the row, overlaid with what the socket knows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from relay.ids import ExecutorRef
from relay.protocol.sdk import OLD_SDK_WARNING, Sdk, capabilities_of
from relay.records import ExecutorRecord
from relay.registry.applications import get_application
from relay.registry.ports import Sockets
from relay.store import Store
from relay.store.executors import ExecutorKey

PAGE = 500
"""Rows read by one statement: what becomes of them is the work of one turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorView:
    """
    One executor.

    `last_seen_at` is live where a socket is open: rows follow it in batches only. It
    is never before the row's `created_at`.
    `in_flight` and `is_responsive` are those of the socket; without one nothing is in
    flight and nothing is known against it. `is_flapping`: it comes and goes all the
    time, and the audit log tells so only once. `is_safe` is False for an SDK so old
    that recovering its workflows may run a finished step again; `warnings` says so in
    words.
    """

    record: ExecutorRecord
    last_seen_at: datetime
    in_flight: int
    is_responsive: bool
    is_collision: bool
    is_flapping: bool
    is_safe: bool
    warnings: Sequence[str]


async def list_executors(
    store: Store,
    sockets: Sockets,
    application: str,
    is_flapping: Callable[[ExecutorRef], bool],
) -> Sequence[ExecutorView]:
    """
    All executors of an application until recovery forgets them, oldest first.

    Raises:
        InvalidInputError: no application can have that name.
        NotFoundError: no application has it.
    """
    views: list[ExecutorView] = []
    after: ExecutorKey | None = None
    is_last = False
    async with store.read() as work:
        owner = await get_application(work, application)
        while not is_last:
            page = await work.executors.list_by_application(
                owner.ref.id, after=after, limit=PAGE
            )
            views += [
                _view(record, sockets, is_flapping=is_flapping(record.ref))
                for record in page
            ]
            is_last = len(page) < PAGE
            after = page[-1].ref.key if page else None
    return sorted(views, key=lambda view: view.record.created_at)


def _view(
    record: ExecutorRecord, sockets: Sockets, *, is_flapping: bool
) -> ExecutorView:
    live = sockets.find(record.ref)
    # The database dates the row and this process the bytes: their clocks differ.
    seen = [record.created_at, record.last_seen_at]
    if live is not None:
        seen.append(live.last_seen_at)
    capabilities = capabilities_of(Sdk(record.language, record.dbos_version))
    return ExecutorView(
        record=record,
        last_seen_at=max(seen),
        in_flight=0 if live is None else live.in_flight,
        is_responsive=live is None or live.is_responsive,
        is_collision=sockets.is_colliding(record.ref),
        is_flapping=is_flapping,
        is_safe=capabilities.is_safe,
        warnings=() if capabilities.is_safe else (OLD_SDK_WARNING,),
    )
