"""
What real executors answered about workflows is understood.

`recorded/workflows/<sdk>-<version>.jsonl` holds replies of four published SDKs: the
keys, their order, nulls and types are theirs, names and numbers are ours. `ask` is what
was asked in the words of our requests, `expect` the rows without what is not set.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from relay.ids import AppName
from relay.protocol import Request, decode_envelope
from relay.protocol.messages import Acknowledgement
from relay.protocol.workflow_orders import (
    CancelRequest,
    DeleteRequest,
    ExportWorkflowRequest,
    ForkFromFailureRequest,
    ForkMode,
    ForkWorkflowRequest,
    FromLastFailure,
    FromLastStep,
    FromStep,
    FromStepName,
    ImportWorkflowRequest,
    ResumeRequest,
    RewindWorkflowRequest,
)
from relay.protocol.workflows import (
    GetWorkflowEventsRequest,
    GetWorkflowNotificationsRequest,
    GetWorkflowRequest,
    GetWorkflowStreamsRequest,
    ListStepsRequest,
    SearchWorkflowsRequest,
    WorkflowFilter,
)

_TYPES: dict[str, Any] = {
    "get_workflow": GetWorkflowRequest,
    "list_steps": ListStepsRequest,
    "get_workflow_events": GetWorkflowEventsRequest,
    "get_workflow_notifications": GetWorkflowNotificationsRequest,
    "get_workflow_streams": GetWorkflowStreamsRequest,
    "cancel": CancelRequest,
    "resume": ResumeRequest,
    "delete": DeleteRequest,
    "fork_workflow": ForkWorkflowRequest,
    "export_workflow": ExportWorkflowRequest,
    "import_workflow": ImportWorkflowRequest,
    "rewind_workflow": RewindWorkflowRequest,
}


def read_recordings() -> list[Any]:
    """Every exchange, named by SDK, version and case."""
    folder = Path(__file__).parent / "recorded" / "workflows"
    return [
        pytest.param(json.loads(line), id=f"{path.stem}: {json.loads(line)['case']}")
        for path in sorted(folder.glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]


RECORDINGS = read_recordings()


def build(message_type: str, ask: dict[str, Any]) -> Request[Any]:
    """The request of ours that asks the same."""
    arguments = with_tuples(ask)
    request: Request[Any]
    match message_type:
        case "list_workflows":
            arguments["filter"] = WorkflowFilter(**with_tuples(arguments["filter"]))
            request = SearchWorkflowsRequest(application=AppName("shop"), **arguments)
        case "fork_from_failure":
            arguments["mode"] = build_mode(arguments["mode"])
            request = ForkFromFailureRequest(**arguments)
        case _:
            request = _TYPES[message_type](**arguments)
    return request


def with_tuples(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in fields.items()
    }


def build_mode(fields: dict[str, Any]) -> ForkMode:
    match fields:
        case {"from_last_failure": True}:
            return FromLastFailure()
        case {"from_last_step": True}:
            return FromLastStep()
        case {"from_step": int(step)}:
            return FromStep(step)
        case {"from_step_name": str(name)}:
            return FromStepName(name)
    raise AssertionError(fields)


def plain(reply: Any) -> Any:
    """A reply as JSON would show it, without what is not set."""
    match reply:
        case tuple():
            return [plain(item) for item in reply]
        case msgspec.Struct():
            fields = msgspec.structs.asdict(reply)
            return {
                name: plain(value)
                for name, value in fields.items()
                if value is not None
            }
        case Acknowledgement():
            return {"success": reply.success}
        case None | str() | bool() | int():
            return reply
    return reply.isoformat(timespec="milliseconds")


@pytest.mark.parametrize("recording", RECORDINGS)
def test_recorded_reply_about_workflows_is_understood(
    recording: dict[str, Any],
) -> None:
    """Every value arrives, under its own name and in its own type."""
    frame = json.dumps(recording["reply"]).encode()
    envelope = decode_envelope(frame)
    request = build(envelope.message_type, recording["ask"])

    reply = request.decode_reply(frame)

    assert envelope.error_message is None
    assert plain(reply) == recording["expect"]


def test_recordings_cover_every_question_about_workflows() -> None:
    """Each of the four versions has an answer to each; two of them know a rewind."""
    asked = {
        (recording.id.partition(":")[0], recording.values[0]["reply"]["type"])
        for recording in RECORDINGS
    }

    assert len(asked) == 4 * 13 + 2
