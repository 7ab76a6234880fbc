"""The order to put a finished workflow back on a queue."""

from relay.protocol.workflow_orders import RewindWorkflowRequest
from tests.protocol.fields import written

REWIND = RewindWorkflowRequest(workflow_id="w", start_step=0)


def test_rewinding_always_says_the_step() -> None:
    """Left out, it would be the whole history, and Python counts from another one."""
    assert written(REWIND) == {"body": {"workflow_id": "w", "start_step": 0}}
    assert REWIND.used_options() == ()


def test_rewinding_sends_what_is_set() -> None:
    """Under the names of the wire."""
    request = RewindWorkflowRequest(
        workflow_id="w",
        start_step=3,
        app_version="v2",
        queue_name="q",
        queue_partition_key="k",
    )

    assert written(request) == {
        "body": {
            "workflow_id": "w",
            "start_step": 3,
            "application_version": "v2",
            "queue_name": "q",
            "queue_partition_key": "k",
        }
    }
    assert request.used_options() == (
        "app_version",
        "queue_name",
        "queue_partition_key",
    )


def test_rewinding_takes_empty_texts_for_unset_ones() -> None:
    """A workflow of an empty version, or on an empty queue, would never run."""
    empty = RewindWorkflowRequest(
        workflow_id="w",
        start_step=0,
        app_version="",
        queue_name="",
        queue_partition_key="",
    )

    assert written(empty) == written(REWIND)
