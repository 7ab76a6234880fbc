"""
Exchanges with real executors, retold.

`recorded/<sdk>-<version>.jsonl` holds what four published SDKs answered: the keys,
their order, nulls and types are theirs, names and numbers are ours. `ask` is the
request as its constructor takes it (null for a message that Relay does not send),
`expect` the decoded reply, or how the error ends.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import msgspec

from relay.protocol import Request
from relay.protocol.aggregates import GetWorkflowAggregatesRequest
from relay.protocol.messages import (
    ExecutorInfoRequest,
    ExistPendingWorkflowsRequest,
    ListWorkflowsRequest,
    RecoveryRequest,
    RetentionRequest,
)
from relay.protocol.queues import GetQueueRequest, ListQueuesRequest
from relay.protocol.schedules import (
    BackfillScheduleRequest,
    GetScheduleRequest,
    ListSchedulesRequest,
    PauseScheduleRequest,
    ResumeScheduleRequest,
    TriggerScheduleRequest,
)
from relay.protocol.statistics import (
    GetMetricsRequest,
    StepAggregatesRequest,
    WorkflowAggregatesRequest,
)
from relay.protocol.versions import (
    ListApplicationVersionsRequest,
    SetLatestApplicationVersionRequest,
)

REQUEST_TYPES: Final[tuple[Any, ...]] = (
    ExecutorInfoRequest,
    RecoveryRequest,
    ExistPendingWorkflowsRequest,
    ListWorkflowsRequest,
    GetWorkflowAggregatesRequest,
    RetentionRequest,
    ListQueuesRequest,
    GetQueueRequest,
    ListSchedulesRequest,
    GetScheduleRequest,
    PauseScheduleRequest,
    ResumeScheduleRequest,
    TriggerScheduleRequest,
    BackfillScheduleRequest,
    ListApplicationVersionsRequest,
    SetLatestApplicationVersionRequest,
    WorkflowAggregatesRequest,
    StepAggregatesRequest,
    GetMetricsRequest,
)
"""Each class of which an answer is recorded; of one message the first that fits."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One question and one answer; `request` is `None` if we do not ask it yet."""

    name: str
    sdk: str
    version: str
    request: Request[Any] | None
    frame: bytes
    expect: Any

    @property
    def is_failure(self) -> bool:
        return isinstance(self.expect, dict) and "error_ends_with" in self.expect


def list_exchanges() -> list[Exchange]:
    """All recorded exchanges, those of one SDK together."""
    return list(_read_all())


def _read_all() -> Iterator[Exchange]:
    for path in sorted(Path(__file__).with_name("recorded").glob("*.jsonl")):
        sdk, _, version = path.stem.partition("-")
        for line in path.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            yield Exchange(
                name=f"{path.stem}: {entry['case']}",
                sdk=sdk,
                version=version,
                request=_build(entry["reply"]["type"], entry["ask"]),
                frame=json.dumps(entry["reply"]).encode(),
                expect=entry["expect"],
            )


def _build(message_type: str, ask: dict[str, Any] | None) -> Request[Any] | None:
    if ask is None:
        return None
    if message_type == "retention":
        ask = dict.fromkeys(("gc_cutoff", "gc_rows_threshold", "timeout_cutoff"))
    request: Request[Any] = msgspec.convert(ask, _find_type(message_type, ask))
    return request


def _find_type(message_type: str, ask: dict[str, Any]) -> Any:
    return next(
        request_type
        for request_type in REQUEST_TYPES
        if request_type.message_type == message_type
        and ask.keys() <= {field.name for field in fields(request_type)}
    )
