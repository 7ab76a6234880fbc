"""
Waiting for an executor on behalf of a client, who may not wait that long.

Only for reads: a change goes on to its end, because its outcome is written down.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

from relay.tasks import TaskSet

ResultT = TypeVar("ResultT")


async def while_connected(
    request: Request, work: Coroutine[Any, Any, ResultT]
) -> ResultT:
    """
    The result of `work`, which is cancelled when the client has gone.

    The body of `request` must have been read: from here on, all that its client can
    still say is that it has gone.

    Raises:
        ClientDisconnect: it has, and nobody will read the answer.
    """
    waiting = asyncio.current_task()
    assert waiting is not None, "a coroutine runs in a task"  # noqa: S101 - tells mypy
    has_gone = False

    async def watch() -> None:
        nonlocal has_gone
        while (await request.receive())["type"] != "http.disconnect":
            pass
        has_gone = True
        waiting.cancel()

    try:
        async with TaskSet("client") as watching:
            watching.spawn(watch(), name="watch")
            return await work
    except asyncio.CancelledError:
        # Somebody else may have cancelled too, at shutdown; that comes first.
        if has_gone and not waiting.uncancel():
            raise ClientDisconnect from None
        raise
