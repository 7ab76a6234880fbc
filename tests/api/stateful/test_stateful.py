"""No request breaks Relay, and every answer is one that the documents have."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from schemathesis.core.failures import FailureGroup

from relay.errors import NotFoundError
from relay.settings import AuthMode
from relay_api import problems
from relay_api.contract import Document, list_operations
from relay_api.problems import ROWS, Row
from relay_api.routes import applications
from tests.api.stateful.premises import open_premises
from tests.api.stateful.surface import (
    about_relay,
    about_work,
    read_surface,
    walkable,
    well_known,
)
from tests.api.stateful.walk import Tally, ask_anything, walk_about
from tests.fuzz.effort import unhurried

WALKS, REQUESTS = 16, 4

# The server's thread may throw its dice while Hypothesis draws in this one.
pytestmark = [
    unhurried,
    pytest.mark.filterwarnings(
        "ignore:Do not use the `random` module inside strategies"
        ":hypothesis.errors.HypothesisDeprecationWarning"
    ),
]


def assert_all_succeeded(tally: Tally, surface: dict[str, Any]) -> None:
    """Fails when some operation did nothing but refuse: the run would prove little."""
    succeeded = {name for name, status in tally if status < 300}

    served = {part["operationId"] for *_, part in list_operations(surface)}
    assert served - succeeded == set()


@pytest.mark.parametrize("part", [about_relay, about_work])
@pytest.mark.parametrize("auth", list(AuthMode))
def test_no_walk_meets_a_fault(
    tmp_path: Path, auth: AuthMode, part: Callable[[Document], Document]
) -> None:
    """Nor a status, a type or a shape that is not documented, wherever links lead."""
    with open_premises(tmp_path, auth) as premises:
        surface = part(read_surface(premises.url, premises.session))

        tally = walk_about(premises, walkable(surface), WALKS)

    assert_all_succeeded(tally, surface)


def test_no_request_meets_a_fault(tmp_path: Path) -> None:
    """Valid ones and others, to every operation; none that is invalid is accepted."""
    with open_premises(tmp_path, AuthMode.LOCAL) as premises:
        surface = read_surface(premises.url, premises.session)

        tally = ask_anything(premises, well_known(surface), REQUESTS)

    assert_all_succeeded(tally, surface)


def break_a_route(patch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("a defect")

    patch.setattr(applications, "_to_application", fail)


def answer_gone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(problems, "ROWS", {**ROWS, NotFoundError: Row(410)})


def answer_plain_json(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(problems, "MEDIA_TYPE", "application/json")


def answer_another_shape(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(problems, "_describe", lambda flaw: {"place": flaw.location})


@pytest.mark.parametrize(
    ("defect", "title"),
    [
        (break_a_route, "Server error"),
        (answer_gone, "Undocumented status code"),
        (answer_plain_json, "Undocumented Content-Type"),
        (answer_another_shape, "Response violates schema"),
    ],
)
def test_a_walk_notices(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    defect: Callable[[pytest.MonkeyPatch], None],
    title: str,
) -> None:
    """What the walks are for: each defect that is put in is found, and named."""
    defect(monkeypatch)
    with open_premises(tmp_path, AuthMode.LOCAL) as premises:
        surface = walkable(about_relay(read_surface(premises.url, premises.session)))

        with pytest.raises(FailureGroup) as failure:
            walk_about(premises, surface, WALKS)

    assert title in {error.title for error in failure.value.exceptions}


def test_requests_notice_what_should_have_been_refused(tmp_path: Path) -> None:
    """Here the document is wrong: it calls a text what may be true or false."""
    with open_premises(tmp_path, AuthMode.LOCAL) as premises:
        surface = well_known(read_surface(premises.url, premises.session))
        body = surface["components"]["schemas"]["PutAppInputBody"]
        body["properties"]["privateMode"] = {"type": "string"}
        path = "/v2/orgs/{orgName}/apps/{appName}"
        surface["paths"] = {path: {"put": surface["paths"][path]["put"]}}

        with pytest.raises(FailureGroup) as failure:
            ask_anything(premises, surface, 100)

    assert "Schema-violating request accepted" in {
        error.title for error in failure.value.exceptions
    }
