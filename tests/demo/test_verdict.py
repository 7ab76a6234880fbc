"""When `make demo` may say that all went well."""

from collections.abc import Sequence
from typing import TypedDict, Unpack

import pytest

from demo.stage import DemoFailedError
from demo.verdict import judge

Note = tuple[str, str, str]

DONE_BY_A: list[Note] = [("begin", "reserve", "A"), ("end", "reserve", "A")]
KILLED_IN_PACK: list[Note] = [("begin", "pack", "A")]
PACK_BY_B: list[Note] = [("begin", "pack", "B"), ("end", "pack", "B")]
SHIP_BY_B: list[Note] = [("begin", "ship", "B"), ("end", "ship", "B")]
GOOD = [*DONE_BY_A, *KILLED_IN_PACK, *PACK_BY_B, *SHIP_BY_B]


class Change(TypedDict, total=False):
    """What a test tells differently from the good story."""

    status: str
    recorded: Sequence[str]
    noted: Sequence[Note]


def tell(**change: Unpack[Change]) -> None:
    """A is killed in `pack`, B does the rest; but for what is changed."""
    judge(
        status=change.get("status", "SUCCESS"),
        planned=("reserve", "pack", "ship"),
        recorded=change.get("recorded", ("reserve",)),
        noted=change.get("noted", GOOD),
        doomed="A",
        heir="B",
    )


def test_the_good_story_passes() -> None:
    """Finished steps once, the others on B; the step that was cut off runs again."""
    tell()


def test_a_step_that_ended_unrecorded_may_run_again() -> None:
    """Killed between the end of a step and its record: DBOS promises no more."""
    tell(noted=[*DONE_BY_A, *KILLED_IN_PACK, ("end", "pack", "A"), *GOOD[3:]])


@pytest.mark.parametrize("status", ["PENDING", "ENQUEUED", "ERROR", "unknown"])
def test_a_workflow_that_did_not_succeed_fails(status: str) -> None:
    """Whatever the steps say."""
    with pytest.raises(DemoFailedError, match=f"is {status}, not SUCCESS"):
        tell(status=status)


@pytest.mark.parametrize(
    "noted",
    [
        pytest.param([*GOOD, ("begin", "reserve", "B")], id="on the heir"),
        pytest.param([*DONE_BY_A, *GOOD], id="on the dead"),
        pytest.param([("begin", "reserve", "B"), *GOOD[2:]], id="only on the heir"),
    ],
)
def test_a_finished_step_that_ran_again_fails(noted: Sequence[Note]) -> None:
    """What DBOS had recorded must never run again."""
    with pytest.raises(DemoFailedError, match="finished step 'reserve' ran twice"):
        tell(noted=noted)


@pytest.mark.parametrize(
    "noted",
    [
        pytest.param([*GOOD[:3], ("end", "pack", "A"), *SHIP_BY_B], id="on the dead"),
        pytest.param([*GOOD[:3], *SHIP_BY_B], id="nowhere"),
        pytest.param([*GOOD[:4], *SHIP_BY_B], id="without an end"),
        pytest.param([*DONE_BY_A, *PACK_BY_B, *KILLED_IN_PACK, *SHIP_BY_B], id="back"),
    ],
)
def test_work_that_stayed_on_the_dead_executor_fails(noted: Sequence[Note]) -> None:
    """Each step that was not finished has to be finished on the other one."""
    with pytest.raises(DemoFailedError, match="B did not finish step 'pack'"):
        tell(noted=noted)


def test_a_step_that_the_heir_ran_twice_fails() -> None:
    """One order, one run."""
    with pytest.raises(DemoFailedError, match="step 'ship' ran twice on executor B"):
        tell(noted=[*GOOD, *SHIP_BY_B])
