"""
Calls of a client that was generated from the served document, one or more a tag.

It runs in the environment of the generator, with the client's parent directory in
`CLIENT_PATH`, against the application `loop`, whose executor has performed. Prints one
line of JSON: operation to what came of it.
"""

import json
import os
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

sys.path.insert(0, os.environ["CLIENT_PATH"])

from generated import Client, models  # type: ignore[import-not-found]  # made by a test
from generated.api.api_keys import (  # type: ignore[import-not-found]  # likewise
    create_token,
    delete_token,
    list_tokens,
)
from generated.api.applications import (  # type: ignore[import-not-found]  # likewise
    get_app,
    list_apps,
    register_app,
    update_app,
)
from generated.api.audit_log import (  # type: ignore[import-not-found]  # likewise
    list_audit_logs,
)
from generated.api.executors import (  # type: ignore[import-not-found]  # likewise
    list_executors,
)
from generated.api.metrics import (  # type: ignore[import-not-found]  # likewise
    list_metrics,
)
from generated.api.queues import (  # type: ignore[import-not-found]  # likewise
    get_queue,
    list_queues,
)
from generated.api.roles import (  # type: ignore[import-not-found]  # likewise
    list_permissions,
)
from generated.api.schedules import (  # type: ignore[import-not-found]  # likewise
    backfill_schedule,
    get_schedule,
    list_schedules,
    pause_schedule,
    resume_schedule,
    trigger_schedule,
)
from generated.api.versions import (  # type: ignore[import-not-found]  # likewise
    list_app_versions,
    set_latest_app_version,
)
from generated.api.workflows import (  # type: ignore[import-not-found]  # likewise
    bulk_cancel_workflows,
    export_workflow,
    fork_workflow,
    get_step_aggregates,
    get_workflow,
    get_workflow_aggregates,
    list_workflow_events,
    list_workflow_steps,
    list_workflow_streams,
    list_workflows,
    search_workflows,
)

CLIENT = Client(base_url=os.environ["RELAY_URL"])
NOW = datetime.now(UTC)  # noqa: TID251 - the program under test, not Relay
DAY = {"start_time": NOW - timedelta(days=1), "end_time": NOW}
ORG, APP = "local", "loop"


def call(operation: Any, *path: str, **arguments: Any) -> Any:
    """What the client reads of an answer; an error document fails the run."""
    response = operation.sync_detailed(*path, client=CLIENT, **arguments)
    if response.status_code >= 300 or isinstance(response.parsed, models.ErrorModel):
        raise SystemExit(f"{operation.__name__}: {response.content.decode()}")
    return response.parsed


def main() -> None:
    register = models.PutAppInputBody(private_mode=False)
    call(register_app, ORG, APP, body=register)
    call(update_app, ORG, APP, body=models.PatchAppInputBody(executor_timeout_secs=90))
    token = call(create_token, ORG, "generated")
    call(pause_schedule, ORG, APP, "nightly")
    paused = call(get_schedule, ORG, APP, "nightly")
    call(resume_schedule, ORG, APP, "nightly")
    latest = models.PatchLatestVersionInputBody(version_name="v1")
    call(set_latest_app_version, ORG, APP, body=latest)
    cancelled = models.BulkCancelInputBody(workflow_ids=["none"])
    call(bulk_cancel_workflows, ORG, APP, body=cancelled)
    search = models.WorkflowSearchBody(status=["ERROR"], load_output=True)
    counts = models.WorkflowAggregatesBody(group_by_status=True)
    steps = models.StepAggregatesBody(group_by_function_name=True)
    span = models.BackfillInputBody(**DAY)
    seen = {
        "apps": [app.name for app in call(list_apps, ORG)],
        "timeout": call(get_app, ORG, APP).executor_timeout_secs,
        "executors": [str(e.status) for e in call(list_executors, ORG, APP)],
        "token": token.token_name,
        "tokens": [each.token_name for each in call(list_tokens, ORG)],
        "permissions": call(list_permissions, ORG),
        "audited": call(list_audit_logs, ORG)[-1].operation,
        "queues": [queue.name for queue in call(list_queues, ORG, APP)],
        "workers": call(get_queue, ORG, APP, "jobs").worker_concurrency,
        "schedules": [each.schedule_name for each in call(list_schedules, ORG, APP)],
        "paused": paused.status,
        "triggered": bool(call(trigger_schedule, ORG, APP, "nightly").workflow_id),
        "backfilled": len(
            call(backfill_schedule, ORG, APP, "hourly", body=span).workflow_ids
        ),
        "versions": [each.version_name for each in call(list_app_versions, ORG, APP)],
        "metrics": isinstance(call(list_metrics, ORG, APP, **DAY), list),
        "workflows": sorted(w.workflow_id for w in call(list_workflows, ORG, APP)),
        "failed": [
            w.workflow_id for w in call(search_workflows, ORG, APP, body=search)
        ],
        "output": call(get_workflow, ORG, APP, "story").output,
        "steps": len(call(list_workflow_steps, ORG, APP, "story")),
        "events": [e.key for e in call(list_workflow_events, ORG, APP, "story")],
        "streams": [s.key for s in call(list_workflow_streams, ORG, APP, "story")],
        "exported": bool(call(export_workflow, ORG, APP, "story").serialized_workflow),
        "counts": len(call(get_workflow_aggregates, ORG, APP, body=counts)),
        "step_counts": len(call(get_step_aggregates, ORG, APP, body=steps)),
        "forked": bool(call(fork_workflow, ORG, APP, "queued").workflow_id),
    }
    call(delete_token, ORG, "generated")
    sys.stdout.write(json.dumps(seen) + "\n")


if __name__ == "__main__":
    main()
