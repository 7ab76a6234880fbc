"""
What to do about pending work, given whose it is: recover it, show it, leave it.

Pure. What an executor counted comes in as one `Holding` an owner, what the rows say as
`OwnerFacts`; a `Verdict` comes out. Instants are the database's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeAlias, assert_never

from relay.ids import AppVersion, ExecutorId
from relay.liveness.states import ExecutorStatus
from relay.records import Owner, OwnerFacts, OwnerKind

REOPEN_PAUSE: Final = timedelta(minutes=15)
"""
Between two openings of the ledger for one executor.

An executor that is cut off from Relay and goes on working has its work recovered each
time, under its feet; not more often than this.
"""


@dataclass(frozen=True, slots=True)
class Holding:
    """What one owner holds: so many pending workflows of one version."""

    owner: Owner
    count: int


# --- verdicts ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Leave:
    """Somebody is at work on it, or will be."""


@dataclass(frozen=True, slots=True)
class Reopen:
    """Open the ledger: Relay knew this executor, it is gone, and it owns work."""

    reason: str


@dataclass(frozen=True, slots=True)
class Show:
    """Nobody will recover it by themselves: let the operator see it."""

    kind: OwnerKind


Verdict: TypeAlias = Leave | Reopen | Show


def is_at_work(
    holding: Holding, online: Mapping[ExecutorId, AppVersion | None]
) -> bool:
    """
    Whether the owner is connected with the version that the work is of.

    Args:
        online: connected executors and their versions.
    """
    owner = holding.owner
    return online.get(owner.executor_id) == owner.app_version


def judge(
    owner: Owner,
    facts: OwnerFacts,
    *,
    is_online: bool,
    asked_at: datetime,
    now: datetime,
) -> Verdict:
    """
    What to do about the pending work of `owner`.

    Args:
        is_online: whether an executor of that id has a socket, of whatever version.
        asked_at: an instant before the work was counted; what became of its owner since
            is newer than the count.
    """
    if facts.has_open_recovery:
        # One an executor. If it is about another version, the next census goes on.
        return Leave()
    match facts.status:
        case ExecutorStatus.HEALTHY | ExecutorStatus.DISCONNECTED:
            if facts.app_version == owner.app_version:
                return Leave()
            # An id that stays the same over deployments. Its earlier self is gone, but
            # it cannot be named in an order while it is there.
            return Show(OwnerKind.OTHER_VERSION)
        case ExecutorStatus.DEAD:
            return _judge_dead(facts, is_online=is_online, asked_at=asked_at, now=now)
        case None:
            return _judge_absent(facts, is_online=is_online, asked_at=asked_at, now=now)
        case _:
            assert_never(facts.status)


def _judge_dead(
    facts: OwnerFacts, *, is_online: bool, asked_at: datetime, now: datetime
) -> Verdict:
    """Of an executor whose record is kept, although nothing is being done about it."""
    if facts.is_abandoned:
        return Show(OwnerKind.ABANDONED)
    if is_online or _is_within(facts.last_closed_at, asked_at, now):
        return Leave()
    if facts.is_stranger:
        return _judge_stranger(facts)
    if _is_within(facts.last_opened_at, now - REOPEN_PAUSE, now):
        return Leave()
    return Reopen("a dead executor owns pending work, and its recovery has ended")


def _judge_absent(
    facts: OwnerFacts, *, is_online: bool, asked_at: datetime, now: datetime
) -> Verdict:
    """Of an executor without a record."""
    if is_online or _is_within(facts.deleted_at, asked_at, now):
        return Leave()
    if facts.is_stranger:
        return _judge_stranger(facts)
    if _is_within(facts.reopened_at, now - REOPEN_PAUSE, now):
        return Leave()
    return Reopen("an executor whose record was deleted owns pending work again")


def _judge_stranger(facts: OwnerFacts) -> Verdict:
    """Of an id that never had a socket here, even if its work was once ordered."""
    if facts.is_elsewhere:
        # Some SDKs count the whole database, whichever application they belong to.
        return Leave()
    return Show(OwnerKind.UNKNOWN)


def _is_within(instant: datetime | None, start: datetime, now: datetime) -> bool:
    # What lies ahead was written before the clock was set back. Taking it for recent
    # would put everything off for as long as that; a recovery too many asks first.
    return instant is not None and start <= instant <= now
