"""
Why a pending workflow does not move: what has become of its owner.

Pure. A socket is believed before a row: rows follow it. What the census and the ledger
do about each case is theirs; here it is told.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, assert_never

from relay.diagnosis.facts import Facts, LiveExecutors, LiveSight, OwnerStanding
from relay.diagnosis.findings import Code, Finding, known, say_instant, say_span
from relay.ids import AppVersion, ExecutorId
from relay.liveness.states import ExecutorStatus
from relay.protocol.workflows import WorkflowRow
from relay.records import RecoveryRecord, RecoveryState

SHOWN: Final = 20
"""Of a list of names in the details."""


def judge_owner(workflow: WorkflowRow, facts: Facts) -> Finding:
    """Why this pending workflow does not move, or that it runs."""
    owner = facts.owner
    if workflow.executor_id is None or owner is None:
        return Finding(
            Code.OWNER_UNKNOWN,
            "It is pending and names no executor as its owner, so that Relay cannot"
            " tell who should run it.",
            {},
            workflow.updated_at,
        )
    if owner.live is not None:
        return _judge_live(workflow, owner.live, facts.now)
    recovery = owner.recovery
    if recovery is not None and _is_of(workflow, recovery.app_version):
        return _judge_recovery(workflow, recovery, facts.live)
    if (
        recovery is not None
        and owner.facts.status in (ExecutorStatus.DEAD, None)
        and not owner.facts.is_stranger
    ):
        return _comes_next(workflow, recovery)
    return _judge_absent(workflow, owner)


def _judge_live(workflow: WorkflowRow, live: LiveSight, now: datetime) -> Finding:
    name = workflow.executor_id
    if not _is_of(workflow, live.app_version):
        return _of_another_version(workflow, live.app_version)
    details = known(
        executorId=name,
        lastSeenAt=live.last_seen_at,
        collision=live.is_colliding or None,
    )
    if not live.is_responsive:
        silence = say_span(now - live.last_seen_at)
        return Finding(
            Code.OWNER_UNRESPONSIVE,
            f"Its executor {name} is connected, and does not answer Relay's requests;"
            f" its last sign of life is {silence} old.",
            details,
        )
    if live.is_colliding:
        return Finding(
            Code.UNKNOWN,
            f"Several live processes use the id of its executor {name}; which of them"
            " runs it, if one does, is not known.",
            details,
        )
    return Finding(
        Code.RUNNING,
        f"It runs in executor {name}, which is connected and answers.",
        details,
        workflow.dequeued_at or workflow.created_at,
    )


def _judge_recovery(
    workflow: WorkflowRow, recovery: RecoveryRecord, live: LiveExecutors
) -> Finding:
    name = workflow.executor_id
    details = known(
        executorId=name,
        recoveryId=recovery.id,
        state=recovery.state.value,
        attempts=recovery.attempts,
        nextAttemptAt=recovery.next_attempt_at,
        reason=recovery.reason,
    )
    dead = f"Its executor {name} is dead"
    match recovery.state:
        case RecoveryState.READY | RecoveryState.BACKOFF:
            code = Code.RECOVERY_SCHEDULED
            sentence = f"{dead}; its recovery is due {_say_next(recovery)}."
            if recovery.state is RecoveryState.BACKOFF and recovery.reason:
                sentence += f" The last attempt: {recovery.reason}."
        case RecoveryState.WAITING:
            code = Code.RECOVERY_WAITING
            sentence = (
                f"{dead}, and no executor of the application that answers is there"
                " to take it over."
            )
        case RecoveryState.ORDERED:
            code = Code.RECOVERY_ORDERED
            sentence = f"{dead}; {_say_order(recovery)}."
            details = {**details, **known(target=recovery.target)}
        case RecoveryState.BRAKED:
            return _braked(workflow, recovery, dead, details)
        case RecoveryState.STRANDED:
            code = Code.RECOVERY_STRANDED
            version = recovery.app_version
            sentence = f"{dead}, and no executor of its version {version} is connected."
            if live.get(version):
                sentence = (
                    f"{dead}, and its work could not be handed to one of its version"
                    f" {version} yet."
                )
            details = {**details, "appVersion": version, "liveVersions": _list(live)}
        case RecoveryState.MIGRATING:
            code = Code.RECOVERY_MIGRATING
            sentence = f"{dead}; its work is being moved to another version."
        case RecoveryState.DONE | RecoveryState.RETURNED | RecoveryState.ABANDONED:
            raise AssertionError("such a recovery is not open")
        case _:
            assert_never(recovery.state)
    return Finding(code, sentence, details, recovery.lost_at or recovery.opened_at)


def _comes_next(workflow: WorkflowRow, recovery: RecoveryRecord) -> Finding:
    """Of one executor, one version is recovered at a time."""
    name = workflow.executor_id
    return Finding(
        Code.RECOVERY_SCHEDULED,
        f"Its executor {name} is dead, and its work of version {recovery.app_version}"
        f" is recovered first; that of version {workflow.app_version} is left to the"
        " next census after that.",
        known(
            executorId=name,
            recoveryId=recovery.id,
            state=recovery.state.value,
            attempts=recovery.attempts,
            reason=recovery.reason,
        ),
    )


def _braked(
    workflow: WorkflowRow,
    recovery: RecoveryRecord,
    dead: str,
    details: Mapping[str, object],
) -> Finding:
    suspects = recovery.suspect_ids
    is_suspect = workflow.workflow_id in suspects
    if is_suspect:
        who = "this workflow seems to kill its executors"
    else:
        who = "a workflow beside it seems to kill executors"
        shown = ", ".join(suspects[:3]) + (", …" if len(suspects) > 3 else "")
        who += f" ({shown})" if suspects else ""
    return Finding(
        Code.RECOVERY_BRAKED,
        f"{dead}, and its recovery is slowed down by the crash brake, because {who};"
        f" it is due {_say_next(recovery)}.",
        {
            **details,
            "suspectIds": list(suspects[:SHOWN]),
            "isSuspect": is_suspect,
            "brakeLevel": recovery.brake_level,
        },
        recovery.lost_at or recovery.opened_at,
    )


def _judge_absent(workflow: WorkflowRow, owner: OwnerStanding) -> Finding:
    """Of an owner that has no socket, and whose work nobody takes over yet."""
    name, facts = workflow.executor_id, owner.facts
    match facts.status:
        case ExecutorStatus.HEALTHY | ExecutorStatus.DISCONNECTED:
            if facts.app_version and not _is_of(workflow, facts.app_version):
                return _of_another_version(workflow, facts.app_version)
            if facts.status is ExecutorStatus.HEALTHY or owner.dead_after is None:
                return Finding(
                    Code.UNKNOWN,
                    f"Its executor {name} has no connection at this moment, and its"
                    " status is just being written. Ask again in some seconds.",
                    known(executorId=name),
                )
            return Finding(
                Code.OWNER_DISCONNECTED,
                f"Its executor {name} has lost its connection; unless it is back by"
                f" {say_instant(owner.dead_after)}, it is recovered elsewhere.",
                known(executorId=name, deadAfter=owner.dead_after),
                owner.status_since,
            )
        case ExecutorStatus.DEAD if facts.is_abandoned:
            return Finding(
                Code.RECOVERY_ABANDONED,
                f"Its executor {name} is dead, and an operator gave up on recovering"
                " its work.",
                known(executorId=name),
                facts.last_closed_at,
            )
        case ExecutorStatus.DEAD | None if facts.is_stranger:
            return _of_nobody(workflow, owner)
        case ExecutorStatus.DEAD:
            return _ended(workflow, facts.last_closed_at)
        case None:
            return _ended(workflow, facts.deleted_at)
        case _:
            assert_never(facts.status)


def _ended(workflow: WorkflowRow, ended_at: datetime | None) -> Finding:
    when = f" at {say_instant(ended_at)}" if ended_at else ""
    name = workflow.executor_id
    return Finding(
        Code.RECOVERY_ENDED,
        f"The recovery of its executor {name} ended{when}, and yet it owns pending"
        " work. The census has it recovered again, each executor once in 15 minutes at"
        " most.",
        known(executorId=name, endedAt=ended_at),
        ended_at,
    )


def _of_nobody(workflow: WorkflowRow, owner: OwnerStanding) -> Finding:
    name = workflow.executor_id
    if owner.facts.is_elsewhere:
        sentence = (
            f"Its executor {name} is known to Relay in another application only, and"
            " is not recovered for this one."
        )
    else:
        sentence = (
            f"Relay has never seen its executor {name}: it may live without a key, or"
            " have died unseen. Its work is recovered when an operator orders it."
        )
    return Finding(
        Code.OWNER_UNKNOWN,
        sentence,
        known(executorId=name, appVersion=workflow.app_version),
        owner.listed_at,
    )


def _of_another_version(workflow: WorkflowRow, there: AppVersion) -> Finding:
    name = workflow.executor_id
    return Finding(
        Code.OWNER_OTHER_VERSION,
        f"Its executor {name} has version {there} now, and it is of version"
        f" {workflow.app_version}: the process that ran it has been replaced under the"
        " same id, which cannot be recovered as long as it is there.",
        known(executorId=name, appVersion=workflow.app_version, executorVersion=there),
    )


def _is_of(workflow: WorkflowRow, version: AppVersion) -> bool:
    """Whether the workflow may be of that version: older SDKs do not say."""
    return workflow.app_version is None or workflow.app_version == version


def _say_next(recovery: RecoveryRecord) -> str:
    at = recovery.next_attempt_at
    return f"at {say_instant(at)}" if at else "now"


def _say_order(recovery: RecoveryRecord) -> str:
    when = f" at {say_instant(recovery.ordered_at)}" if recovery.ordered_at else ""
    target: ExecutorId | str = recovery.target or "another one"
    if recovery.acknowledged_at and (
        recovery.ordered_at is None or recovery.acknowledged_at >= recovery.ordered_at
    ):
        return f"{target} was ordered to take over{when}, and this is being verified"
    return f"{target} was ordered to take over{when}, and has not answered yet"


def _list(live: LiveExecutors) -> Sequence[str]:
    return sorted(live)[:SHOWN]
