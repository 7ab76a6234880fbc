"""The command line and REST render the same things: their objects must not drift."""

import json
from typing import Any

from relay.cli.output import audit_object, recovery_object
from relay.ids import AppVersion, ExecutorId
from relay.registry import SHELL_ACTOR
from tests.api.house import House

RECOVERIES = "/relay/v1/orgs/local/apps/shop/recoveries"
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

    printed = json.loads(json.dumps(recovery_object(record)))
    assert printed == shown | {"application": "shop"}


async def test_audit_entry_of_the_command_line_is_that_of_rest(house: House) -> None:
    """With a target, with details, and with the same names in both."""
    await order(house)

    shown = (await house.client.get(AUDIT_LOGS)).json()

    printed = [audit_object(record) for record in await house.audit()]
    assert len(shown) > 1
    assert json.loads(json.dumps(printed)) == shown
