"""
What each SDK understands, in which version.

Two kinds of gaps are known. A message that an SDK does not know is answered with an
error, or by old Java not at all. A filter that it does not know is worse: it answers
without it, and nobody sees that the answer is wrong.

Source: the public sources of the SDKs, each release searched for each name. Where only
a language's newest source was read, an option counts as old as its message. Of an SDK
or a version that nobody knows nothing is held against it: it is asked, with all
filters.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

from relay.protocol.envelope import Request
from relay.protocol.filters import drop_blank
from relay.protocol.sdk import Sdk, Version, parse_version
from relay.protocol.statistics import StepAggregatesRequest
from relay.protocol.workflows import SearchWorkflowsRequest, WorkflowFilter


@runtime_checkable
class _HasOptions(Protocol):
    def used_options(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class _Since:
    """The first release of each language that understands something, if one does."""

    releases: Mapping[str, Version | None]

    def is_met(self, language: str, version: Version) -> bool:
        first = self.releases[language]
        return first is not None and version >= first


def _since(
    python: str | None, typescript: str | None, go: str | None, java: str | None
) -> _Since:
    """A release each; `None` is "in none so far"."""
    return _Since(
        {
            "python": _release(python),
            "typescript": _release(typescript),
            "go": _release(go),
            "java": _release(java),
        }
    )


def _release(text: str | None) -> Version | None:
    return None if text is None else parse_version(text)


_ALWAYS: Final = "0.0"

_LANGUAGES: Final = ("python", "typescript", "go", "java")

_FIRST: Final = _since("0.23.0", "2.6", "0.5.4-beta", "0.5.0")
_MANAGEMENT: Final = _since("2.9.0", "4.7", "0.12.0", "0.8.0")
_SCHEDULES: Final = _since("2.13.0", "4.9", "0.14.0", "0.8.0")
_VERSIONS: Final = _since("2.14.0", "4.10", "0.15.0", "0.8.0")
_COMMUNICATION: Final = _since("2.15.0", "4.11", "0.15.0", "0.8.0")
_QUEUES: Final = _since("2.20.0", "4.17", "0.18.0", "0.9.0")

_MESSAGES: Final[Mapping[str, _Since]] = {
    "executor_info": _FIRST,
    "recovery": _FIRST,
    "cancel": _FIRST,
    "resume": _FIRST,
    "list_workflows": _FIRST,
    "get_workflow": _FIRST,
    "exist_pending_workflows": _since("0.24.0", "2.6", "0.5.4-beta", "0.5.0"),
    "list_steps": _since("0.25.0", "2.7", "0.5.4-beta", "0.5.0"),
    "fork_workflow": _since("1.0.0", "2.9", "0.5.4-beta", "0.5.0"),
    "retention": _since("1.5.0", "2.10.24", "0.5.4-beta", "0.5.0"),
    "get_metrics": _since("2.6.0", "4.5", "0.9.0", "0.7.0"),
    "delete": _MANAGEMENT,
    "export_workflow": _MANAGEMENT,
    "import_workflow": _MANAGEMENT,
    "alert": _since("2.10.0", "4.8", "0.12.0", "0.8.0"),
    "list_schedules": _SCHEDULES,
    "get_schedule": _SCHEDULES,
    "pause_schedule": _SCHEDULES,
    "resume_schedule": _SCHEDULES,
    "backfill_schedule": _SCHEDULES,
    "trigger_schedule": _SCHEDULES,
    "list_application_versions": _VERSIONS,
    "set_latest_application_version": _VERSIONS,
    "get_workflow_events": _COMMUNICATION,
    "get_workflow_notifications": _COMMUNICATION,
    "get_workflow_streams": _COMMUNICATION,
    "get_workflow_aggregates": _since("2.16.0", "4.12", "0.15.0", "0.8.0"),
    "fork_from_failure": _since("2.16.0", "4.12", "0.19.0", "1.0.0"),
    "list_queues": _QUEUES,
    "get_queue": _QUEUES,
    "get_step_aggregates": _since("2.23.0", "4.19", "0.17.0", "1.0.0"),
    "rewind_workflow": _since("3.1.0", "5.1", None, None),
}

_PREFIXES: Final = _since("2.9.0", "4.7", "0.12.0", "0.8.0")
_LISTS: Final = _since("2.11.0", "4.8", "0.12.0", "0.8.0")
_BULK: Final = _since("2.15.0", "4.11", "0.15.0", "0.8.0")
_WINDOWS: Final = _since("2.23.0", "4.19", "0.17.0", "1.0.0")
_WINDOW_OPTIONS: Final = (
    "completed_after",
    "completed_before",
    "dequeued_after",
    "dequeued_before",
)
_OWNERS: Final = _since("2.30.0", "4.26", "1.2.0", None)
_NOT_JAVA: Final = _since(_ALWAYS, _ALWAYS, _ALWAYS, None)

_OPTIONS: Final[Mapping[str, Mapping[str, _Since]]] = {
    "list_workflows": {
        "forked_from": _since("2.4.0", "4.4", "0.8.0", "0.7.0"),
        "workflow_id_prefix": _PREFIXES,
        "queues_only": _PREFIXES,
        "parent_workflow_id": _LISTS,
        "was_forked_from": _since("2.16.0", "4.12", "0.17.0", "0.8.0"),
        "has_parent": _since("2.18.0", "4.14", "0.17.0", "0.8.0"),
        **dict.fromkeys(_WINDOW_OPTIONS, _WINDOWS),
        "attributes": _since("2.25.0", "4.21", "0.19.0", "1.0.0"),
        # Java 1.0.0 has it not, 1.1.0-m6 has.
        "schedule_name": _since("2.25.0", "4.21", "0.14.0", "1.1.0-m6"),
    },
    "get_workflow_aggregates": {
        "workflow_ids": _NOT_JAVA,
        "user": _NOT_JAVA,
        "forked_from": _NOT_JAVA,
        "parent_workflow_id": _NOT_JAVA,
        "was_forked_from": _since(_ALWAYS, _ALWAYS, "0.17.0", None),
        "has_parent": _since("2.18.0", "4.14", "0.17.0", None),
        "group_by_application_name": _OWNERS,
        "time_bucket_size_ms": _since("2.22.0", "4.19", "0.15.0", "1.0.0"),
        # Without the flags there is always the count, and nothing else.
        "select_min_created_at": _WINDOWS,
        "select_max_queue_wait_ms": _WINDOWS,
        "select_max_total_latency_ms": _WINDOWS,
        **dict.fromkeys(_WINDOW_OPTIONS, _WINDOWS),
        # Java 1.0.0 has it not, 1.1.0-m6 has.
        "attributes": _since("2.25.0", "4.21", "0.19.0", "1.1.0-m6"),
        "schedule_name": _since("2.25.0", "4.21", None, None),
    },
    "list_steps": {
        "limit": _since("2.18.0", _ALWAYS, _ALWAYS, _ALWAYS),
        "offset": _since("2.18.0", _ALWAYS, _ALWAYS, _ALWAYS),
    },
    "cancel": {
        # Without it only the first of the workflows is cancelled.
        "workflow_ids": _BULK,
        "cancel_children": _since("2.24.0", "4.20", "0.19.0", "1.0.0"),
    },
    "resume": {"workflow_ids": _BULK},
    "delete": {"workflow_ids": _BULK},
}
"""By message, the options that came later than it, under their names in REST."""

_STEP_STATUSES: Final = frozenset({"SUCCESS", "ERROR"})


def knows_message(sdk: Sdk, message_type: str) -> bool:
    """Whether an executor of `sdk` answers such a message; if in doubt, it does."""
    known = _identify(sdk)
    since = _MESSAGES.get(message_type)
    return known is None or since is None or since.is_met(*known)


def surely_knows_message(sdk: Sdk, message_type: str) -> bool:
    """The same; if in doubt, it does not."""
    known = _identify(sdk)
    since = _MESSAGES.get(message_type)
    return known is not None and since is not None and since.is_met(*known)


def keeps_apart(sdk: Sdk) -> bool:
    """
    Whether an executor of `sdk` tells only of its own application.

    Others tell of every application in their system database. If in doubt, it does.
    """
    known = _identify(sdk)
    return known is None or _OWNERS.is_met(*known)


def list_ignored(sdk: Sdk, request: Request[Any]) -> tuple[str, ...]:
    """
    The options of `request` that `sdk` would leave out of account or misread.

    Returns:
        Their names in REST, in snake_case and in the request's order; empty if all
        count. That Java scopes nothing to an application is not among them: no request
        can ask it for more.
    """
    known = _identify(sdk)
    if known is None or not isinstance(request, _HasOptions):
        return ()
    language, version = known
    late = _OPTIONS.get(request.message_type, {})
    misread = set(_list_misread(language, version, request))
    return tuple(
        name
        for name in request.used_options()
        if name in misread
        or (name in late and not late[name].is_met(language, version))
    )


def _identify(sdk: Sdk) -> tuple[str, Version] | None:
    language = (sdk.language or "").strip().lower()
    version = parse_version(sdk.version or "")
    if language not in _LANGUAGES or version is None:
        return None
    if not _FIRST.is_met(language, version):
        # No such release connects to anything: a build from source calls itself so.
        return None
    return language, version


def _list_misread(language: str, version: Version, request: object) -> Iterable[str]:
    """The options whose values, not whose names, an SDK does not understand."""
    match request:
        case SearchWorkflowsRequest() if not _LISTS.is_met(language, version):
            return _list_several(request.filter)
        case StepAggregatesRequest() if language == "java":
            # It leaves a word out that is none of these, and with it the filter.
            known = _STEP_STATUSES.issuperset(drop_blank(request.filter.status))
            return () if known else ("status",)
        case _:
            return ()


def _list_several(chosen: WorkflowFilter) -> Iterable[str]:
    """The filters with several values, but for the ids, which always were a list."""
    return [
        name
        for name, values in chosen.conditions().items()
        if isinstance(values, tuple) and len(values) > 1 and name != "workflow_ids"
    ]
