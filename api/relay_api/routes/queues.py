"""Queues: `/v2/orgs/{orgName}/apps/{appName}/queues`."""

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from relay.access import Permission
from relay.protocol.queues import QueueRow
from relay.registry import Actor
from relay_api.answers import Mirror, answer_list, answer_object
from relay_api.dependencies import (
    ApplicationName,
    QueueName,
    ServerHere,
    reads_application,
)
from relay_api.shapes import Answer, schema_property
from relay_api.waiting import while_connected

router = APIRouter(prefix="/v2/orgs/{orgName}/apps/{appName}/queues")


class Queue(Answer):
    """A queue and its limits; null is no limit."""

    schema_url: str | None = Field(default=None, serialization_alias="$schema")
    name: str
    concurrency: int | None
    worker_concurrency: int | None
    rate_limit_max: int | None
    rate_limit_period_secs: float | None
    priority_enabled: bool
    partition_queue: bool
    polling_interval_secs: float
    application_name: str | None


_QUEUE = Mirror(Queue, QueueRow)


@router.get("", operation_id="listQueues", response_model=list[Queue])
async def list_queues(
    request: Request,
    _: Annotated[Actor, reads_application(Permission.APPLICATION_READ)],
    server: ServerHere,
    name: ApplicationName,
) -> Response:
    """The queues that are stored in the application's database, by name."""
    rows = await while_connected(request, server.operations.queues.list_all(name))
    return await answer_list(server.clock, rows, _QUEUE)


@router.get("/{queueName}", operation_id="getQueue", response_model=Queue)
async def get_queue(
    request: Request,
    _: Annotated[Actor, reads_application(Permission.APPLICATION_READ)],
    server: ServerHere,
    name: ApplicationName,
    queue_name: QueueName,
) -> Response:
    """One queue."""
    row = await while_connected(request, server.operations.queues.get(name, queue_name))
    address = schema_property(server.settings, "Queue")
    return await answer_object(server.clock, {**address, **_QUEUE(row)})
