"""Counting workflows where they lie: `get_workflow_aggregates`."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import msgspec

from relay.ids import AppName, AppVersion, ExecutorId
from relay.protocol.frames import FrameError, read_frame
from relay.protocol.messages import WorkflowStatus
from relay.protocol.sanitising import read_text

COUNTS_LIMIT_BYTES: Final = 4 * 1024 * 1024
"""
Of a reply: about 20,000 owners of pending work.

Building more would stop the loop for longer than anything may.
"""

COUNTS_LIMIT_VALUES: Final = 150_000
"""Of a reply, too: small values are as much work as large ones."""

_COUNT_LIMIT: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class PendingCount:
    """
    How many pending workflows an executor owns of one version.

    `executor_id` and `app_version` are `None` for workflows that have none.
    """

    executor_id: ExecutorId | None
    app_version: AppVersion | None
    count: int


class _CountsReply(msgspec.Struct):
    output: Any = msgspec.UNSET


@dataclass(frozen=True, slots=True)
class GetWorkflowAggregatesRequest:
    """
    Counts the pending workflows of an application by owner and version.

    The application scopes the count to its own rows plus rows without an owner, where
    the SDK knows about owners (Java has no such scope and counts the whole database).
    Unknown to Python before 2.16, TypeScript before 4.12, Go before 0.15 and Java
    before 0.8.
    """

    application: AppName
    message_type: ClassVar[str] = "get_workflow_aggregates"

    def fields(self) -> Mapping[str, object]:
        # Each flag is sent, and none of them null, which Java refuses. The filters that
        # TypeScript 4 calls otherwise than the rest are not needed here.
        return {
            "body": {
                "group_by_status": False,
                "group_by_name": False,
                "group_by_queue_name": False,
                "group_by_executor_id": True,
                "group_by_application_version": True,
                "group_by_application_name": True,
                "select_count": True,
                "status": [WorkflowStatus.PENDING],
                "application_name": [self.application],
            }
        }

    def decode_reply(self, frame: bytes) -> tuple[PendingCount, ...]:
        """
        One count an owner and version, in no certain order; a null list is empty.

        Rows of another application, where the SDK says so, are left out.

        Raises:
            FrameError: there is no list, or an entry has no count: work that is missing
                here would be taken for finished. Or it is too large to be built.
        """
        if (
            len(frame) > COUNTS_LIMIT_BYTES
            or _count_values(frame) > COUNTS_LIMIT_VALUES
        ):
            raise FrameError(f"{len(frame)} bytes are no count of pending workflows")
        rows = read_frame(frame, _CountsReply).output
        if rows is None:
            return ()
        if not isinstance(rows, list):
            raise FrameError("the reply holds no list of counts")
        counts: Counter[tuple[str | None, str | None]] = Counter()
        for row in rows:
            group, count = _read_row(row)
            if read_text(group.get("application_name")) in (None, self.application):
                owner = read_text(group.get("executor_id"))
                counts[owner, read_text(group.get("application_version"))] += count
        return tuple(
            PendingCount(
                None if owner is None else ExecutorId(owner),
                None if version is None else AppVersion(version),
                min(count, _COUNT_LIMIT),
            )
            for (owner, version), count in counts.items()
        )


def _count_values(frame: bytes) -> int:
    """How many values a JSON text holds at most: each but one follows one of these."""
    return frame.count(b",") + frame.count(b"{") + frame.count(b"[")


def _read_row(row: object) -> tuple[Mapping[str, object], int]:
    fields = row if isinstance(row, dict) else {}
    group, count = fields.get("group"), fields.get("count")
    if not isinstance(group, dict):
        raise FrameError("the reply counts without saying what")
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise FrameError("the reply holds a group without a count")
    return group, count
