"""Whether this process serves (`/healthz`), and whether it can work (`/readyz`)."""

from typing import Literal

from fastapi import APIRouter

from relay_api.dependencies import ServerHere
from relay_api.shapes import Answer

router = APIRouter()


class Health(Answer):
    """All is well."""

    status: Literal["ok"] = "ok"


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz", operation_id="getHealth", tags=["health"])
async def get_health() -> Health:
    """
    200 from a process that serves.

    It does not ask the database: restarting Relay would not bring that back.
    """
    return Health()


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz", operation_id="getReadiness", tags=["health"])
async def get_readiness(server: ServerHere) -> Health:
    """200 while the database answers and can be written to, 503 otherwise."""
    await server.registry.ping()
    server.monitor.check_writing()
    return Health()
