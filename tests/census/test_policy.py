"""What becomes of pending work, by whose it is."""

from dataclasses import replace
from datetime import timedelta

import pytest

from relay.census.policy import (
    REOPEN_PAUSE,
    Holding,
    Leave,
    Reopen,
    Show,
    Verdict,
    is_at_work,
    judge,
)
from relay.ids import AppVersion, ExecutorId
from relay.liveness.states import ExecutorStatus
from relay.records import Owner, OwnerFacts, OwnerKind
from relay.testing.clock import START

E = Owner(ExecutorId("e"), AppVersion("v1"))
NOW = START
ASKED = NOW - timedelta(seconds=2)
LONG_AGO = NOW - timedelta(days=1)
MOMENT = timedelta(microseconds=1)

UNKNOWN = OwnerFacts()
DELETED = OwnerFacts(deleted_at=LONG_AGO)
DEAD = OwnerFacts(
    status=ExecutorStatus.DEAD,
    app_version=E.app_version,
    last_opened_at=LONG_AGO,
    last_closed_at=LONG_AGO,
)


def verdict_on(facts: OwnerFacts, *, is_online: bool = False) -> Verdict:
    return judge(E, facts, is_online=is_online, asked_at=ASKED, now=NOW)


def test_an_owner_that_is_connected_is_at_work_on_its_own_version() -> None:
    """Nothing more has to be known of those: in a healthy fleet, of anybody."""
    holding = Holding(E, 3)

    assert is_at_work(holding, {E.executor_id: AppVersion("v1")})
    assert not is_at_work(holding, {E.executor_id: AppVersion("v2")})
    assert not is_at_work(holding, {ExecutorId("other"): AppVersion("v1")})
    assert not is_at_work(holding, {})


@pytest.mark.parametrize(
    "status", [ExecutorStatus.HEALTHY, ExecutorStatus.DISCONNECTED]
)
def test_an_executor_that_is_there_is_left_alone(status: ExecutorStatus) -> None:
    """It is at work, or its death will open the ledger."""
    facts = OwnerFacts(status=status, app_version=E.app_version)

    assert verdict_on(facts) == Leave()


@pytest.mark.parametrize(
    "status", [ExecutorStatus.HEALTHY, ExecutorStatus.DISCONNECTED]
)
def test_work_of_an_earlier_version_of_the_same_id_is_shown(
    status: ExecutorStatus,
) -> None:
    """An id that stays the same over a deployment: it must not be named while there."""
    facts = OwnerFacts(status=status, app_version=AppVersion("v2"))

    assert verdict_on(facts) == Show(OwnerKind.OTHER_VERSION)


@pytest.mark.parametrize("facts", [UNKNOWN, DELETED, DEAD])
def test_an_open_recovery_has_the_work_already(facts: OwnerFacts) -> None:
    """However it was opened, and whatever version it is about."""
    assert verdict_on(replace(facts, has_open_recovery=True)) == Leave()


@pytest.mark.parametrize("facts", [UNKNOWN, DELETED, DEAD])
def test_an_owner_with_a_socket_is_left_alone(facts: OwnerFacts) -> None:
    """The rows do not say yet that it has come."""
    assert verdict_on(facts, is_online=True) == Leave()


def test_a_deleted_executor_that_owns_work_again_is_reopened() -> None:
    """It was cut off but alive, was recovered, claimed new work and died unseen."""
    assert isinstance(verdict_on(DELETED), Reopen)


def test_a_deletion_since_the_question_is_newer_than_the_count() -> None:
    """What was counted may be what its recovery has just dealt with."""
    assert verdict_on(OwnerFacts(deleted_at=ASKED)) == Leave()
    assert isinstance(verdict_on(OwnerFacts(deleted_at=ASKED - MOMENT)), Reopen)


def test_a_deleted_executor_is_reopened_once_in_a_while() -> None:
    """If it lives, its work is taken from under its feet each time."""
    recent = replace(DELETED, reopened_at=NOW - REOPEN_PAUSE)
    older = replace(DELETED, reopened_at=NOW - REOPEN_PAUSE - MOMENT)

    assert verdict_on(recent) == Leave()
    assert isinstance(verdict_on(older), Reopen)


def test_a_dead_executor_whose_recovery_has_ended_is_reopened() -> None:
    """It could not be verified, say, and now somebody says that work is left."""
    assert isinstance(verdict_on(DEAD), Reopen)


def test_a_dead_executor_without_any_recovery_is_reopened() -> None:
    """Whatever led to it, nobody else would come to it."""
    assert isinstance(verdict_on(OwnerFacts(status=ExecutorStatus.DEAD)), Reopen)


def test_a_recovery_that_ended_since_the_question_is_newer_than_the_count() -> None:
    """As with a deletion."""
    assert verdict_on(replace(DEAD, last_closed_at=ASKED)) == Leave()


def test_a_dead_executor_is_reopened_once_in_a_while() -> None:
    """The pause counts from the last opening, by whomever."""
    recent = replace(DEAD, last_opened_at=NOW - REOPEN_PAUSE)
    older = replace(DEAD, last_opened_at=NOW - REOPEN_PAUSE - MOMENT)

    assert verdict_on(recent) == Leave()
    assert isinstance(verdict_on(older), Reopen)


@pytest.mark.parametrize(
    "facts",
    [
        replace(DELETED, deleted_at=NOW + MOMENT),
        replace(DELETED, reopened_at=NOW + MOMENT),
        replace(DEAD, last_opened_at=NOW + MOMENT),
        replace(DEAD, last_closed_at=NOW + MOMENT),
    ],
)
def test_what_seems_to_be_to_come_is_no_reason_to_wait(facts: OwnerFacts) -> None:
    """The clock was set back since; nothing would be reopened for as long as that."""
    assert isinstance(verdict_on(facts), Reopen)


def test_what_an_operator_gave_up_on_stays_given_up() -> None:
    """It is shown, so that it is not forgotten."""
    facts = replace(DEAD, is_abandoned=True)

    assert verdict_on(facts) == Show(OwnerKind.ABANDONED)


def test_a_stranger_is_shown_and_never_ordered() -> None:
    """It may live, without a key or with a wrong one."""
    assert verdict_on(UNKNOWN) == Show(OwnerKind.UNKNOWN)


def test_a_stranger_stays_one_when_its_recovery_has_ended() -> None:
    """The row guarded an operator's order; nobody knows whether there is a process."""
    stranger = replace(DEAD, is_placeholder=True)

    assert verdict_on(stranger) == Show(OwnerKind.UNKNOWN)
    assert verdict_on(replace(stranger, is_elsewhere=True)) == Leave()
    assert verdict_on(replace(stranger, last_closed_at=ASKED)) == Leave()
    assert verdict_on(stranger, is_online=True) == Leave()
    given_up = replace(stranger, is_abandoned=True)
    assert verdict_on(given_up) == Show(OwnerKind.ABANDONED)


def test_a_row_of_a_forgotten_executor_makes_no_stranger_of_it() -> None:
    """It was connected before its record was deleted."""
    forgotten = replace(DEAD, is_placeholder=True, deleted_at=LONG_AGO)

    assert isinstance(verdict_on(forgotten), Reopen)


def test_an_executor_of_another_application_is_no_stranger() -> None:
    """Some SDKs count the whole database."""
    assert verdict_on(OwnerFacts(is_elsewhere=True)) == Leave()
