"""What an attempt sees when it decides."""

from datetime import timedelta

from relay.ids import AppVersion, ExecutorId
from relay.records import RecoveryRecord, VersionPolicy
from relay.recovery.policy import Candidate, Situation
from tests.recovery.records import V1, make_recovery


def candidate(
    name: str = "peer",
    version: AppVersion = V1,
    *,
    in_flight: int = 0,
    is_responsive: bool = True,
) -> Candidate:
    return Candidate(ExecutorId(name), version, in_flight, is_responsive)


def situation(
    *candidates: Candidate,
    record: RecoveryRecord | None = None,
    version_policy: VersionPolicy = VersionPolicy.SAME,
    hold: timedelta = timedelta(0),
    unsettled: ExecutorId | None = None,
    spread: int = 0,
) -> Situation:
    return Situation(
        record=record or make_recovery(),
        candidates=candidates,
        version_policy=version_policy,
        hold=hold,
        unsettled=unsettled,
        spread=spread,
    )
