"""Relay's own figures: `/metrics`."""

from typing import Annotated

from fastapi import APIRouter
from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import Response

from relay.access import Permission
from relay.registry import Actor
from relay_api.dependencies import ServerHere, reads_server

router = APIRouter()


@router.get(
    "/metrics",
    operation_id="getRelayMetrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def get_metrics(
    request: Request,
    _: Annotated[Actor, reads_server(Permission.METRIC_READ)],
    server: ServerHere,
) -> Response:
    """All figures as Prometheus or OpenMetrics text, as `Accept` asks."""
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    return Response(
        encode(server.metrics.registry), headers={"content-type": content_type}
    )
