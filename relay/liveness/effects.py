"""
Orders that follow from a fact, in the order in which they are to be carried out.

An order returns nothing; its outcome comes back as another event. What records comes
before what acts.
"""

from dataclasses import dataclass

from relay.ids import ConnectionId, Epoch
from relay.liveness.states import Grace


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordHealthy:
    """Write that the executor is on line under a new epoch."""

    epoch: Epoch
    connection_id: ConnectionId


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDisconnected:
    """Write that the executor is off line, and until when it may come back."""

    grace: Grace
    unseen_starts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendGrace:
    """Write a later deadline for an executor that is off line already."""

    grace: Grace
    unseen_starts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDead:
    """Write that the executor did not come back in time."""

    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRecovery:
    """Open the one recovery of this death, together with `RecordDead`."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class ReturnFromRecovery:
    """End the recovery of the executor, if one is open: it is on line again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseConnection:
    """Close an older connection of the executor: it is superseded."""

    connection_id: ConnectionId


@dataclass(frozen=True, slots=True)
class ReportCollision:
    """Say that two living processes use this executor id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportUnseen:
    """Say that the executor gets no further grace after this many starts of Relay."""

    unseen_starts: int


Effect = (
    RecordHealthy
    | RecordDisconnected
    | ExtendGrace
    | RecordDead
    | OpenRecovery
    | ReturnFromRecovery
    | CloseConnection
    | ReportCollision
    | ReportUnseen
)
"""Everything that may have to be done about one executor."""
