"""
What the monitor is told, and what it means for the liveness of one executor.

The hub brings arrivals and departures, with everything known about them; the sweep, the
start and the reconciliation bring the rest. Their times are the hub's clock, and serve
for the audit log; a liveness event is dated by the database's clock, by which its
transaction judges deadlines.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias, assert_never

from relay.hub.events import Arrival, Departure
from relay.ids import ConnectionId, Epoch, ExecutorRef
from relay.liveness.events import (
    ConnectionLost,
    Event,
    ExecutorConnected,
    GraceElapsed,
    OwnerLost,
)
from relay.monitor.ports import LiveConnection


@dataclass(frozen=True, slots=True)
class Elapsed:
    """The sweep found that a deadline has passed."""

    ref: ExecutorRef
    deadline: datetime


@dataclass(frozen=True, slots=True)
class Orphaned:
    """The start found a row whose socket belonged to an earlier process."""

    ref: ExecutorRef
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Missing:
    """A row says on line, and there is no such socket: the loss was not recorded."""

    ref: ExecutorRef
    connection_id: ConnectionId


Ending: TypeAlias = Departure | Orphaned | Missing
"""News of a connection that is no more."""

News: TypeAlias = Arrival | Elapsed | Ending
"""Everything the monitor can be told about one executor."""


def event_of(news: News, *, at: datetime) -> Event:
    """`news` as the liveness machine understands it; `at` is the database's clock."""
    match news:
        case Arrival():
            return ExecutorConnected(
                at=at,
                connection_id=news.connection_id,
                is_collision=news.is_collision,
            )
        case Departure():
            return ConnectionLost(
                at=at, connection_id=news.connection_id, is_fault=news.is_fault
            )
        case Missing():
            return ConnectionLost(
                at=at, connection_id=news.connection_id, is_fault=True
            )
        case Elapsed():
            return GraceElapsed(at=at, deadline=news.deadline)
        case Orphaned():
            return OwnerLost(at=at, epoch=news.epoch)
        case _:
            assert_never(news)


def arrival_of(
    connection: LiveConnection, *, at: datetime, is_collision: bool
) -> Arrival:
    """The news that an open socket's arrival was, in case it was not recorded."""
    return Arrival(
        ref=connection.ref,
        connection_id=connection.id,
        at=at,
        info=connection.info,
        peer_address=connection.peer_address,
        key_name=connection.key_name,
        is_collision=is_collision,
    )
