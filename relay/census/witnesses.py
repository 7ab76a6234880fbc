"""
Asking two executors whether they read one database.

::

    reference: your newest workflows?      w1 w2 w3, with the instants of their creation
    other:     do you know w1 w2 w3?       all of them: the same database
                                           not w2:
    reference: do you still know w2?       no: deleted meanwhile, it proves nothing
                                           yes: another database

Nothing here is a matter of timing: the reference has seen what it names, so that
everybody on its database must see it, however busy it is. Ids alone would not do: two
databases on which one application schedules the same workflows give them the same ids.
Reads by id reach the rows of every application in a database, whatever scope an SDK
otherwise keeps to.
"""

from collections.abc import Set
from datetime import timedelta
from enum import StrEnum
from typing import Final, TypeAlias

import structlog

from relay.dispatch import Peer
from relay.errors import DispatchError
from relay.ids import WorkflowId
from relay.protocol.messages import ListWorkflowsRequest

logger = structlog.get_logger(__name__)

Witness: TypeAlias = tuple[WorkflowId, str | None]
"""A workflow, and when it was created in milliseconds since 1970, if that was told."""

_WITNESSES: Final = 3
_ANSWER_TIMEOUT: Final = timedelta(seconds=30)


class Agreeing(StrEnum):
    """What a comparison came to."""

    SAME = "same"
    DIFFERENT = "different"
    UNCLEAR = "unclear"
    """Somebody did not answer, or what they were asked about is gone."""


async def call_witnesses(peer: Peer) -> Set[Witness] | None:
    """The newest workflows that `peer` sees, maybe none; `None` without an answer."""
    return await _list(
        peer,
        ListWorkflowsRequest(
            executor_ids=(),
            app_versions=(),
            statuses=(),
            limit=_WITNESSES,
            application=peer.ref.application.name,
            newest_first=True,
        ),
    )


async def compare(reference: Peer, witnesses: Set[Witness], other: Peer) -> Agreeing:
    """
    Whether two executors read one database.

    Args:
        witnesses: what the reference has named a moment ago; not empty.
    """
    unknown = await _find_unknown(other, witnesses)
    if not unknown:
        return Agreeing.UNCLEAR if unknown is None else Agreeing.SAME
    gone = await _find_unknown(reference, unknown)
    if gone is None or gone == witnesses:
        return Agreeing.UNCLEAR
    return Agreeing.SAME if gone == unknown else Agreeing.DIFFERENT


async def _find_unknown(peer: Peer, witnesses: Set[Witness]) -> Set[Witness] | None:
    """Those that `peer` does not know; `None` if it did not say."""
    found = await _list(
        peer,
        ListWorkflowsRequest(
            executor_ids=(),
            app_versions=(),
            statuses=(),
            limit=len(witnesses),
            workflow_ids=tuple(sorted(workflow_id for workflow_id, _ in witnesses)),
        ),
    )
    if found is None:
        return None
    if not {workflow_id for workflow_id, _ in found} <= {id_ for id_, _ in witnesses}:
        # It has not understood by what it was to look.
        return None
    return {witness for witness in witnesses if not _is_known(witness, dict(found))}


def _is_known(witness: Witness, found: dict[WorkflowId, str | None]) -> bool:
    workflow_id, created_at = witness
    if workflow_id not in found:
        return False
    return found[workflow_id] == created_at or None in (found[workflow_id], created_at)


async def _list(peer: Peer, request: ListWorkflowsRequest) -> Set[Witness] | None:
    try:
        rows = await peer.ask(request, _ANSWER_TIMEOUT)
    except DispatchError as error:
        logger.debug("comparison_unanswered", reason=str(error))
        return None
    return frozenset((row.id, row.created_at_ms) for row in rows)
