"""
What four SDKs expect of each message: the rules that a frame is held to.

Each rule stands for an SDK that drops the connection, does not answer, ends its
application or answers something else without it. Told by what is sent, not by which SDK
breaks: a sender that suits all four follows all of it.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

SAFE_INT = 2**53 - 1
"""The largest whole number that JavaScript does not round."""

INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", re.ASCII)
"""The one spelling that all four read."""


@dataclass(frozen=True, slots=True)
class Key:
    """
    What a key holds.

    `kind` is `text`, `name` (a text, never empty), `names` (a list of such, never
    empty), `choice` (a name or such a list), `whole`, `flag`, `instant`, or `data` (any
    JSON object). `is_required`: some SDK fails without it. `is_nullable`: all read a
    null as "not set".
    """

    kind: str
    is_required: bool = False
    is_nullable: bool = False


def _must(key: Key) -> Key:
    return replace(key, is_required=True)


TEXT, NAME, NAMES, CHOICE = Key("text"), Key("name"), Key("names"), Key("choice")
WHOLE, FLAG, INSTANTS, DATA = Key("whole"), Key("flag"), Key("instant"), Key("data")
OFF = Key("whole", is_required=True, is_nullable=True)
UNSET = Key("name", is_required=True, is_nullable=True)

_OWNER: Mapping[str, Key] = {"body.application_name": CHOICE}
_TARGETS: Mapping[str, Key] = {"workflow_id": _must(NAME), "workflow_ids": NAMES}
_WINDOWS = dict.fromkeys(
    (
        "body.completed_after",
        "body.completed_before",
        "body.dequeued_after",
        "body.dequeued_before",
    ),
    INSTANTS,
)

CATALOGUE: Mapping[str, Mapping[str, Key]] = {
    "executor_info": {},
    "recovery": {"executor_ids": _must(NAMES)},
    "exist_pending_workflows": {
        "executor_id": _must(TEXT),
        "application_version": _must(TEXT),
    },
    "list_workflows": {
        **_OWNER,
        **_WINDOWS,
        "body.workflow_uuids": NAMES,
        "body.workflow_name": CHOICE,
        "body.authenticated_user": CHOICE,
        "body.start_time": INSTANTS,
        "body.end_time": INSTANTS,
        "body.status": CHOICE,
        "body.application_version": CHOICE,
        "body.forked_from": CHOICE,
        "body.parent_workflow_id": CHOICE,
        "body.queue_name": CHOICE,
        "body.executor_id": CHOICE,
        "body.schedule_name": CHOICE,
        "body.workflow_id_prefix": CHOICE,
        "body.limit": WHOLE,
        "body.offset": WHOLE,
        "body.sort_desc": _must(FLAG),
        "body.load_input": _must(FLAG),
        "body.load_output": _must(FLAG),
        "body.queues_only": _must(FLAG),
        "body.has_parent": FLAG,
        "body.was_forked_from": FLAG,
        "body.attributes": DATA,
    },
    "get_workflow": {
        "workflow_id": _must(TEXT),
        "load_input": _must(FLAG),
        "load_output": _must(FLAG),
    },
    "list_steps": {
        "workflow_id": _must(TEXT),
        "load_output": _must(FLAG),
        "limit": WHOLE,
        "offset": WHOLE,
    },
    "get_workflow_events": {"workflow_id": _must(TEXT)},
    "get_workflow_notifications": {"workflow_id": _must(TEXT)},
    "get_workflow_streams": {"workflow_id": _must(TEXT)},
    "cancel": {**_TARGETS, "cancel_children": _must(FLAG)},
    "resume": {**_TARGETS, "queue_name": NAME},
    "delete": {**_TARGETS, "delete_children": _must(FLAG)},
    "fork_workflow": {
        "body.workflow_id": _must(TEXT),
        "body.start_step": _must(WHOLE),
        "body.application_version": UNSET,
        "body.new_workflow_id": UNSET,
        "body.queue_name": NAME,
        "body.queue_partition_key": NAME,
    },
    "rewind_workflow": {
        "body.workflow_id": _must(TEXT),
        "body.start_step": _must(WHOLE),
        "body.application_version": NAME,
        "body.queue_name": NAME,
        "body.queue_partition_key": NAME,
    },
    "fork_from_failure": {
        "body.workflow_ids": _must(NAMES),
        "body.from_last_failure": FLAG,
        "body.from_last_step": FLAG,
        "body.from_step": WHOLE,
        "body.from_step_name": NAME,
        "body.application_version": NAME,
        "body.queue_name": NAME,
        "body.queue_partition_key": NAME,
    },
    "export_workflow": {"workflow_id": _must(TEXT), "export_children": _must(FLAG)},
    "import_workflow": {"serialized_workflow": _must(NAME)},
    "retention": {
        "body.gc_cutoff_epoch_ms": OFF,
        "body.gc_rows_threshold": OFF,
        "body.timeout_cutoff_epoch_ms": OFF,
        "body.gc_batch_size": WHOLE,
    },
    "list_queues": _OWNER,
    "get_queue": {"name": _must(TEXT)},
    "list_schedules": {
        **_OWNER,
        "body.status": CHOICE,
        "body.workflow_name": CHOICE,
        "body.schedule_name_prefix": CHOICE,
        "body.load_context": _must(FLAG),
    },
    "get_schedule": {"schedule_name": _must(TEXT), "load_context": _must(FLAG)},
    "pause_schedule": {"schedule_name": _must(TEXT)},
    "resume_schedule": {"schedule_name": _must(TEXT)},
    "trigger_schedule": {"schedule_name": _must(TEXT)},
    "backfill_schedule": {
        "schedule_name": _must(TEXT),
        "start": _must(INSTANTS),
        "end": _must(INSTANTS),
    },
    "list_application_versions": {},
    "set_latest_application_version": {"version_name": _must(TEXT)},
    "get_metrics": {
        "start_time": _must(INSTANTS),
        "end_time": _must(INSTANTS),
        "metric_class": _must(NAME),
        "application_name": NAMES,
    },
    "get_workflow_aggregates": {
        **_WINDOWS,
        **dict.fromkeys(
            (
                "body.group_by_status",
                "body.group_by_name",
                "body.group_by_queue_name",
                "body.group_by_executor_id",
                "body.group_by_application_version",
                "body.group_by_application_name",
                "body.select_count",
            ),
            _must(FLAG),
        ),
        "body.select_min_created_at": FLAG,
        "body.select_max_queue_wait_ms": FLAG,
        "body.select_max_total_latency_ms": FLAG,
        "body.time_bucket_size_ms": WHOLE,
        "body.start_time": INSTANTS,
        "body.end_time": INSTANTS,
        **dict.fromkeys(
            (
                "body.status",
                "body.name",
                "body.app_version",
                "body.executor_id",
                "body.queue_name",
                "body.workflow_id_prefix",
                "body.workflow_ids",
                "body.workflow_uuids",
                "body.user",
                "body.authenticated_user",
                "body.forked_from",
                "body.parent_workflow_id",
                "body.schedule_name",
                "body.application_name",
            ),
            NAMES,
        ),
        "body.has_parent": FLAG,
        "body.was_forked_from": FLAG,
        "body.attributes": DATA,
    },
    "get_step_aggregates": {
        "body.group_by_function_name": _must(FLAG),
        "body.group_by_status": _must(FLAG),
        "body.select_count": _must(FLAG),
        "body.select_max_duration_ms": FLAG,
        "body.time_bucket_size_ms": WHOLE,
        "body.status": NAMES,
        "body.function_name": NAMES,
        "body.workflow_id_prefix": NAMES,
        "body.completed_after": INSTANTS,
        "body.completed_before": INSTANTS,
        "body.application_name": NAMES,
    },
}
"""By message and dotted path. What is not here is sent by nobody."""

BODIES = frozenset(
    {"list_queues", "list_schedules", "list_workflows", "retention", "fork_workflow"}
    | {"fork_from_failure", "get_workflow_aggregates", "get_step_aggregates"}
    | {"rewind_workflow"}
)
"""Messages with a body: without one TypeScript applications end."""


def check_frame(text: str) -> dict[str, Any]:
    """
    The decoded frame, after all rules were found kept.

    Raises:
        AssertionError: one is broken.
    """
    assert text.isascii()
    frame = json.loads(
        text, object_pairs_hook=_forbid_repeated_keys, parse_constant=_forbid_constant
    )
    message_type = frame["type"]
    assert list(frame)[:2] == ["type", "request_id"]
    assert isinstance(frame["request_id"], str)
    assert isinstance(message_type, str)
    # Java takes what has this word near its start for an import.
    assert ('"import_workflow"' in text) == (message_type == "import_workflow")
    keys = CATALOGUE[message_type]
    found = dict(_list_values(frame))
    assert ("body" in frame) == (message_type in BODIES)
    assert found.keys() <= keys.keys(), found.keys() - keys.keys()
    assert found.keys() >= {path for path, key in keys.items() if key.is_required}
    for path, value in found.items():
        assert _fits(value, keys[path]), path
    return dict(frame)


def _list_values(frame: Mapping[str, Any]) -> list[tuple[str, Any]]:
    values = [
        (name, value)
        for name, value in frame.items()
        if name not in ("type", "request_id", "body")
    ]
    body = frame.get("body", {})
    assert isinstance(body, dict)
    return values + [(f"body.{name}", value) for name, value in body.items()]


def _fits(value: object, key: Key) -> bool:
    if value is None:
        return key.is_nullable
    match key.kind:
        case "text":
            return value == "" or _is_name(value)
        case "name":
            return _is_name(value)
        case "names":
            return _is_list_of_names(value)
        case "choice":
            return _is_name(value) or _is_list_of_names(value)
        case "whole":
            return type(value) is int and abs(value) <= SAFE_INT
        case "flag":
            return type(value) is bool
        case "instant":
            return isinstance(value, str) and INSTANT.fullmatch(value) is not None
        case "data":
            return isinstance(value, dict) and _is_data(value)
    raise AssertionError(key.kind)


def _is_name(value: object) -> bool:
    """A text that UTF-8 and a database can carry, and that is not empty."""
    if not isinstance(value, str) or not value or "\0" in value:
        return False
    return value.encode("utf-8", "ignore").decode() == value


def _is_list_of_names(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_name, value))


def _is_data(value: object) -> bool:
    match value:
        case dict():
            return all(
                (not key or _is_name(key)) and _is_data(item)
                for key, item in value.items()
            )
        case list():
            return all(map(_is_data, value))
        case str():
            return not value or _is_name(value)
        case None | bool():
            return True
        case int():
            return abs(value) <= SAFE_INT
        case float():
            return math.isfinite(value)
    return False


def _forbid_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(pairs) == len(dict(pairs))
    return dict(pairs)


def _forbid_constant(name: str) -> NoReturn:
    raise AssertionError(name)
