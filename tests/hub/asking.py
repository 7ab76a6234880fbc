"""The one executor of a bench, asked in the background."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from relay.hub.connection import Connection
from relay.ids import AppVersion, ExecutorId
from relay.protocol.messages import (
    ExistPendingWorkflowsRequest,
    RecoveryRequest,
    RetentionRequest,
)
from tests.hub.conftest import Bench, executor_ref
from tests.hub.test_frames import PaddingRequest

ORDER = RecoveryRequest((ExecutorId("dead-1"),))
QUESTION = ExistPendingWorkflowsRequest(ExecutorId("dead-1"), AppVersion("v1"))
RETENTION = RetentionRequest(
    gc_cutoff=None, gc_rows_threshold=None, timeout_cutoff=None
)
SPAN = timedelta(seconds=30)


class Export(PaddingRequest):
    """A request of the type that Java bears no other one beside."""

    message_type = "export_workflow"


def find(bench: Bench) -> Connection:
    connection = bench.hub.find(executor_ref())
    assert connection is not None
    return connection


def start(
    bench: Bench,
    request: Any,
    span: timedelta = SPAN,
    still_wanted: Callable[[], bool] | None = None,
) -> asyncio.Task[Any]:
    """Ask in the background."""
    return bench.hub.switchboard.tasks.spawn(
        _outcome(find(bench), request, span, still_wanted), name="ask"
    )


async def _outcome(
    connection: Connection,
    request: Any,
    span: timedelta,
    still_wanted: Callable[[], bool] | None,
) -> Any:
    try:
        return await connection.ask(request, span, still_wanted=still_wanted)
    except Exception as error:
        return error
