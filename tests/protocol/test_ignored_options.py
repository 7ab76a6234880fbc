"""Options that an SDK would leave out of account, before some release."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.protocol import Request
from relay.protocol.queues import GetQueueRequest
from relay.protocol.schedules import ListSchedulesRequest
from relay.protocol.sdk import Sdk
from relay.protocol.statistics import (
    WorkflowAggregatesRequest,
)
from relay.protocol.support import (
    knows_message,
    list_ignored,
)
from relay.protocol.workflow_orders import CancelRequest, DeleteRequest, ResumeRequest
from relay.protocol.workflows import (
    ListStepsRequest,
    SearchWorkflowsRequest,
    WorkflowFilter,
)
from tests.protocol.sdks import (
    EVERY_COUNT,
    EVERY_FILTER,
    LANGUAGES,
    NEWEST,
    SHOP,
    WINDOWS,
    count,
    count_steps,
    search,
)

NEVER = None


def _before(version: str) -> str:
    """One that sorts just before; the pre-releases of one release are all alike."""
    release, _, pre_release = version.partition("-")
    if not pre_release:
        return f"{version}-rc.1"
    major, minor, _ = release.split(".")
    return f"{major}.{int(minor) - 1}.99"


@pytest.mark.parametrize(
    ("option", "python", "typescript", "go", "java"),
    [
        ("forked_from", "2.4.0", "4.4.0", "0.8.0", "0.7.0"),
        ("workflow_id_prefix", "2.9.0", "4.7.0", "0.12.0", "0.8.0"),
        ("parent_workflow_id", "2.11.0", "4.8.0", "0.12.0", "0.8.0"),
        ("was_forked_from", "2.16.0", "4.12.0", "0.17.0", "0.8.0"),
        ("has_parent", "2.18.0", "4.14.0", "0.17.0", "0.8.0"),
        *((window, "2.23.0", "4.19.0", "0.17.0", "1.0.0") for window in WINDOWS),
        ("attributes", "2.25.0", "4.21.0", "0.19.0", "1.0.0"),
        ("schedule_name", "2.25.0", "4.21.0", "0.14.0", "1.1.0-m6"),
    ],
)
def test_a_filter_of_lists_counts_from_a_release_on(
    option: str, python: str, typescript: str, go: str, java: str
) -> None:
    """Before it the SDK answers as if it were not there."""
    request = SearchWorkflowsRequest(filter=EVERY_FILTER, application=SHOP)

    for language, version in zip(
        LANGUAGES, (python, typescript, go, java), strict=True
    ):
        assert option not in list_ignored(Sdk(language, version), request)
        assert option in list_ignored(Sdk(language, _before(version)), request)


@pytest.mark.parametrize(
    ("option", "python", "typescript", "go", "java"),
    [
        ("workflow_ids", "2.16.0", "4.12.0", "0.15.0", NEVER),
        ("user", "2.16.0", "4.12.0", "0.15.0", NEVER),
        ("forked_from", "2.16.0", "4.12.0", "0.15.0", NEVER),
        ("parent_workflow_id", "2.16.0", "4.12.0", "0.15.0", NEVER),
        ("was_forked_from", "2.16.0", "4.12.0", "0.17.0", NEVER),
        ("has_parent", "2.18.0", "4.14.0", "0.17.0", NEVER),
        ("time_bucket_size_ms", "2.22.0", "4.19.0", "0.15.0", "1.0.0"),
        ("select_min_created_at", "2.23.0", "4.19.0", "0.17.0", "1.0.0"),
        ("select_max_queue_wait_ms", "2.23.0", "4.19.0", "0.17.0", "1.0.0"),
        ("select_max_total_latency_ms", "2.23.0", "4.19.0", "0.17.0", "1.0.0"),
        *((window, "2.23.0", "4.19.0", "0.17.0", "1.0.0") for window in WINDOWS),
        ("attributes", "2.25.0", "4.21.0", "0.19.0", "1.1.0-m6"),
        ("schedule_name", "2.25.0", "4.21.0", NEVER, NEVER),
        ("group_by_application_name", "2.30.0", "4.26.0", "1.2.0", NEVER),
    ],
)
def test_an_option_of_counts_counts_from_a_release_on(
    option: str, python: str, typescript: str, go: str | None, java: str | None
) -> None:
    """Not always from the same as in lists; before the message, it does not matter."""
    for language, version in zip(
        LANGUAGES, (python, typescript, go, java), strict=True
    ):
        below = Sdk(language, _before(version or "99.0.0"))
        if version is not None:
            assert option not in list_ignored(Sdk(language, version), EVERY_COUNT)
        if knows_message(below, "get_workflow_aggregates"):
            assert option in list_ignored(below, EVERY_COUNT)


@pytest.mark.parametrize(
    ("sdk", "ignored"),
    [
        *((sdk, ()) for sdk in NEWEST),
        (Sdk("java", "1.0.0"), ("schedule_name",)),
        (Sdk("java", "1.1.0-m6"), ()),
        (
            Sdk("python", "2.8.0"),
            (
                "parent_workflow_id",
                "schedule_name",
                "workflow_id_prefix",
                *WINDOWS,
                "has_parent",
                "was_forked_from",
                "attributes",
            ),
        ),
    ],
    ids=str,
)
def test_a_search_names_the_filters_that_an_sdk_ignores(
    sdk: Sdk, ignored: tuple[str, ...]
) -> None:
    """Each would silently answer with workflows that do not match."""
    request = SearchWorkflowsRequest(filter=EVERY_FILTER, application=SHOP)

    assert list_ignored(sdk, request) == ignored


def test_only_filters_that_are_set_are_named() -> None:
    """A plain question is answered by every SDK."""
    old = Sdk("python", "2.0.0")

    assert list_ignored(old, search()) == ()
    assert list_ignored(old, search(status=("ERROR",), attributes={})) == ()
    assert list_ignored(old, search(has_parent=False)) == ("has_parent",)


def test_a_restriction_to_queues_is_an_option_like_a_filter() -> None:
    """Without it all workflows come."""
    request = SearchWorkflowsRequest(
        filter=WorkflowFilter(), application=SHOP, queues_only=True, limit=5
    )

    assert list_ignored(Sdk("typescript", "4.6.0"), request) == ("queues_only",)
    assert list_ignored(Sdk("typescript", "4.7.0"), request) == ()


@pytest.mark.parametrize(
    ("language", "old", "new"),
    [
        ("python", "2.10.9", "2.11.0"),
        ("typescript", "4.7.9", "4.8.0"),
        ("go", "0.11.0", "0.12.0"),
        ("java", "0.7.0", "0.8.0"),
    ],
)
def test_several_values_need_an_sdk_that_reads_lists(
    language: str, old: str, new: str
) -> None:
    """A single one is sent as text, which all read; the ids always were a list."""
    several = search(
        status=("ERROR", "PENDING"), user=("ann", " "), workflow_ids=("a", "b")
    )

    assert list_ignored(Sdk(language, old), several) == ("status",)
    assert list_ignored(Sdk(language, new), several) == ()


@pytest.mark.parametrize(
    ("sdk", "ignored"),
    [
        (Sdk("python", "3.2.0"), ()),
        (Sdk("typescript", "4.27.6"), ()),
        (Sdk("go", "1.2.0"), ("schedule_name",)),
        (
            Sdk("java", "1.2.0"),
            (
                "workflow_ids",
                "user",
                "forked_from",
                "parent_workflow_id",
                "schedule_name",
                "has_parent",
                "was_forked_from",
                "group_by_application_name",
            ),
        ),
    ],
    ids=str,
)
def test_a_count_names_the_options_that_an_sdk_ignores(
    sdk: Sdk, ignored: tuple[str, ...]
) -> None:
    """In counts other filters are missing than in lists."""
    assert list_ignored(sdk, EVERY_COUNT) == ignored


def test_old_sdks_count_and_measure_nothing_else() -> None:
    """They answer with the count, whatever was selected."""
    old = Sdk("go", "0.16.0")

    assert list_ignored(old, count()) == ()
    assert "select_min_created_at" in list_ignored(old, EVERY_COUNT)
    assert "select_count" not in list_ignored(old, EVERY_COUNT)


def test_java_knows_two_statuses_of_steps() -> None:
    """Another word it leaves out, and then counts all steps."""
    java, go = Sdk("java", "1.0.0"), Sdk("go", "1.2.0")

    assert list_ignored(java, count_steps(status=("SUCCESS", "ERROR", ""))) == ()
    assert list_ignored(java, count_steps(status=("PENDING",))) == ("status",)
    assert list_ignored(go, count_steps(status=("PENDING",))) == ()


@pytest.mark.parametrize(
    "order",
    [
        CancelRequest(workflow_ids=("a", "b")),
        ResumeRequest(workflow_ids=("a", "b")),
        DeleteRequest(workflow_ids=("a", "b")),
    ],
    ids=lambda order: order.message_type,
)
def test_an_old_sdk_would_change_the_first_of_several_workflows(
    order: Request[Any],
) -> None:
    """And say that it had changed all."""
    assert list_ignored(Sdk("python", "2.14.9"), order) == ("workflow_ids",)
    assert list_ignored(Sdk("python", "2.15.0"), order) == ()


def test_an_old_sdk_leaves_the_children_running() -> None:
    """One workflow alone is cancelled by all."""
    old = Sdk("java", "0.9.0")

    assert list_ignored(old, CancelRequest(workflow_ids=("a",))) == ()
    assert list_ignored(
        old, CancelRequest(workflow_ids=("a",), cancel_children=True)
    ) == ("cancel_children",)


def test_old_python_lists_all_steps() -> None:
    """It knows no pages of them."""
    page = ListStepsRequest(workflow_id="w", limit=10, offset=20)

    assert list_ignored(Sdk("python", "2.17.0"), page) == ("limit", "offset")
    assert list_ignored(Sdk("python", "2.18.0"), page) == ()
    assert list_ignored(Sdk("java", "0.5.0"), page) == ()


@pytest.mark.parametrize(
    "request_",
    [
        GetQueueRequest("mail"),
        ListSchedulesRequest(application=SHOP, status=("ACTIVE",), load_context=True),
    ],
    ids=lambda request: request.message_type,
)
def test_a_request_without_late_options_is_ignored_by_nobody(
    request_: Request[Any],
) -> None:
    """Who knows the message knows all of it."""
    assert list_ignored(Sdk("python", "2.20.0"), request_) == ()


@given(
    st.builds(
        Sdk,
        st.sampled_from(["python", "typescript", "go", "java"]) | st.text(),
        st.from_regex(r"v?[0-9]{1,2}\.[0-9]{1,2}\.[0-9](-beta)?") | st.text(),
    ),
    st.sampled_from([EVERY_COUNT, search(user=("a", "b"), has_parent=True)]),
)
def test_whoever_answers_only_what_is_set_is_named(
    sdk: Sdk, request: WorkflowAggregatesRequest | SearchWorkflowsRequest
) -> None:
    """What an executor says of itself breaks nothing and invents nothing."""
    assert knows_message(sdk, request.message_type) in (True, False)
    assert set(list_ignored(sdk, request)) <= set(request.used_options())
