"""The callers count every call, and take nothing but an answer for an answer."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from bench.callers import Observation, observe, request
from bench.children import running_floor
from bench.workflows import Workflows, make_row, read_span

SHORT = timedelta(seconds=1)


@pytest.mark.acceptance
async def test_each_call_is_counted_and_timed(tmp_path: Path) -> None:
    async with running_floor("bare_route", _sample(tmp_path)) as bare:
        seen = await observe(
            bare.port, request("POST", "/bytes", b"{}"), callers=3, span=SHORT
        )

    assert len(seen.spans_ms) >= 3
    assert 0 < seen.p50_ms <= seen.p99_ms
    assert 0 < seen.rate <= len(seen.spans_ms) / SHORT.total_seconds()


@pytest.mark.acceptance
async def test_what_the_executor_took_is_taken_off(tmp_path: Path) -> None:
    took = timedelta(seconds=5)
    workflows = Workflows()
    answer = workflows.answer({"type": "get_workflow"}, took)["output"]
    body = json.dumps({"output": answer["Output"]}).encode()
    assert read_span(body) == took

    async with running_floor("bare_route", _sample(tmp_path)) as bare:
        seen = await observe(
            bare.port,
            request("GET", "/bytes"),
            callers=1,
            span=SHORT,
            less=lambda _: read_span(body),
        )

    assert seen.p99_ms < 0


@pytest.mark.acceptance
async def test_an_answer_that_is_no_success_ends_the_measurement(
    tmp_path: Path,
) -> None:
    async with running_floor("bare_route", _sample(tmp_path)) as bare:
        with pytest.raises(RuntimeError, match="404"):
            await observe(
                bare.port, request("GET", "/elsewhere"), callers=1, span=SHORT
            )


def test_a_delay_is_drawn_for_questions_about_workflows_alone() -> None:
    workflows = Workflows()
    workflows.answer_after(10, 20)

    drawn = [workflows.draw_delay({"type": "get_workflow"}) for _ in range(50)]

    assert all(10 <= span / timedelta(milliseconds=1) <= 20 for span in drawn)
    assert workflows.draw_delay({"type": "executor_info"}) == timedelta(0)


def test_quantiles_are_those_of_all_calls() -> None:
    seen = Observation([float(number) for number in range(100)], rate=1)

    assert (seen.p50_ms, seen.p99_ms) == (50, 99)


def _sample(directory: Path) -> str:
    path = directory / "sample.json"
    path.write_text(json.dumps(make_row(1)))
    return str(path)
