"""What was collected of an application: `/v2/orgs/{orgName}/apps/{appName}/metrics`."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from relay.access import Permission
from relay.errors import InvalidInputError
from relay.records import MetricRecord, MetricType
from relay.registry import Actor
from relay_api.answers import Properties, answer_pages
from relay_api.dependencies import ApplicationName, ServerHere, reads_application
from relay_api.shapes import Answer, Instant, InstantText, format_instant
from relay_api.waiting import while_connected

router = APIRouter()


class Metric(Answer):
    """One count in one window; `granularity` is its length in seconds."""

    app_id: str
    metric_type: MetricType
    metric_name: str
    granularity: int
    time_bucket: Instant
    value: int


@router.get(
    "/v2/orgs/{orgName}/apps/{appName}/metrics",
    operation_id="listMetrics",
    response_model=list[Metric],
)
async def list_metrics(
    request: Request,
    _: Annotated[Actor, reads_application(Permission.METRIC_READ)],
    server: ServerHere,
    name: ApplicationName,
    start_time: Annotated[InstantText, Query(alias="startTime")],
    end_time: Annotated[InstantText, Query(alias="endTime")],
) -> Response:
    """
    The counts of windows that begin from `startTime` on and before `endTime`.

    More than a hundred thousand of them are refused.
    """
    if start_time >= end_time:
        raise InvalidInputError(
            "query.endTime", "must be after startTime", format_instant(end_time)
        )
    view = await server.registry.applications.get(name)
    pages = server.metric_reports.list_between(view.record.ref, start_time, end_time)
    return await while_connected(request, answer_pages(server.clock, pages, _to_metric))


def _to_metric(record: MetricRecord) -> Properties:
    # Without the shape, whose check would take longer than everything else.
    return {
        "appId": record.application_id,
        "metricType": record.metric_type.value,
        "metricName": record.metric_name,
        "granularity": record.granularity // timedelta(seconds=1),
        "timeBucket": format_instant(record.time_bucket),
        "value": record.value,
    }
