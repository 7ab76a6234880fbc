"""Which workflows a caller means: the part that searching and counting share."""

import math
from typing import Annotated, Any

from pydantic import AfterValidator

from relay.protocol.sanitising import DEPTH_LIMIT
from relay.protocol.workflows import WorkflowFilter
from relay_api.shapes import (
    SAFE_INT_MAX,
    InstantText,
    NotNull,
    Order,
    Texts,
    refuse_nul,
)


def refuse_unsendable(attributes: dict[str, Any]) -> dict[str, Any]:
    """
    Pass attributes that every executor reads as they were written.

    Raises:
        ValueError: there is a number, a text or a depth among them that some do not.
    """
    _check(attributes, DEPTH_LIMIT)
    return attributes


def _check(value: Any, depth: int) -> None:
    match value:
        case str():
            refuse_nul(value)
        case int() if abs(value) > SAFE_INT_MAX:
            raise ValueError(f"must hold no number beyond ±{SAFE_INT_MAX}")
        case float() if not math.isfinite(value):
            raise ValueError("must hold finite numbers only")
        case list() | dict() if depth == 0:
            raise ValueError(f"must not be deeper than {DEPTH_LIMIT} levels")
        case list():
            for item in value:
                _check(item, depth - 1)
        case dict():
            for key, item in value.items():
                refuse_nul(key)
                _check(item, depth - 1)


Attributes = Annotated[dict[str, Any], AfterValidator(refuse_unsendable)]


class WorkflowMatching(Order):
    """
    What workflows must be like; what is absent, null, empty or blank does not matter.

    Of a list one value has to match. Instants are inclusive.
    """

    workflow_ids: Texts | None = None
    workflow_name: Texts | None = None
    user: Texts | None = None
    status: Texts | None = None
    app_version: Texts | None = None
    forked_from: Texts | None = None
    parent_workflow_id: Texts | None = None
    queue_name: Texts | None = None
    executor_id: Texts | None = None
    schedule_name: Texts | None = None
    workflow_id_prefix: Texts | None = None
    start_time: Annotated[InstantText | None, NotNull] = None
    end_time: Annotated[InstantText | None, NotNull] = None
    completed_after: Annotated[InstantText | None, NotNull] = None
    completed_before: Annotated[InstantText | None, NotNull] = None
    dequeued_after: Annotated[InstantText | None, NotNull] = None
    dequeued_before: Annotated[InstantText | None, NotNull] = None
    has_parent: Annotated[bool | None, NotNull] = None
    was_forked_from: Annotated[bool | None, NotNull] = None
    attributes: Annotated[Attributes | None, NotNull] = None


_CONDITIONS = WorkflowMatching.model_fields.keys() - Order.model_fields.keys()


def to_filter(body: WorkflowMatching) -> WorkflowFilter:
    """The conditions of a body, which have the same names inside."""
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name in _CONDITIONS
        if (value := getattr(body, name)) is not None
    }
    return WorkflowFilter(**given)
