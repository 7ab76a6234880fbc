"""
Facts that may change what we believe about an executor.

Each carries what makes it refusable when it comes late: the connection, the deadline
or the epoch it is about. `at` is the database's clock when the fact was recorded.
"""

from dataclasses import dataclass
from datetime import datetime

from relay.ids import ConnectionId, Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorConnected:
    """
    A connection of the executor has said who it is.

    `is_collision` tells that two living processes use this id and keep throwing each
    other out: then the older connection is left alone.
    """

    at: datetime
    connection_id: ConnectionId
    is_collision: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLost:
    """
    A connection has ended, for whatever reason.

    No close code proves a stop or a crash, so none is asked for. `is_fault` tells that
    Relay caused the loss or cannot judge it.
    """

    at: datetime
    connection_id: ConnectionId
    is_fault: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GraceElapsed:
    """The deadline has passed."""

    at: datetime
    deadline: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerLost:
    """The Relay process that held the executor's connection is gone, or restarted."""

    at: datetime
    epoch: Epoch


Event = ExecutorConnected | ConnectionLost | GraceElapsed | OwnerLost
"""Everything that can happen to one executor."""
