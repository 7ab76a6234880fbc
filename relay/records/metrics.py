"""What was counted."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from relay.ids import ApplicationId


class MetricType(StrEnum):
    """What is counted."""

    WORKFLOWS = "workflow_count"
    STEPS = "step_count"
    RECOVERIES = "recovery_count"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRecord:
    """
    How often something happened from `time_bucket` on, for the span `granularity`.

    `metric_name` is the workflow's, the step's, or the id of the executor recovered.
    """

    application_id: ApplicationId
    time_bucket: datetime
    granularity: timedelta
    metric_type: MetricType
    metric_name: str
    value: int
