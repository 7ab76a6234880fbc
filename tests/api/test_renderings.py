"""The command line and REST render the same things: their objects must not drift."""

import json
from typing import Any

from relay.census import CensusReports
from relay.cli.output import audit_object, census_object, recovery_object
from relay.ids import AppVersion, ExecutorId
from relay.registry import SHELL_ACTOR
from tests.api.braked import brake
from tests.api.house import House
from tests.census.findings import find_everything

RECOVERIES = "/relay/v1/orgs/local/apps/shop/recoveries"
CENSUS = "/relay/v1/orgs/local/apps/shop/census"
AUDIT_LOGS = "/v2/orgs/local/audit-logs"


async def order(house: House) -> Any:
    """A recovery of the application `shop`."""
    return await house.ledger.order(
        await house.register("shop"),
        ExecutorId("e1"),
        AppVersion("v1"),
        by=SHELL_ACTOR.subject,
        source_ip="",
    )


async def test_recovery_of_the_command_line_is_that_of_rest(house: House) -> None:
    """The command line adds the application, which REST has in its path."""
    record = await order(house)

    [shown] = (await house.client.get(RECOVERIES)).json()

    printed = json.loads(json.dumps(recovery_object(record, [])))
    assert printed == shown | {"application": "shop"}


async def test_suspect_of_the_command_line_is_that_of_rest(house: House) -> None:
    """One whose history is known, and one whose counter was thrown away."""
    record = await brake(house, await order(house))

    [shown] = (await house.client.get(RECOVERIES)).json()

    suspects = await house.ledger.find_suspects([record])
    printed = json.loads(json.dumps(recovery_object(record, suspects[record.id])))
    assert len(printed["suspects"]) == 2
    assert printed["suspects"] == shown["suspects"]


async def test_census_of_the_command_line_is_that_of_rest(house: House) -> None:
    """Every fact of a full one; the command line adds the application here too."""
    ref = await house.register("shop")
    await find_everything(house.store, ref)

    shown = (await house.client.get(CENSUS)).json()

    report = await CensusReports(house.store).get(ref)
    printed = json.loads(json.dumps(census_object(report)))
    assert printed == shown | {"application": "shop"}


async def test_audit_entry_of_the_command_line_is_that_of_rest(house: House) -> None:
    """With a target, with details, and with the same names in both."""
    await order(house)

    shown = (await house.client.get(AUDIT_LOGS)).json()

    printed = [audit_object(record) for record in await house.audit()]
    assert len(shown) > 1
    assert json.loads(json.dumps(printed)) == shown
