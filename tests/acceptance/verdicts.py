"""What the tests of faults conclude from Relay's own records."""

from tests.acceptance.processes import RelayProcess
from tests.acceptance.stage import Stage


async def nobody_died(relay: RelayProcess) -> bool:
    """Whether nobody was ever DEAD, and nothing was ordered."""
    died = await relay.count_of("executor.dead")
    ordered = await relay.count_of("recovery.order")
    return died == ordered == 0


def each_step_began_once(stage: Stage, workflow: str, steps: int) -> bool:
    """Whether all steps of a workflow ran, and none of them twice."""
    return stage.steps.count_begun(workflow) == dict.fromkeys(range(1, steps + 1), 1)
