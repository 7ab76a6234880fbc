"""The small application behind a fake executor: what it knows, and what changes it."""

from collections.abc import Callable
from typing import Any

import pytest

from relay.testing.answers import Failure, Reply
from relay.testing.application import FakeApplication
from relay.testing.behaviour import UNKNOWN, behave
from relay.testing.work import FakeWork

INFO = {"executor_id": "e1", "application_version": "v2"}

Ask = Callable[..., Any]


@pytest.fixture
def ask() -> Ask:
    """Asks an executor of an application with the workflows `done` and `running`."""
    application, work = FakeApplication(), FakeWork()
    work.add("e1", "v2", "running", "done")
    work.finish("done")

    def put(message_type: str, **fields: Any) -> Any:
        request = {"type": message_type, "request_id": "r", **fields}
        answer = behave(request, INFO, work, application)
        return answer.fields if isinstance(answer, Reply) else answer

    return put


def read_status(ask: Ask, workflow_id: str) -> str | None:
    row = ask("get_workflow", workflow_id=workflow_id)["output"]
    return None if row is None else str(row["Status"])


def test_payloads_come_when_they_are_loaded(ask: Ask) -> None:
    """An output only of what has succeeded."""
    bare = ask("get_workflow", workflow_id="done", load_input=False)["output"]
    done, running = (
        ask("get_workflow", workflow_id=name, load_input=True, load_output=True)
        for name in ("done", "running")
    )

    assert bare.keys() & {"Input", "Output"} == set()
    assert done["output"].keys() >= {"Input", "Output"}
    assert "Output" not in running["output"]


def test_cancelling_ends_what_is_pending(ask: Ask) -> None:
    """What is finished or unknown is left alone, and no error."""
    reply = ask("cancel", workflow_id="done", workflow_ids=["done", "running", "gone"])

    assert reply == {"success": True}
    assert read_status(ask, "done") == "SUCCESS"
    assert read_status(ask, "running") == "CANCELLED"
    assert read_status(ask, "gone") is None


def test_deleted_workflow_is_gone(ask: Ask) -> None:
    """With its steps."""
    assert len(ask("list_steps", workflow_id="done")["output"]) == 1

    ask("delete", workflow_id="done")

    assert read_status(ask, "done") is None
    assert ask("list_steps", workflow_id="done") == {"output": []}


def test_forked_workflow_runs_to_its_end(ask: Ask) -> None:
    """Under the id that was wished for, if there was one."""
    body = {"workflow_id": "done", "new_workflow_id": "copy"}
    reply = ask("fork_workflow", body=body)
    made = ask("fork_workflow", body={**body, "new_workflow_id": None})
    many = ask("fork_from_failure", body={"workflow_ids": ["done", "copy"]})

    assert reply == {"new_workflow_id": "copy"}
    new_ids = {"copy", made["new_workflow_id"], *many["forked_workflow_ids"]}
    assert len(new_ids) == 4
    assert {read_status(ask, new_id) for new_id in new_ids} == {"SUCCESS"}


@pytest.mark.parametrize(
    ("message_type", "fields"),
    [
        ("resume", {"workflow_id": "gone"}),
        ("fork_workflow", {"body": {"workflow_id": "gone", "new_workflow_id": None}}),
        ("fork_from_failure", {"body": {"workflow_ids": ["done", "gone"]}}),
        ("trigger_schedule", {"schedule_name": "gone"}),
    ],
)
def test_what_does_not_exist_is_a_failure(
    ask: Ask, message_type: str, fields: dict[str, Any]
) -> None:
    """Where a real executor says so too."""
    answer = ask(message_type, **fields)

    assert isinstance(answer, Failure)
    assert "does not exist" in answer.message


def test_unknown_schedule_is_paused_without_a_word(ask: Ask) -> None:
    """As in Python, so that Relay has to look first."""
    assert ask("pause_schedule", schedule_name="gone") == {"success": True}
    assert ask("get_schedule", schedule_name="gone") == {"output": None}


def test_version_of_an_executor_is_one_of_the_application(ask: Ask) -> None:
    """And can be made the latest."""
    ask("set_latest_application_version", version_name="v2")

    rows = ask("list_application_versions")["output"]
    latest = max(rows, key=lambda row: row["version_timestamp"])
    assert {row["version_name"] for row in rows} == {"v1", "v2"}
    assert latest["version_name"] == "v2"


def test_unknown_message_is_told(ask: Ask) -> None:
    """In the words of the SDK."""
    assert ask("rewind_workflow", body={}) == UNKNOWN
