"""
Two sides of a dispute: who reads which database, and when it is over.

Pure. Nobody can tell which of two databases is the right one; what can be told is
whether anybody is left who would have to be asked.
"""

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum

from relay.ids import ExecutorId
from relay.liveness.states import ExecutorStatus
from relay.records import DisputeRecord, DisputeSide


class Standing(StrEnum):
    """What an executor of a dispute still has to do with it."""

    PRESENT = "present"
    """It is connected, or may come back within its grace."""

    OWED = "owed"
    """It is dead, and its recovery has not ended."""

    GONE = "gone"
    """It is not known any more, or nothing is to be done about it."""


def standing_of(
    row: tuple[ExecutorStatus, bool] | None, *, is_online: bool
) -> Standing:
    """
    Where an executor stands.

    Args:
        row: its status, and whether it has an open recovery; `None` without a record.
    """
    if is_online or (row is not None and row[0] is not ExecutorStatus.DEAD):
        return Standing.PRESENT
    return Standing.OWED if row is not None and row[1] else Standing.GONE


def seated(
    dispute: DisputeRecord, connected: Mapping[ExecutorId, int]
) -> DisputeRecord:
    """
    The dispute with those who are connected now on their sides.

    Args:
        connected: executors that were compared, to the place of their side. One that
            has changed sides leaves the other.
    """
    first, second = (
        DisputeSide(
            (side.executor_ids - connected.keys()) | here, max(side.most, len(here))
        )
        for side, here in (
            (side, frozenset(id_ for id_, at in connected.items() if at == place))
            for place, side in enumerate(dispute.sides)
        )
    )
    return replace(dispute, sides=(first, second))


def without_gone(
    dispute: DisputeRecord, standings: Mapping[ExecutorId, Standing]
) -> DisputeRecord:
    """The dispute without those that have nothing to do with it any more."""
    first, second = (
        replace(
            side,
            executor_ids=frozenset(
                id_ for id_ in side.executor_ids if standings[id_] is not Standing.GONE
            ),
        )
        for side in dispute.sides
    )
    return replace(dispute, sides=(first, second))


def is_over(dispute: DisputeRecord, standings: Mapping[ExecutorId, Standing]) -> bool:
    """
    Whether those who are left may be believed again.

    A side that was always smaller than the one that is left is over when it has left:
    it was the mistake. Otherwise, nobody knows which side was the mistake, and each
    recovery of a side that has left has to end first: an executor of the other database
    would truly see nothing pending, and the record would be deleted on its word.

    Args:
        standings: of everybody on either side.
    """
    first, second = dispute.sides
    return _has_left(first, second, standings) or _has_left(second, first, standings)


def _has_left(
    side: DisputeSide, other: DisputeSide, standings: Mapping[ExecutorId, Standing]
) -> bool:
    if _has(Standing.PRESENT, side, standings):
        return False
    if not _has(Standing.OWED, side, standings):
        return True
    return side.most < other.most and _has(Standing.PRESENT, other, standings)


def _has(
    standing: Standing,
    side: DisputeSide,
    standings: Mapping[ExecutorId, Standing],
) -> bool:
    return any(standings[id_] is standing for id_ in side.executor_ids)


def place_of(dispute: DisputeRecord, executor_id: ExecutorId) -> int | None:
    """The place of the side on which an executor is known to be."""
    for place, side in enumerate(dispute.sides):
        if executor_id in side.executor_ids:
            return place
    return None
