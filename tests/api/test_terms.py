"""How often each operation asks executors, for how long, and which of them."""

import pytest

from relay.dispatch import Repeat
from tests.api.contract.calls import SUCCESSES
from tests.api.contract.expected import EXPECTED
from tests.api.contract.judge import OPERATIONS, call, judge_success
from tests.api.contract.test_conformance import furnish
from tests.api.house import House
from tests.api.paper import SLOW, Terms

ASKING = sorted(name for name in SUCCESSES if 503 in EXPECTED[name].errors)
CHANGES = {
    "cancelWorkflow": Terms(message_type="cancel", repeat=Repeat.ALWAYS, within=None),
    "bulkCancelWorkflows": Terms(
        message_type="cancel", repeat=Repeat.ALWAYS, within=SLOW
    ),
    "deleteWorkflow": Terms(message_type="delete", repeat=Repeat.ALWAYS, within=None),
    "bulkDeleteWorkflows": Terms(
        message_type="delete", repeat=Repeat.ALWAYS, within=SLOW
    ),
    "resumeWorkflow": Terms(
        message_type="resume",
        repeat=Repeat.UNDELIVERED,
        within=None,
        latest_version=True,
    ),
    "bulkResumeWorkflows": Terms(
        message_type="resume",
        repeat=Repeat.UNDELIVERED,
        within=SLOW,
        latest_version=True,
    ),
    "forkWorkflow": Terms(
        message_type="fork_workflow", repeat=Repeat.ALWAYS, within=None
    ),
    "bulkForkWorkflowsFromFailure": Terms(
        message_type="fork_from_failure", repeat=Repeat.UNDELIVERED, within=SLOW
    ),
    "importWorkflow": Terms(
        message_type="import_workflow", repeat=Repeat.UNDELIVERED, within=SLOW
    ),
    "pauseSchedule": Terms(
        message_type="pause_schedule", repeat=Repeat.ALWAYS, within=None
    ),
    "resumeSchedule": Terms(
        message_type="resume_schedule", repeat=Repeat.ALWAYS, within=None
    ),
    "triggerSchedule": Terms(
        message_type="trigger_schedule", repeat=Repeat.NEVER, within=None
    ),
    "backfillSchedule": Terms(
        message_type="backfill_schedule", repeat=Repeat.NEVER, within=None
    ),
    "setLatestAppVersion": Terms(
        message_type="set_latest_application_version",
        repeat=Repeat.ALWAYS,
        within=None,
    ),
}
SLOW_READS = {"exportWorkflow": "export_workflow"}


@pytest.mark.parametrize("operation_id", ASKING)
async def test_change_is_asked_on_its_terms(house: House, operation_id: str) -> None:
    """What may be repeated, what may take long, and what needs the latest version."""
    await furnish(house)
    house.executors.terms.clear()

    answer = await call(house.client, operation_id, **SUCCESSES[operation_id][0])

    judge_success(operation_id, answer)
    changes = [terms for terms in house.executors.terms if terms.repeat is not None]
    wanted = CHANGES.get(operation_id)
    assert changes == ([] if wanted is None else [wanted])


@pytest.mark.parametrize("operation_id", ASKING)
async def test_only_what_moves_payloads_may_be_read_for_long(
    house: House, operation_id: str
) -> None:
    """Clients give up after thirty seconds."""
    await furnish(house)
    house.executors.terms.clear()

    await call(house.client, operation_id, **SUCCESSES[operation_id][0])

    spans = {t.message_type: t.within for t in house.executors.terms if not t.repeat}
    slow = {name for name, span in spans.items() if span is not None}
    assert (
        slow == {SLOW_READS[operation_id]} if operation_id in SLOW_READS else not slow
    )


def test_every_change_has_terms() -> None:
    """All that asks executors and is no read."""
    assert CHANGES.keys() == {
        name
        for name in ASKING
        if OPERATIONS[name][1] != "GET"
        and not OPERATIONS[name][0].endswith(("/search", "/aggregates"))
    }
