"""Where counting an application begins."""

from relay.testing.clock import START
from tests.collection.room import PERIOD, SECOND, Room


async def test_the_first_window_begins_when_the_application_was_registered(
    room: Room,
) -> None:
    """Whoever was connected then may be forgotten by now."""
    room.create("early")
    await room.clock.advance(PERIOD)
    await room.connect("e1")

    await room.clock.advance(PERIOD + 5 * SECOND)
    await room.collect()

    [row] = await room.list_rows()
    assert (row.metric_name, row.time_bucket) == ("early", START)
    assert row.granularity == 2 * PERIOD
