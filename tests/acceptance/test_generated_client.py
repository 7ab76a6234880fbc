"""A client that a generator made of the served document works, tag by tag."""

import asyncio
import json
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

from tests.acceptance.environments import HERE, PYTHON, generator
from tests.acceptance.processes import RelayProcess
from tests.acceptance.stage import Stage


async def run(*command: str, **environment: str) -> str:
    """What a program prints; it has to succeed."""
    process = await asyncio.create_subprocess_exec(
        *command, stdout=PIPE, stderr=PIPE, env=environment
    )
    answer, complaint = await process.communicate()
    assert process.returncode == 0, answer.decode() + complaint.decode()
    return answer.decode()


async def generate(relay: RelayProcess, directory: Path) -> None:
    """Make the package `generated` in `directory` of what `relay` serves."""
    document = directory / "openapi-3.0.json"
    served = await relay.http.get("/openapi-3.0.json")
    document.write_text(served.text)
    home = generator()
    await run(
        *(str(home / "bin" / "openapi-python-client"), "generate", "--meta", "none"),
        *("--path", str(document), "--output-path", str(directory / "generated")),
        PATH=str(home / "bin"),
    )


async def test_a_generated_client_serves_every_tag(stage: Stage) -> None:
    """Those that need an identity provider, alerts and autoscaling are left out."""
    relay = await stage.relay()
    await relay.configure("loop")
    executor = await stage.executor(PYTHON[0], "performer", relay=relay)
    await executor.perform()
    await generate(relay, stage.directory)

    printed = await run(
        *(
            str(generator() / "bin" / "python"),
            str(HERE / "executors/generated_smoke.py"),
        ),
        CLIENT_PATH=str(stage.directory),
        RELAY_URL=f"http://127.0.0.1:{relay.port}",
    )

    seen: dict[str, Any] = json.loads(printed)
    assert {"websocket.connect", "application.read"} <= set(seen.pop("permissions"))
    assert {"story", "story-child", "failing", "queued"} <= set(seen.pop("workflows"))
    assert "story: rain" in seen.pop("output")
    assert seen.pop("backfilled") >= 23
    assert seen.pop("steps") >= 5
    assert seen.pop("counts") >= 2
    assert seen.pop("step_counts") >= 3
    assert seen == {
        "apps": ["loop"],
        "timeout": 90,
        "executors": ["HEALTHY"],
        "token": "generated",
        "tokens": ["generated"],
        "audited": "application.create",
        "queues": ["jobs", "shut"],
        "workers": 2,
        "schedules": ["hourly", "nightly"],
        "paused": "PAUSED",
        "triggered": True,
        "versions": ["v1"],
        "metrics": True,
        "failed": ["failing"],
        "events": ["status"],
        "streams": ["lines"],
        "exported": True,
        "forked": True,
    }
