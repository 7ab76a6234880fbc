"""Asking for schedules, ordering their runs, and reading what SDKs answer."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from relay.ids import AppName
from relay.protocol import FrameError, Request
from relay.protocol.messages import Acknowledgement
from relay.protocol.schedules import (
    BackfillScheduleRequest,
    GetScheduleRequest,
    ListSchedulesRequest,
    PauseScheduleRequest,
    ResumeScheduleRequest,
    ScheduleRow,
    TriggerScheduleRequest,
)
from tests.protocol.fields import reply, written

LISTING = ListSchedulesRequest(application=AppName("shop"), load_context=True)
QUESTION = GetScheduleRequest("nightly", load_context=False)
TRIGGER = TriggerScheduleRequest("nightly")
BACKFILL = BackfillScheduleRequest(
    "nightly",
    start_time=datetime(2026, 11, 1, 0, 0, 0, 1999, tzinfo=UTC),
    end_time=datetime(2026, 11, 1, 9, tzinfo=timezone(timedelta(hours=5))),
)
NAMES = {"schedule_id": "s-1", "schedule_name": "nightly"}


def read(**fields: Any) -> ScheduleRow:
    """The schedule that a reply with these fields holds."""
    schedule = QUESTION.decode_reply(reply(output={**NAMES, **fields}))
    assert schedule is not None
    return schedule


# list_schedules and get_schedule


def test_listing_always_says_whether_it_wants_the_contexts() -> None:
    """SDKs disagree about what a missing flag means."""
    assert written(LISTING) == {
        "body": {"load_context": True, "application_name": ["shop"]}
    }
    assert LISTING.used_options() == ()


def test_listing_filters_by_what_it_is_given() -> None:
    """Blank texts are no filter, and what is none is not sent."""
    listing = ListSchedulesRequest(
        application=AppName("shop"),
        status=("ACTIVE",),
        workflow_name=("", " "),
        schedule_name_prefix=("night", ""),
        load_context=False,
    )

    assert written(listing)["body"] == {
        "load_context": False,
        "application_name": ["shop"],
        "status": ["ACTIVE"],
        "schedule_name_prefix": ["night"],
    }
    assert listing.used_options() == ("status", "schedule_name_prefix")


def test_one_schedule_is_asked_for_by_name() -> None:
    """Again with the flag, whichever way it stands."""
    assert written(QUESTION) == {"schedule_name": "nightly", "load_context": False}


def test_a_schedule_is_told_in_the_words_of_rest() -> None:
    """Two names differ from the wire, and one field has no place."""
    assert read(
        workflow_name="send_report",
        workflow_class_name="Reports",
        schedule="0 2 * * *",
        status="PAUSED",
        context="{'tenant': 7}",
        last_fired_at="2026-11-01T02:00:00+00:00",
        automatic_backfill=True,
        cron_timezone="Europe/Berlin",
        queue_name="mail",
        application_name="shop",
    ) == ScheduleRow(
        schedule_id="s-1",
        schedule_name="nightly",
        workflow_name="send_report",
        workflow_class="Reports",
        cron_expression="0 2 * * *",
        status="PAUSED",
        context="{'tenant': 7}",
        last_fired_at=datetime(2026, 11, 1, 2, tzinfo=UTC),
        automatic_backfill=True,
        cron_timezone="Europe/Berlin",
        application_name="shop",
    )


def test_a_schedule_may_leave_everything_out_but_its_names() -> None:
    """What the contract wants is filled in, what may be null is."""
    schedule = read(context=None, status="")

    assert (schedule.workflow_name, schedule.cron_expression) == ("", "")
    assert schedule.status == "UNKNOWN"
    assert schedule.automatic_backfill is False
    assert (schedule.context, schedule.workflow_class) == (None, None)
    assert schedule.last_fired_at is None


def test_a_context_is_passed_on_as_it_is_but_as_valid_text() -> None:
    """It is opaque; NUL and half a surrogate pair cannot be written."""
    assert read(context="").context == ""
    assert read(context="a\0b\ud83d é").context == "ab é"


@pytest.mark.parametrize(
    "told",
    [
        "2026-11-01T02:00:00.250+00:00",
        "2026-11-01T02:00:00.250Z",
        "2026-11-01T02:00:00.250",
        "2026-11-01T03:00:00.250000000+01:00",
        "2026-11-01T03:00:00.250+01:00[Europe/Berlin]",
        1793498400250,
        "1793498400250",
        1793498400250.0,
    ],
)
def test_the_last_run_is_read_in_every_spelling(told: object) -> None:
    """ISO text, without an offset in UTC; or milliseconds, as times are elsewhere."""
    assert read(last_fired_at=told).last_fired_at == datetime(
        2026, 11, 1, 2, 0, 0, 250_000, tzinfo=UTC
    )


@pytest.fixture
def _tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose clocks on the wall are nine hours ahead."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "JST-9")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("_tokyo")
def test_a_moment_without_an_offset_is_utc_wherever_relay_runs() -> None:
    """The zone of the machine means nothing to an executor."""
    assert read(last_fired_at="2026-11-01T02:00:00").last_fired_at == datetime(
        2026, 11, 1, 2, tzinfo=UTC
    )


@pytest.mark.parametrize(
    "told", ["", "never", True, [], 10**18, "9999-12-31T23:59:59-10:00", "2026-13-01"]
)
def test_a_moment_that_no_calendar_has_is_none(told: object) -> None:
    """It may be missing in REST too."""
    assert read(last_fired_at=told).last_fired_at is None


@pytest.mark.parametrize("fields", [{}, {"output": None}, {"output": []}])
def test_no_schedules_are_an_empty_list(fields: dict[str, Any]) -> None:
    """SDKs leave an empty list out, or write null."""
    assert LISTING.decode_reply(reply(**fields)) == ()


@pytest.mark.parametrize("fields", [{}, {"output": None}])
def test_an_unknown_schedule_is_none(fields: dict[str, Any]) -> None:
    """Two SDKs leave the key out, two write null."""
    assert QUESTION.decode_reply(reply(**fields)) is None


@pytest.mark.parametrize(
    "output",
    [{}, "nightly", [{}], [{"schedule_id": "s-1"}], [{"schedule_name": "nightly"}]],
)
def test_what_is_no_list_of_schedules_is_refused(output: object) -> None:
    """Each schedule has an id and a name."""
    with pytest.raises(FrameError):
        LISTING.decode_reply(reply(output=output))


@pytest.mark.parametrize("output", [{}, "nightly", [], 0, {"schedule_id": "s-1"}])
def test_what_is_no_schedule_is_refused(output: object) -> None:
    """Only null says that there is none."""
    with pytest.raises(FrameError):
        QUESTION.decode_reply(reply(output=output))


# pause_schedule and resume_schedule


@pytest.mark.parametrize("order", [PauseScheduleRequest, ResumeScheduleRequest])
def test_pausing_and_resuming_name_the_schedule(
    order: type[PauseScheduleRequest] | type[ResumeScheduleRequest],
) -> None:
    """The answer is a plain yes; anything else is a no."""
    request: Request[Acknowledgement] = order("nightly")

    assert written(request) == {"schedule_name": "nightly"}
    assert request.decode_reply(reply(success=True)) == Acknowledgement(success=True)
    assert request.decode_reply(reply()) == Acknowledgement(success=False)


# trigger_schedule


def test_triggering_answers_the_id_of_the_run() -> None:
    """A run that can be looked for."""
    assert written(TRIGGER) == {"schedule_name": "nightly"}
    assert TRIGGER.decode_reply(reply(workflow_id="sched-1")) == "sched-1"


@pytest.mark.parametrize(
    "fields", [{}, {"workflow_id": None}, {"workflow_id": ""}, {"workflow_id": []}]
)
def test_a_run_without_an_id_did_not_begin(fields: dict[str, Any]) -> None:
    """Nobody could look for it."""
    with pytest.raises(FrameError, match="names no workflow"):
        TRIGGER.decode_reply(reply(**fields))


# backfill_schedule


def test_a_backfill_lies_between_two_moments() -> None:
    """Both in the one spelling that all SDKs read, cut to milliseconds."""
    assert written(BACKFILL) == {
        "schedule_name": "nightly",
        "start": "2026-11-01T00:00:00.001+00:00",
        "end": "2026-11-01T04:00:00.000+00:00",
    }


@pytest.mark.parametrize(
    ("fields", "runs"),
    [
        ({"workflow_ids": ["a", 2]}, ("a", "2")),
        ({"workflow_ids": []}, ()),
        ({"workflow_ids": None}, ()),
        ({}, ()),
    ],
)
def test_a_backfill_answers_the_ids_of_its_runs(
    fields: dict[str, Any], runs: tuple[str, ...]
) -> None:
    """There may be none between the two moments."""
    assert BACKFILL.decode_reply(reply(**fields)) == runs


@pytest.mark.parametrize("told", ["a", {}, [None], [""], [["a"]], 0])
def test_runs_without_ids_are_refused(told: object) -> None:
    """A shorter list would hide runs that began."""
    with pytest.raises(FrameError):
        BACKFILL.decode_reply(reply(workflow_ids=told))
