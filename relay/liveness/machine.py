"""The one function that changes our mind about an executor."""

from dataclasses import dataclass
from typing import assert_never

from relay.ids import Epoch
from relay.liveness.effects import (
    CloseConnection,
    Effect,
    ExtendGrace,
    OpenRecovery,
    RecordDead,
    RecordDisconnected,
    RecordHealthy,
    ReportCollision,
    ReportUnseen,
    ReturnFromRecovery,
)
from relay.liveness.events import (
    ConnectionLost,
    Event,
    ExecutorConnected,
    GraceElapsed,
    OwnerLost,
)
from relay.liveness.policy import LivenessPolicy
from relay.liveness.states import Dead, Disconnected, Healthy, State, Unknown


@dataclass(frozen=True, slots=True)
class Step:
    """What is believed from now on, and what is to be done about it, in order."""

    state: State
    effects: tuple[Effect, ...] = ()


def step(state: State, event: Event, policy: LivenessPolicy) -> Step:
    """
    What follows from `event`.

    Late news is no error: it leaves the state as it is and orders nothing.

    Args:
        state: What is believed about one executor.
        event: What happened to the same executor.
        policy: The rules of its application at the time of the event.
    """
    match event:
        case ExecutorConnected():
            return _connect(state, event)
        case ConnectionLost():
            return _lose(state, event, policy)
        case GraceElapsed():
            return _elapse(state, event)
        case OwnerLost():
            return _orphan(state, event, policy)
        case _:
            assert_never(event)


def _connect(state: State, event: ExecutorConnected) -> Step:
    match state:
        case Unknown():
            # An operator may have ordered the recovery of an id we do not know.
            return _go_on_line(Epoch(1), event, ReturnFromRecovery())
        case Healthy() | Disconnected() | Dead() if (
            state.connection_id == event.connection_id
        ):
            # A connection is lost once and never comes back, so this is a repetition.
            return Step(state)
        case Healthy():
            effect: Effect = (
                ReportCollision()
                if event.is_collision
                else CloseConnection(connection_id=state.connection_id)
            )
            return _go_on_line(Epoch(state.epoch + 1), event, effect)
        case Disconnected():
            return _go_on_line(Epoch(state.epoch + 1), event)
        case Dead():
            return _go_on_line(Epoch(state.epoch + 1), event, ReturnFromRecovery())
        case _:
            assert_never(state)


def _go_on_line(epoch: Epoch, event: ExecutorConnected, *then: Effect) -> Step:
    state = Healthy(epoch=epoch, connection_id=event.connection_id)
    record = RecordHealthy(epoch=epoch, connection_id=event.connection_id)
    return Step(state, (record, *then))


def _lose(state: State, event: ConnectionLost, policy: LivenessPolicy) -> Step:
    match state:
        case Healthy() if state.connection_id == event.connection_id:
            grace = policy.open_grace(event.at, is_fault=event.is_fault)
            return Step(
                Disconnected(
                    epoch=state.epoch,
                    connection_id=state.connection_id,
                    grace=grace,
                    unseen_starts=0,
                ),
                (RecordDisconnected(grace=grace, unseen_starts=0),),
            )
        case Unknown() | Healthy() | Disconnected() | Dead():
            return Step(state)
        case _:
            assert_never(state)


def _elapse(state: State, event: GraceElapsed) -> Step:
    match state:
        case Disconnected() if state.grace.deadline == event.deadline <= event.at:
            return Step(
                Dead(epoch=state.epoch, connection_id=state.connection_id),
                (RecordDead(epoch=state.epoch), OpenRecovery(epoch=state.epoch)),
            )
        case Unknown() | Healthy() | Disconnected() | Dead():
            return Step(state)
        case _:
            assert_never(state)


def _orphan(state: State, event: OwnerLost, policy: LivenessPolicy) -> Step:
    match state:
        case Healthy() | Disconnected() if state.epoch != event.epoch:
            return Step(state)
        case Healthy():
            grace = policy.open_grace(event.at, is_fault=True)
            return Step(
                Disconnected(
                    epoch=state.epoch,
                    connection_id=state.connection_id,
                    grace=grace,
                    unseen_starts=1,
                ),
                (RecordDisconnected(grace=grace, unseen_starts=1),),
            )
        case Disconnected() if state.unseen_starts >= policy.unseen_starts_limit:
            return Step(state, (ReportUnseen(unseen_starts=state.unseen_starts),))
        case Disconnected():
            grace = policy.open_grace(event.at, is_fault=True)
            unseen_starts = state.unseen_starts + 1
            return Step(
                Disconnected(
                    epoch=state.epoch,
                    connection_id=state.connection_id,
                    grace=grace,
                    unseen_starts=unseen_starts,
                ),
                (ExtendGrace(grace=grace, unseen_starts=unseen_starts),),
            )
        case Unknown() | Dead():
            return Step(state)
        case _:
            assert_never(state)
