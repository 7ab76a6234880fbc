"""
From facts to a finding: why one workflow does not move.

Pure. It is asked about one workflow at a time, and always has an answer: what cannot be
known is said to be unknown, with the reason.
"""

from typing import Final

from relay.diagnosis.facts import Facts
from relay.diagnosis.findings import Code, Finding, Gap, known, say_instant
from relay.diagnosis.owners import SHOWN, judge_owner
from relay.diagnosis.queueing import judge_place, list_takers
from relay.protocol.workflows import WorkflowRow

PENDING: Final = "PENDING"
ENQUEUED: Final = "ENQUEUED"
DELAYED: Final = "DELAYED"
UNFINISHED: Final = (PENDING, ENQUEUED, DELAYED)

_ENDS: Final = {
    "SUCCESS": "It has ended with success.",
    "ERROR": "It has ended with an error.",
    "CANCELLED": "It was cancelled.",
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": (
        "It was given up, because it was recovered more often than it may be."
    ),
}


def diagnose(workflow: WorkflowRow, facts: Facts) -> Finding:
    """Why this workflow does not move, or that it does."""
    if (sentence := _ENDS.get(workflow.status)) is not None:
        at = workflow.completed_at or workflow.updated_at
        return Finding(Code.FINISHED, sentence, {"status": workflow.status}, at)
    match workflow.status:
        case "PENDING":
            return judge_owner(workflow, facts)
        case "DELAYED":
            return _judge_delay(workflow, facts)
        case "ENQUEUED":
            return _judge_enqueued(workflow, facts)
        case status:
            return Finding(
                Code.UNKNOWN,
                f"Its status is {status}, which Relay does not know.",
                {"status": status},
            )


def _judge_delay(workflow: WorkflowRow, facts: Facts) -> Finding:
    until = workflow.delay_until
    if until is None:
        sentence = "It is delayed; its executors do not say until when."
    elif until > facts.now:
        sentence = f"It is delayed until {say_instant(until)}."
    else:
        sentence = (
            f"Its delay ended at {say_instant(until)}, and no executor has put it into"
            " its queue yet."
        )
    return Finding(
        Code.DELAYED,
        sentence,
        known(until=until, queueName=workflow.queue_name),
        workflow.created_at,
    )


def _judge_enqueued(workflow: WorkflowRow, facts: Facts) -> Finding:
    if workflow.delay_until is not None and workflow.delay_until > facts.now:
        return _judge_delay(workflow, facts)
    takers = list_takers(workflow, facts)
    if not takers:
        return _version_absent(workflow, facts)
    if facts.queue is None:
        return Finding(
            Code.UNKNOWN, "It is enqueued, and names no queue.", {}, workflow.updated_at
        )
    return judge_place(workflow, facts.queue, facts, takers)


def _version_absent(workflow: WorkflowRow, facts: Facts) -> Finding:
    live = sorted(facts.live)
    if workflow.app_version is not None:
        version, what = workflow.app_version, "its version"
    elif facts.latest is not None and not isinstance(facts.latest, Gap):
        version, what = str(facts.latest), "the latest version"
    else:
        return Finding(
            Code.VERSION_ABSENT, "No executor of the application is connected.", {}
        )
    there = ", ".join(live[:3]) + (", …" if len(live) > 3 else "")
    return Finding(
        Code.VERSION_ABSENT,
        f"It is enqueued, and no executor of {what} {version} is connected"
        + (f"; there are those of {there}." if live else "."),
        known(
            appVersion=version,
            queueName=workflow.queue_name,
            liveVersions=live[:SHOWN],
        ),
    )
