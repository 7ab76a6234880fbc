"""The key stands in the request line, and nowhere else."""

import logging

import pytest

from relay.hub.handshake import Refusal
from relay.testing.answers import Raw
from relay.testing.clock import FakeClock
from tests.hub.conftest import Bench, eventually, knock, open_bench

MARKER = "dbos_MARKER-key_that-nobody-may-see"


@pytest.mark.parametrize("http", ["httptools", "h11"])
async def test_key_is_in_no_log_line(
    clock: FakeClock,
    http: str,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """At debug, with every library at its most talkative, whatever goes wrong."""
    # uvicorn's trace is below debug.
    with caplog.at_level(1):
        for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "websockets"):
            logging.getLogger(name).setLevel(1)
        async with open_bench(clock=clock, http=http) as bench:
            await _do_everything(bench)
        for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "websockets"):
            logging.getLogger(name).setLevel(logging.NOTSET)

    written = capfd.readouterr()
    # The client of this test lives in the same process, and is no part of Relay.
    records = [log for log in caplog.records if log.name != "websockets.client"]
    assert records
    texts = [f"{log.getMessage()} {log.args} {log.exc_text}" for log in records]
    for text in (*texts, written.out, written.err):
        assert "MARKER" not in text


async def _do_everything(bench: Bench) -> None:
    executor = await bench.connect(key=MARKER, script={"recovery": [Raw("garbage")]})
    await executor.ping()
    await executor.close(4001, "bye")
    await eventually(lambda: bench.listener.departures)
    bench.gatekeeper.verdict = Refusal(401, "Unauthorized", "unknown key")
    answer = await knock(bench, f"/websocket/orders/{MARKER}")
    assert b"MARKER" not in answer.body
    for path in (f"/websocket/orders/{MARKER}/x", f"/websocket/%FF/{MARKER}"):
        assert (await knock(bench, path)).status == 404
    bench.gatekeeper.failure = RuntimeError("a defect")
    assert (await knock(bench, f"/websocket/orders/{MARKER}")).status == 503
    metrics = bench.metrics.registry.collect()
    assert "MARKER" not in str(list(metrics))
