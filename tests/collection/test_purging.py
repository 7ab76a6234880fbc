"""How long counts are kept."""

from datetime import timedelta

from relay.server.housekeeping import purge_metrics
from relay.store import Store
from relay.testing.clock import FakeClock
from tests.store.rows import APP, make_metric, register


async def test_counts_go_after_thirty_days(store: Store, clock: FakeClock) -> None:
    """Whole windows, by their beginning."""
    await register(store, APP)
    hour = timedelta(hours=1)
    last_end = None
    for _ in range(2):
        async with store.write() as work:
            record = make_metric(time_bucket=work.now, granularity=hour)
            end = work.now + hour
            assert await work.metrics.close_window(
                APP.id, work.now, end, [record], expected_end=last_end
            )
        last_end = end
        await clock.advance(hour)

    await clock.advance(timedelta(days=30) - 2 * hour)
    assert await purge_metrics(store) == 0
    await clock.advance(timedelta(seconds=1))
    assert await purge_metrics(store) == 1
    await clock.advance(hour)
    assert await purge_metrics(store) == 1
