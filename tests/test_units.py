"""Seconds and milliseconds, from a number in REST to what it does."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from relay.settings import load_settings
from relay.testing.executor import FakeExecutor
from tests.serving import CLOCK, serving

APPLICATION = "/v2/orgs/local/apps/orders"
HOUR_MS = 3_600_000
LEEWAY_MS = 60_000


async def test_numbers_keep_their_units_from_rest_to_the_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seconds stay seconds in the deadline, milliseconds stay so in the message."""
    monkeypatch.chdir(tmp_path)
    settings = load_settings({"data_dir": tmp_path / "data", "port": 0})
    async with serving(settings) as relay:
        executor = await FakeExecutor.connect(relay.url)
        async with executor:
            await executor.wait_for("executor_info")
            changes = {
                "executorTimeoutSecs": 7_200,
                "gcTimeThresholdMs": 3 * HOUR_MS,
                "gcRowsThreshold": 4_321,
                "globalTimeoutMs": 5 * HOUR_MS,
            }
            answer = await relay.http.patch(APPLICATION, json=changes)
            assert answer.status_code == 204

            await relay.server.retention.dispatch_now()
            request = await executor.wait_for("retention")

        now_ms = datetime.now(UTC).timestamp() * 1000  # noqa: TID251 - as an SDK reads it
        body = request["body"]
        assert body["gc_rows_threshold"] == 4_321
        assert now_ms - body["gc_cutoff_epoch_ms"] == pytest.approx(
            3 * HOUR_MS, abs=LEEWAY_MS
        )
        assert now_ms - body["timeout_cutoff_epoch_ms"] == pytest.approx(
            5 * HOUR_MS, abs=LEEWAY_MS
        )
        read = (await relay.http.get(APPLICATION)).json()
        assert {name: read[name] for name in changes} == changes

        async with CLOCK.timeout(timedelta(seconds=20)):
            while not (lost := await _find_loss(relay.http)):
                await CLOCK.sleep(timedelta(milliseconds=50))
        assert lost["grace_secs"] == 7_200


async def _find_loss(http: httpx.AsyncClient) -> dict[str, float] | None:
    query = {"operation": "executor.disconnect"}
    entries = (await http.get("/v2/orgs/local/audit-logs", params=query)).json()
    return entries[0]["details"] if entries else None
