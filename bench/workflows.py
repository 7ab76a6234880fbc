"""What the executors of the bench say of workflows: rows with all that one can hold."""

import json
import random
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

ARGUMENTS = "(('order-1001', 3, {'currency': 'EUR', 'express': True}), {})"
EXPORT_PIECE = "gASVKAAAAAAAAAB9lCiMBW9yZGVylIwKb3JkZXItMTAwMZSMBXN0YXRllHUu"


def make_row(number: int, output: str = "{'state': 'shipped'}") -> dict[str, Any]:
    """One workflow as Python tells it, about 1 KB of JSON."""
    return {
        "WorkflowUUID": f"7d1e6b0a-51c5-4d2b-8f8f-{number:012}",
        "Status": "SUCCESS",
        "WorkflowName": "checkout_workflow",
        "WorkflowClassName": None,
        "WorkflowConfigName": None,
        "AuthenticatedUser": None,
        "AssumedRole": None,
        "AuthenticatedRoles": None,
        "Input": ARGUMENTS,
        "Output": output,
        "Error": None,
        "CreatedAt": str(1_790_000_000_000 + number),
        "UpdatedAt": str(1_790_000_004_200 + number),
        "QueueName": "orders",
        "ApplicationVersion": "v1",
        "ExecutorID": "e0",
        "WorkflowTimeoutMS": None,
        "WorkflowDeadlineEpochMS": None,
        "DeduplicationID": None,
        "Priority": "0",
        "QueuePartitionKey": None,
        "ForkedFrom": None,
        "WasForkedFrom": False,
        "ParentWorkflowID": None,
        "DequeuedAt": str(1_790_000_000_300 + number),
        "DelayUntilEpochMS": None,
        "CompletedAt": str(1_790_000_004_200 + number),
        "Attributes": None,
        "ScheduleName": None,
        "ApplicationName": None,
    }


def say_span(span: timedelta) -> str:
    """An output that says how long its executor took, for who measures the rest."""
    return f"took {span // timedelta(microseconds=1)} us"


class Workflows:
    """
    The answers of all executors of a fleet, and how long they take for them.

    A row of a single workflow says in its output how long its executor has had the
    question.
    """

    def __init__(self) -> None:
        self._spans_ms = (0, 0)

    def answer_after(self, shortest_ms: int, longest_ms: int) -> None:
        """Take that long from now on, evenly spread."""
        self._spans_ms = (shortest_ms, longest_ms)

    def draw_delay(self, request: Mapping[str, Any]) -> timedelta:
        """How long the answer to a request is to take."""
        if request["type"] not in {"get_workflow", "list_workflows"}:
            return timedelta(0)
        shortest, longest = self._spans_ms
        return timedelta(milliseconds=random.uniform(shortest, longest))  # noqa: S311 - no secret

    def answer(self, request: Mapping[str, Any], took: timedelta) -> Mapping[str, Any]:
        """The fields of a reply that comes `took` after its question."""
        match request["type"]:
            case "get_workflow":
                return {"output": make_row(1, say_span(took))}
            case "list_workflows":
                count = request["body"].get("limit") or 0
                return {"output": [make_row(number) for number in range(count)]}
            case "export_workflow":
                # The id says how large it is.
                size = int(request["workflow_id"].rpartition("-")[2]) * 2**20
                pieces = size // len(EXPORT_PIECE)
                return {"serialized_workflow": EXPORT_PIECE * pieces}
            case other:
                raise KeyError(other)


def read_span(body: bytes) -> timedelta:
    """How long the executor took, in the answer to a question about one workflow."""
    said = json.loads(body)["output"]
    return timedelta(microseconds=int(said.split()[1]))
