"""What a well-behaved executor answers, given its SDK and what its database holds."""

from collections.abc import Mapping
from typing import Any, Final

from relay.protocol.sdk import Sdk
from relay.protocol.support import knows_message
from relay.testing.answers import Failure, Reply
from relay.testing.application import FakeApplication, Request
from relay.testing.work import FakeWork

__all__ = ["Request", "behave"]

UNKNOWN: Final = Failure("Unknown message type")


def behave(
    request: Request,
    info: Mapping[str, Any],
    work: FakeWork,
    application: FakeApplication | None = None,
) -> Reply | Failure:
    """
    The answer of the executor that is called what `info` says.

    An order moves the work of the executor's own version, and only that.

    Args:
        application: what there is beside the work; by default, a new one.
    """
    version = info["application_version"]
    sdk = Sdk(info.get("language"), info.get("dbos_version"))
    if not knows_message(sdk, request["type"]):
        return UNKNOWN
    match request:
        case {"type": "executor_info"}:
            return Reply(info)
        case {"type": "recovery", "executor_ids": executor_ids}:
            work.hand_over(executor_ids, version, info["executor_id"])
            return Reply({"success": True})
        case {"type": "exist_pending_workflows", **fields}:
            pending = work.list_pending(
                [fields["executor_id"]], [fields["application_version"]]
            )
            return Reply({"exist": bool(pending)})
        case {"type": "list_workflows", "body": body}:
            return Reply({"output": work.answer_listing(body)})
        case {"type": "get_workflow_aggregates", "body": body}:
            return Reply({"output": work.answer_count(body)})
        case {"type": "retention"}:
            return Reply({"success": True})
        case {"type": "get_metrics"}:
            return Reply({"metrics": []})
        case _:
            known = application or FakeApplication()
            executor = (info["executor_id"], version)
            return known.answer(request, executor, work) or UNKNOWN
