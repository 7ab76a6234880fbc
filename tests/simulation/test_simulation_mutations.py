"""
Each law can fail: a rule of Relay is made wrong, and that law notices.

Who adds a law shows here that it can be broken. The seeds begin with one that shows it
soon; others follow in case that the product has changed since.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import pytest

from relay.hub.hub import Hub
from relay.ids import ExecutorId, ExecutorRef
from relay.liveness import machine
from relay.liveness.events import ConnectionLost
from relay.liveness.machine import Step
from relay.liveness.policy import LivenessPolicy
from relay.liveness.states import Grace, State, Unknown
from relay.recovery import policy
from relay.recovery.attempt import Attempts
from relay.recovery.policy import Finding, Finish, WorkRemains
from relay.store.recoveries import RecoveryRepository
from tests.simulation.simulation import simulate

STEPS: Final = 4_000
SEEDS: Final = 20


@dataclass(frozen=True, slots=True)
class Mutation:
    """A rule that is left out, where it stands, and which law is about it."""

    law: str
    rule: str
    owner: Any
    name: str
    wrong: Callable[..., Any]
    first_seed: int = 0

    def __str__(self) -> str:
        return f"law {self.law}: {self.rule}"


def _nobody_is_online(hub: Hub, ref: ExecutorRef) -> bool:
    return False


def _done(*_: object, **__: object) -> Finish:
    return Finish(is_verified=True)


async def _wake_nobody(*_: object) -> int:
    return 0


async def _assume_that_work_remains(*_: object) -> Finding:
    return WorkRemains(ExecutorId("nobody"), None, ())


async def _nobody_is_unsettled(*_: object) -> None:
    return None


def _open_no_grace_after_a_fault(
    rules: LivenessPolicy, at: datetime, *, is_fault: bool
) -> Grace:
    deadline = at if is_fault else at + rules.grace
    return Grace(started_at=at, deadline=deadline, is_fault=is_fault)


_lose = machine._lose


def _lose_any(state: State, event: ConnectionLost, rules: LivenessPolicy) -> Step:
    if not isinstance(state, Unknown):
        event = replace(event, connection_id=state.connection_id)
    return _lose(state, event, rules)


MUTATIONS: Final = [
    Mutation(
        "1",
        "who is on line is not named in an order",
        Hub,
        "is_online",
        _nobody_is_online,
    ),
    Mutation(
        "2",
        "a success is verified before a record is deleted",
        policy,
        "judge_verification",
        _done,
    ),
    Mutation(
        "3",
        "an executor that connects wakes what waits for it",
        RecoveryRepository,
        "wake",
        _wake_nobody,
    ),
    Mutation(
        "4",
        "the question is asked before an order",
        Attempts,
        "_question",
        _assume_that_work_remains,
    ),
    Mutation(
        "4",
        "an order without an answer is settled before the next",
        Attempts,
        "_find_unsettled",
        _nobody_is_unsettled,
        first_seed=8,
    ),
    Mutation(
        "5",
        "who is lost through Relay has time to come back",
        LivenessPolicy,
        "open_grace",
        _open_no_grace_after_a_fault,
    ),
    Mutation(
        "6",
        "the end of an old connection is stale news",
        machine,
        "_lose",
        _lose_any,
    ),
]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=str)
def test_simulation_breaks_the_law_when_a_rule_is_left_out(
    mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutation.owner, mutation.name, mutation.wrong)

    broken = next(
        (
            outcome.broken
            for seed in range(mutation.first_seed, mutation.first_seed + SEEDS)
            if (outcome := simulate(seed, STEPS)).broken is not None
        ),
        None,
    )

    assert broken is not None, "nobody noticed"
    assert broken.law == mutation.law, broken
