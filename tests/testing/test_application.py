"""The small application behind a fake executor: what it knows, and what changes it."""

from collections.abc import Callable
from typing import Any

import pytest

from relay.testing.answers import Failure, Reply
from relay.testing.application import INTERNAL_QUEUE, FakeApplication
from relay.testing.behaviour import UNKNOWN, behave
from relay.testing.work import FakeWork

INFO = {"executor_id": "e1", "application_version": "v2"}

Ask = Callable[..., Any]


@pytest.fixture
def ask() -> Ask:
    """Asks an executor of an application with the workflows `done` and `running`."""
    work = FakeWork()
    work.add("e1", "v2", "running", "done")
    work.finish("done")
    return asker(work)


def asker(work: FakeWork, sdk: tuple[str | None, str | None] = (None, None)) -> Ask:
    """Asks an executor of that SDK, whose database holds `work`."""
    application = FakeApplication()
    info = {**INFO, "language": sdk[0], "dbos_version": sdk[1]}

    def put(message_type: str, **fields: Any) -> Any:
        request = {"type": message_type, "request_id": "r", **fields}
        answer = behave(request, info, work, application)
        return answer.fields if isinstance(answer, Reply) else answer

    return put


def shelve(work: FakeWork, steps: dict[int, str | None]) -> None:
    """A cancelled workflow `w` of another executor and version, with these steps."""
    work.enqueue("dead", "v1", "w", queue_name="jobs", partition_key="k")
    work.record("w", steps)
    work.cancel("w")


def read_steps(ask: Ask, workflow_id: str) -> list[int]:
    rows = ask("list_steps", workflow_id=workflow_id)["output"]
    return [row["function_id"] for row in rows]


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


def test_nothing_is_forked_under_an_id_that_is_taken(ask: Ask) -> None:
    """As in every SDK: a repeat cannot make a second copy."""
    body = {"workflow_id": "done", "new_workflow_id": "copy"}
    ask("fork_workflow", body=body)

    answer = ask("fork_workflow", body=body)

    assert isinstance(answer, Failure)
    assert "copy exists" in answer.message


@pytest.mark.parametrize(
    ("message_type", "fields"),
    [
        ("resume", {"workflow_id": "gone"}),
        ("fork_workflow", {"body": {"workflow_id": "gone", "new_workflow_id": None}}),
        ("rewind_workflow", {"body": {"workflow_id": "gone", "start_step": 1}}),
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


# rewinding

PYTHON, TYPESCRIPT = ("python", "3.1.0"), ("typescript", "5.1.0")


@pytest.mark.parametrize("sdk", [PYTHON, TYPESCRIPT])
def test_rewound_workflow_waits_under_its_id_without_the_later_steps(
    sdk: tuple[str, str],
) -> None:
    """With the version and the queue that were wished for, and still of its owner."""
    work = FakeWork()
    shelve(work, {1: None, 2: "child", 3: None, 4: None})
    ask = asker(work, sdk)
    body = {
        "workflow_id": "w",
        "start_step": 3,
        "application_version": "v2",
        "queue_name": "jobs",
        "queue_partition_key": "k",
    }

    assert ask("rewind_workflow", body=body) == {"success": True}

    row = ask("get_workflow", workflow_id="w")["output"]
    assert (row["Status"], row["ExecutorID"]) == ("ENQUEUED", "dead")
    assert row["ApplicationVersion"] == "v2"
    assert (row["QueueName"], row["QueuePartitionKey"]) == ("jobs", "k")
    assert read_steps(ask, "w") == [1, 2]


def test_rewound_workflow_keeps_its_version_and_loses_its_queue() -> None:
    """Where nothing is wished for."""
    work = FakeWork()
    shelve(work, {})
    ask = asker(work)

    ask("rewind_workflow", body={"workflow_id": "w", "start_step": 1})

    row = ask("get_workflow", workflow_id="w")["output"]
    assert row["ApplicationVersion"] == "v1"
    assert row["QueueName"] == INTERNAL_QUEUE
    assert row["QueuePartitionKey"] is None


@pytest.mark.parametrize(
    ("sdk", "first", "body"),
    [
        (PYTHON, 1, {"start_step": 0}),
        (PYTHON, 1, {"start_step": None}),
        (PYTHON, 1, {}),
        (TYPESCRIPT, 0, {"start_step": 0}),
        (TYPESCRIPT, 0, {}),
    ],
)
def test_rewinding_to_no_step_begins_anew(
    sdk: tuple[str, str], first: int, body: dict[str, Any]
) -> None:
    """From the step with which the SDK begins to count."""
    work = FakeWork()
    shelve(work, {first: None, first + 1: None})
    ask = asker(work, sdk)

    assert ask("rewind_workflow", body={"workflow_id": "w", **body})["success"]

    assert read_steps(ask, "w") == []


@pytest.mark.parametrize("state", ["pending", "enqueued", "rewound"])
def test_what_is_not_finished_is_not_rewound(state: str) -> None:
    """Not a second time either."""
    work = FakeWork()
    work.add("e1", "v2", "pending")
    work.enqueue("e1", "v2", "enqueued", "rewound")
    work.cancel("rewound")
    ask = asker(work)
    ask("rewind_workflow", body={"workflow_id": "rewound", "start_step": 1})

    answer = ask("rewind_workflow", body={"workflow_id": state, "start_step": 1})

    assert isinstance(answer, Failure)
    assert "not finished" in answer.message


@pytest.mark.parametrize(
    "sdk",
    [("python", "3.0.9"), ("typescript", "5.0.9"), ("go", "1.2.0"), ("java", "1.2.0")],
)
def test_old_sdk_does_not_know_rewinding(sdk: tuple[str, str]) -> None:
    """It says so in its own words, and changes nothing."""
    work = FakeWork()
    shelve(work, {})
    ask = asker(work, sdk)

    answer = ask("rewind_workflow", body={"workflow_id": "w", "start_step": 1})

    assert answer == UNKNOWN
    assert read_status(ask, "w") == "CANCELLED"


def test_workflow_is_cancelled_on_its_queue_and_leaves_it() -> None:
    """Its partition is still told."""
    work = FakeWork()
    shelve(work, {})

    row = asker(work)("get_workflow", workflow_id="w")["output"]

    assert row["Status"] == "CANCELLED"
    assert (row["QueueName"], row["QueuePartitionKey"]) == (None, "k")


def test_dequeued_workflow_belongs_to_who_took_it() -> None:
    """In the version that it has."""
    work = FakeWork()
    work.enqueue("dead", "v2", "w")

    work.dequeue("e1", "w")

    assert work.owners == {"w": ("e1", "v2")}
    assert read_status(asker(work), "w") == "PENDING"


def test_children_are_found_by_their_parent() -> None:
    """And in the step that started them."""
    work = FakeWork()
    work.add("e1", "v2", "parent", "child", "other")
    work.adopt("parent", "child")
    work.record("parent", {1: "child"})
    ask = asker(work)

    rows = ask("list_workflows", body={"parent_workflow_id": "parent"})["output"]
    steps = ask("list_steps", workflow_id="parent")["output"]

    assert [row["WorkflowUUID"] for row in rows] == ["child"]
    assert [step["child_workflow_id"] for step in steps] == ["child"]


# the application itself


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
    assert ask("juggle", body={}) == UNKNOWN
