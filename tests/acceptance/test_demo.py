"""`make demo`: what a newcomer sees first."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT
from datetime import timedelta

import pytest

from tests.acceptance.environments import ROOT
from tests.acceptance.processes import CLOCK

pytestmark = pytest.mark.acceptance

STORY = (
    "executor A: HEALTHY",
    "executor B: HEALTHY",
    "SIGKILL to executor A in the middle of step 'pack'",
    "executor A: DISCONNECTED",
    "executor A: DEAD",
    "executor A: its work was ordered from executor B",
    "executor A: verified",
    "executor A: record deleted",
    "Who ran which step:",
    "pack       A was killed, then B finished it",
    "The audit log, oldest first",
    "ended SUCCESS on executor B, and no finished step ran twice",
)


async def test_the_demo_tells_the_whole_story_and_ends_well() -> None:
    """
    Status 0 within two minutes, and each turn of the story in its order.

    Relay runs with its default settings here. The hold after a start is not among what
    this shows: a store without a past has none (`test_presence` waits for it).
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "demo"),
        cwd=ROOT,
        env={**os.environ, "RELAY_PORT": "1"},  # the developer's own Relay is not it
        stdout=PIPE,
        stderr=STDOUT,
    )
    try:
        async with CLOCK.timeout(timedelta(seconds=130)):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)  # it ends what it started
            await process.wait()

    text = output.decode()
    assert process.returncode == 0, text
    places = [text.find(turn) for turn in STORY]
    assert -1 not in places, text
    assert places == sorted(places), text
