"""What the regular look shows and says."""

from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from relay.ids import (
    ApplicationId,
    ApplicationRef,
    AppName,
)
from relay.records import RecoveryState
from tests.recovery.records import ORGANIZATION, V2
from tests.recovery.stage import (
    Stage,
)

pytestmark = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)

DONE = RecoveryState.DONE
OTHER = ApplicationRef(ApplicationId("app-other"), ORGANIZATION, AppName("other"))


async def test_gauges_show_open_recoveries(stage: Stage) -> None:
    """Count and age of what is open, by state."""
    await stage.bury()
    stage.connect("foreign", V2)
    stage.start()
    await stage.pass_time(timedelta(seconds=20))

    read = stage.metrics.registry.get_sample_value
    labels = {"state": "STRANDED"}
    assert read("relay_recoveries", labels) == 1
    age = read("relay_recovery_oldest_seconds", labels)
    assert age is not None
    assert age >= 15


async def test_stranded_and_long_waiting_rows_raise_one_error_each(
    stage: Stage,
) -> None:
    """One line an operator can alert on, not one an attempt."""
    await stage.bury()
    await stage.add_application(OTHER)
    await stage.bury("alone", application=OTHER)
    stage.connect("foreign", V2)

    with capture_logs() as logs:
        stage.start()
        await stage.pass_time(timedelta(minutes=11))

    errors = [entry for entry in logs if entry["log_level"] == "error"]
    assert sorted((e["event"], e["executor_id"]) for e in errors) == [
        ("recovery_stranded", "dead"),
        ("recovery_waiting", "alone"),
    ]
