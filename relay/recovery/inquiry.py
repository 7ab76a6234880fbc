"""The question: does a dead executor still own pending work of its version?"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from relay.dispatch import Dispatcher, Peer
from relay.errors import DispatchError, NoExecutorError, UnknownMessageError
from relay.ids import ExecutorId
from relay.protocol.messages import (
    ExistPendingWorkflowsRequest,
    ListWorkflowsRequest,
    WorkflowStatus,
    WorkflowSummary,
)
from relay.records import RecoveryRecord
from relay.recovery.policy import (
    Finding,
    NoAnswer,
    NobodyToAsk,
    NothingPending,
    Unanswerable,
    WorkRemains,
)
from relay.recovery.ports import BELIEVING, Agreement

LISTING_LIMIT: Final = 101
"""One more than is shown, so that "more than 100" can be told from 100."""

_QUESTION_TIMEOUT: Final = timedelta(seconds=45)
_TRY_TIMEOUT: Final = timedelta(seconds=15)


class Inquiry:
    """
    Asks any executor of the application, whatever its own version.

    That all of them read the same database is taken for granted here, and here only: an
    executor on another one would truly see nothing pending, and be believed. So those
    come first that were found to read what the others read.
    """

    def __init__(
        self, dispatcher: Dispatcher, *, agreement: Agreement = BELIEVING
    ) -> None:
        self._dispatcher = dispatcher
        self._agreement = agreement

    async def ask(
        self, record: RecoveryRecord, *, first: ExecutorId | None = None
    ) -> Finding:
        """
        What a connected executor knows about the work of this recovery.

        Args:
            first: who is asked before all others, if connected and responsive.
        """
        request = ExistPendingWorkflowsRequest(
            record.executor.executor_id, record.app_version
        )
        try:
            peer, exists = await self._dispatcher.ask_any(
                record.executor.application,
                request,
                _QUESTION_TIMEOUT,
                attempt_timeout=_TRY_TIMEOUT,
                prefer=self._rank,
                first=first,
            )
        except NoExecutorError:
            return NobodyToAsk()
        except UnknownMessageError:
            return await self._infer(record)
        except DispatchError as error:
            return NoAnswer(str(error))
        answered_by = peer.ref.executor_id
        if not exists:
            return NothingPending(answered_by)
        return await self._count(record, peer)

    def _rank(self, peer: Peer) -> int:
        return 0 if self._agreement.is_compared(peer.ref) else 1

    async def _count(self, record: RecoveryRecord, peer: Peer) -> WorkRemains:
        """How much remains and what, as far as `peer` can list it."""
        answered_by = peer.ref.executor_id
        try:
            rows = await peer.ask(_listing(record), _TRY_TIMEOUT)
        except DispatchError:
            return WorkRemains(answered_by, None, ())
        own = [row for row in rows if _is_owned(row, record)]
        if not own:
            # Older SDKs scope or filter otherwise; the question itself was answered.
            return WorkRemains(answered_by, None, ())
        return _remaining(answered_by, own)

    async def _infer(self, record: RecoveryRecord) -> Finding:
        """The answer of SDKs that do not know the question but can list workflows."""
        try:
            peer, rows = await self._dispatcher.ask_any(
                record.executor.application,
                _listing(record),
                _QUESTION_TIMEOUT,
                attempt_timeout=_TRY_TIMEOUT,
                prefer=self._rank,
            )
        except NoExecutorError:
            return NobodyToAsk()
        except UnknownMessageError:
            return Unanswerable()
        except DispatchError as error:
            return NoAnswer(str(error))
        answered_by = peer.ref.executor_id
        own = [row for row in rows if _is_owned(row, record)]
        if own:
            return _remaining(answered_by, own)
        # Rows of others mean that the filter was not understood: the dead executor's
        # work may stand beyond the limit.
        return Unanswerable() if rows else NothingPending(answered_by)


def _listing(record: RecoveryRecord) -> ListWorkflowsRequest:
    return ListWorkflowsRequest(
        executor_ids=(record.executor.executor_id,),
        app_versions=(record.app_version,),
        statuses=(WorkflowStatus.PENDING,),
        limit=LISTING_LIMIT,
        application=record.executor.application.name,
    )


def _remaining(answered_by: ExecutorId, own: Sequence[WorkflowSummary]) -> WorkRemains:
    shown = own[: LISTING_LIMIT - 1]
    return WorkRemains(
        answered_by,
        len(own),
        tuple(row.id for row in shown),
        {row.id: row.name for row in shown if row.name},
    )


def _is_owned(row: WorkflowSummary, record: RecoveryRecord) -> bool:
    return (
        row.executor_id == record.executor.executor_id
        and row.status == WorkflowStatus.PENDING
        and row.app_version in (None, record.app_version)
    )
