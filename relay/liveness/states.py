"""What we can believe about an executor."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from relay.ids import ConnectionId, Epoch


class ExecutorStatus(StrEnum):
    """The three public words for what Relay believes about an executor."""

    HEALTHY = "HEALTHY"
    DISCONNECTED = "DISCONNECTED"
    DEAD = "DEAD"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grace:
    """
    The time an executor has to come back.

    `deadline` is also its identity: a timer that fires for another one is stale.
    `is_fault` tells that Relay caused the loss, or cannot judge it, so that the least
    span for that case applies; whoever re-computes the deadline needs to know.
    """

    started_at: datetime
    deadline: datetime
    is_fault: bool


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nothing is known: never seen, or forgotten after a confirmed recovery."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Healthy:
    """It holds a connection and has said who it is."""

    epoch: Epoch
    connection_id: ConnectionId


@dataclass(frozen=True, slots=True, kw_only=True)
class Disconnected:
    """
    Its last connection ended, and its grace has not.

    `unseen_starts` counts the starts of Relay since it was last connected.
    """

    epoch: Epoch
    connection_id: ConnectionId
    grace: Grace
    unseen_starts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Dead:
    """It did not come back in time; its work belongs to the ledger."""

    epoch: Epoch
    connection_id: ConnectionId


State = Unknown | Healthy | Disconnected | Dead
"""Everything that can be believed about one executor."""
