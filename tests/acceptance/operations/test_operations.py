"""Every operation works with every SDK, but for what stands in the table."""

import pytest

from tests.acceptance.environments import SDKS, Sdk, skip_without
from tests.acceptance.operations.api import APPLICATION, Api
from tests.acceptance.operations.matrix import compare, judge
from tests.acceptance.stage import Stage


@pytest.mark.parametrize("sdk", SDKS, ids=str)
async def test_operations_work_as_the_table_says(stage: Stage, sdk: Sdk) -> None:
    """A cell that is worse than in `docs/compatibility.md` fails; takes about 60 s."""
    skip_without(sdk)
    relay = await stage.relay(DBOS__METRICS_COLLECTION_PERIOD="1")
    await relay.configure(APPLICATION)
    executor = await stage.executor(sdk, "performer", relay=relay)
    await executor.perform()

    cells = await judge(Api(relay, executor))

    compare(sdk, cells)
