"""Orders to cancel, resume, delete, fork, rewind, export, import, and their answers."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.errors import InvalidInputError
from relay.ids import RequestId
from relay.protocol import FrameError, Request, encode
from relay.protocol.messages import Acknowledgement
from relay.protocol.rows import LONGEST_ID_CHARS
from relay.protocol.workflow_orders import (
    START_STEP_LIMIT,
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
from tests.protocol.fields import reply, written

FORK = ForkWorkflowRequest(workflow_id="w", start_step=0)
FORKS = ForkFromFailureRequest(workflow_ids=("a", "b"), mode=FromLastStep())
REWIND = RewindWorkflowRequest(workflow_id="w", start_step=0)
EXPORT = ExportWorkflowRequest(workflow_id="w")
IMPORT = ImportWorkflowRequest(serialized_workflow="H4sI")

ORDERS = [CancelRequest, ResumeRequest, DeleteRequest]


def from_mode(mode: ForkMode) -> ForkFromFailureRequest:
    return ForkFromFailureRequest(workflow_ids=("w",), mode=mode)


# cancel, resume, delete


@pytest.mark.parametrize("order", ORDERS)
def test_order_for_one_workflow_names_it_alone(order: Any) -> None:
    """An SDK that knows the list looks at nothing else, be it empty."""
    fields = written(order(workflow_ids=("a",)))

    assert fields["workflow_id"] == "a"
    assert "workflow_ids" not in fields


@pytest.mark.parametrize("order", ORDERS)
def test_order_for_several_workflows_names_the_first_beside_all(order: Any) -> None:
    """Python ends the connection without the single one."""
    fields = written(order(workflow_ids=("a", "b")))

    assert fields["workflow_id"] == "a"
    assert fields["workflow_ids"] == ["a", "b"]


@pytest.mark.parametrize("order", ORDERS)
def test_order_names_each_workflow_once(order: Any) -> None:
    """Twice the same one is one."""
    twice = order(workflow_ids=("a", "a"))

    assert written(twice) == written(order(workflow_ids=("a",)))
    assert "workflow_ids" not in twice.used_options()
    assert written(order(workflow_ids=("b", "a", "b")))["workflow_ids"] == ["b", "a"]


@pytest.mark.parametrize("workflow_ids", [(), ("",), ("a", "")])
@pytest.mark.parametrize("order", ORDERS)
def test_order_for_nobody_is_refused(order: Any, workflow_ids: tuple[str, ...]) -> None:
    """Some SDKs would do nothing, some fail, and some take another id."""
    request = order(workflow_ids=workflow_ids)

    with pytest.raises(InvalidInputError) as refusal:
        encode(request, RequestId("r"))

    assert refusal.value.location == f"{request.message_type}.workflow_ids"


def test_cancel_always_says_whether_children_are_meant() -> None:
    """A null flag is refused by Java."""
    request = CancelRequest(workflow_ids=("a",), cancel_children=True)

    assert written(request)["cancel_children"] is True
    assert written(CancelRequest(workflow_ids=("a",)))["cancel_children"] is False
    assert request.used_options() == ("cancel_children",)


def test_delete_always_says_whether_children_are_meant() -> None:
    """Python ends the connection without the flag."""
    request = DeleteRequest(workflow_ids=("a", "b"), delete_children=True)

    assert written(request)["delete_children"] is True
    assert written(DeleteRequest(workflow_ids=("a",)))["delete_children"] is False
    assert request.used_options() == ("workflow_ids", "delete_children")


@pytest.mark.parametrize("queue_name", [None, ""])
def test_resume_names_a_queue_or_none(queue_name: str | None) -> None:
    """Without one the SDK takes its internal queue; an empty name is no queue."""
    named = ResumeRequest(workflow_ids=("a",), queue_name="q")
    unnamed = ResumeRequest(workflow_ids=("a",), queue_name=queue_name)

    assert written(named) == {"workflow_id": "a", "queue_name": "q"}
    assert named.used_options() == ("queue_name",)
    assert written(unnamed) == {"workflow_id": "a"}
    assert unnamed.used_options() == ()


@pytest.mark.parametrize(
    "request_",
    [
        CancelRequest(workflow_ids=("a",)),
        ResumeRequest(workflow_ids=("a",)),
        DeleteRequest(workflow_ids=("a",)),
        REWIND,
        IMPORT,
    ],
    ids=["cancel", "resume", "delete", "rewind", "import"],
)
def test_only_a_plain_yes_is_done(request_: Request[Acknowledgement]) -> None:
    """Java says no without a message, and a refusal has no answer at all."""
    assert request_.decode_reply(reply(success=True)) == Acknowledgement(success=True)
    for fields in ({}, {"success": False}, {"success": None}, {"success": "true"}):
        assert not request_.decode_reply(reply(**fields)).success


# fork_workflow


def test_fork_always_sends_four_keys() -> None:
    """Python reads them outside of its guard; "not set" is null."""
    assert written(FORK) == {
        "body": {
            "workflow_id": "w",
            "start_step": 0,
            "application_version": None,
            "new_workflow_id": None,
        }
    }
    assert FORK.used_options() == ()


def test_fork_sends_what_is_set() -> None:
    """Under the names of the wire."""
    request = ForkWorkflowRequest(
        workflow_id="w",
        start_step=START_STEP_LIMIT,
        app_version="v2",
        new_workflow_id="w2",
        queue_name="q",
        queue_partition_key="k",
    )

    assert written(request) == {
        "body": {
            "workflow_id": "w",
            "start_step": START_STEP_LIMIT,
            "application_version": "v2",
            "new_workflow_id": "w2",
            "queue_name": "q",
            "queue_partition_key": "k",
        }
    }
    assert request.used_options() == (
        "app_version",
        "queue_name",
        "queue_partition_key",
        "new_workflow_id",
    )


def test_fork_takes_empty_texts_for_unset_ones() -> None:
    """TypeScript would call the new workflow by an empty id."""
    empty = ForkWorkflowRequest(
        workflow_id="w",
        start_step=0,
        app_version="",
        new_workflow_id="",
        queue_name="",
        queue_partition_key="",
    )

    assert written(empty) == written(FORK)


@pytest.mark.parametrize(
    ("request_", "location"),
    [
        (
            ForkWorkflowRequest(workflow_id="w", start_step=-1),
            "fork_workflow.start_step",
        ),
        (
            ForkWorkflowRequest(workflow_id="w", start_step=2**30),
            "fork_workflow.start_step",
        ),
        (
            RewindWorkflowRequest(workflow_id="w", start_step=-1),
            "rewind_workflow.start_step",
        ),
        (
            RewindWorkflowRequest(workflow_id="w", start_step=2**30),
            "rewind_workflow.start_step",
        ),
        (from_mode(FromStep(-1)), "fork_from_failure.from_step"),
        (from_mode(FromStep(2**30)), "fork_from_failure.from_step"),
        (from_mode(FromStepName("")), "fork_from_failure.from_step_name"),
    ],
)
def test_step_that_go_does_not_answer_to_is_refused(
    request_: Request[Any], location: str
) -> None:
    """The caller would wait for nothing."""
    with pytest.raises(InvalidInputError) as refusal:
        encode(request_, RequestId("r"))

    assert refusal.value.location == location


def test_fork_answers_with_the_new_id() -> None:
    """A number is an id as well."""
    assert FORK.decode_reply(reply(new_workflow_id="w2")) == "w2"
    assert FORK.decode_reply(reply(new_workflow_id=7)) == "7"


@pytest.mark.parametrize(
    "fields", [{}, {"new_workflow_id": None}, {"new_workflow_id": ""}]
)
def test_fork_without_a_new_id_is_no_answer(fields: dict[str, Any]) -> None:
    """Nobody could find the new workflow."""
    with pytest.raises(FrameError, match="no new workflow"):
        FORK.decode_reply(reply(**fields))


def test_id_without_end_is_no_answer() -> None:
    """It would go on into a header, the audit log and the log."""
    endless = "x" * (LONGEST_ID_CHARS + 1)

    assert FORK.decode_reply(reply(new_workflow_id=endless[1:])) == endless[1:]
    with pytest.raises(FrameError, match="of 65537 characters"):
        FORK.decode_reply(reply(new_workflow_id=endless))


# fork_from_failure


@pytest.mark.parametrize(
    ("mode", "fields"),
    [
        (FromLastFailure(), {"from_last_failure": True}),
        (FromLastStep(), {"from_last_step": True}),
        (FromStep(0), {"from_step": 0}),
        (FromStepName("pack"), {"from_step_name": "pack"}),
    ],
)
def test_forks_send_one_mode_and_no_other(
    mode: ForkMode, fields: dict[str, object]
) -> None:
    """TypeScript takes a null for a mode that was chosen."""
    request = from_mode(mode)

    assert written(request) == {"body": {"workflow_ids": ["w"], **fields}}
    assert request.used_options() == tuple(fields)


def test_forks_send_what_is_set() -> None:
    """And one workflow for each that is named, as often as it is."""
    request = ForkFromFailureRequest(
        workflow_ids=("a", "b", "a"),
        mode=FromLastFailure(),
        app_version="v2",
        queue_name="q",
        queue_partition_key="k",
    )

    assert written(request) == {
        "body": {
            "workflow_ids": ["a", "b", "a"],
            "from_last_failure": True,
            "application_version": "v2",
            "queue_name": "q",
            "queue_partition_key": "k",
        }
    }
    assert request.used_options() == (
        "app_version",
        "queue_name",
        "queue_partition_key",
        "from_last_failure",
    )


@pytest.mark.parametrize("workflow_ids", [(), ("a", "")])
def test_forks_of_nobody_are_refused(workflow_ids: tuple[str, ...]) -> None:
    """An empty list is invalid SQL to one SDK."""
    request = ForkFromFailureRequest(workflow_ids=workflow_ids, mode=FromLastStep())

    with pytest.raises(InvalidInputError) as refusal:
        encode(request, RequestId("r"))

    assert refusal.value.location == "fork_from_failure.workflow_ids"


def test_forks_answer_with_the_new_ids_in_order() -> None:
    """The first is the fork of the first."""
    listed = FORKS.decode_reply(reply(forked_workflow_ids=["b2", "a2"]))

    assert listed == ("b2", "a2")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"forked_workflow_ids": None},
        {"forked_workflow_ids": []},
        {"forked_workflow_ids": "a2"},
        {"forked_workflow_ids": ["a2", None]},
        {"forked_workflow_ids": ["a2", ""]},
        {"forked_workflow_ids": ["a2", "b2", "c2"]},
        {"forked_workflow_ids": ["x" * (LONGEST_ID_CHARS + 1)]},
    ],
)
def test_forks_without_new_ids_are_no_answer(fields: dict[str, Any]) -> None:
    """Something was asked for, so something must have come of it, and no more."""
    with pytest.raises(FrameError):
        FORKS.decode_reply(reply(**fields))


# export_workflow, import_workflow


def test_export_always_says_whether_children_are_meant() -> None:
    """Python ends the connection without the flag."""
    request = ExportWorkflowRequest(workflow_id="w", export_children=True)

    assert written(EXPORT) == {"workflow_id": "w", "export_children": False}
    assert EXPORT.used_options() == ()
    assert written(request)["export_children"] is True
    assert request.used_options() == ("export_children",)


def test_export_is_opaque_text() -> None:
    """It is passed on as it is, however large."""
    text = "QUJD" * 500_000

    assert EXPORT.decode_reply(reply(serialized_workflow=text)) == text


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"serialized_workflow": None},
        {"serialized_workflow": ""},
        {"serialized_workflow": 7},
        {"serialized_workflow": {}},
        {"serialized_workflow": ["H4sI"]},
    ],
)
def test_export_of_nothing_is_no_answer(fields: dict[str, Any]) -> None:
    """A file without a workflow is not to be kept for one."""
    with pytest.raises(FrameError, match="no exported workflow"):
        EXPORT.decode_reply(reply(**fields))


def test_import_sends_the_text_last() -> None:
    """Java answers only if it has read the request id before the text begins."""
    text = encode(IMPORT, RequestId("r"))

    assert text == (
        '{"type":"import_workflow","request_id":"r","serialized_workflow":"H4sI"}'
    )
    assert IMPORT.used_options() == ()


def test_import_of_nothing_is_refused() -> None:
    """No executor needs to be asked."""
    with pytest.raises(InvalidInputError) as refusal:
        encode(ImportWorkflowRequest(serialized_workflow=""), RequestId("r"))

    assert refusal.value.location == "import_workflow.serialized_workflow"


# whatever comes

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["\ud800", "\0"])
)
replies = st.dictionaries(
    st.sampled_from(
        ["success", "new_workflow_id", "forked_workflow_ids", "serialized_workflow"]
    ),
    scalars | st.lists(scalars) | st.dictionaries(st.text(), scalars),
)


@given(
    replies,
    st.sampled_from(
        [CancelRequest(workflow_ids=("w",)), FORK, FORKS, REWIND, EXPORT, IMPORT]
    ),
)
def test_any_reply_to_an_order_is_an_answer_or_a_frame_error(
    fields: dict[str, Any], request_: Request[Any]
) -> None:
    """And every text in it can be sent on."""
    try:
        answer = request_.decode_reply(reply(**fields))
    except FrameError:
        return

    if isinstance(answer, str):
        answer = (answer,)
    if isinstance(answer, tuple):
        for text in answer:
            assert text.encode()
            assert "\0" not in text
