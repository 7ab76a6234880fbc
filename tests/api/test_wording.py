"""Callers read what is wrong with a value in Relay's words."""

from typing import Any, get_args

import pytest
from pydantic_core.core_schema import ErrorType

from relay_api.wording import WORDS, word
from tests.api.house import House, problem

APP = "/v2/orgs/local/apps/shop"
RELAY_APP = "/relay/v1/orgs/local/apps/shop"
TOKEN = "/v2/orgs/local/tokens/worker"


@pytest.mark.parametrize(
    ("method", "path", "body", "location", "message"),
    [
        ("PATCH", APP, {"zz": 1}, "body.zz", "no such property"),
        ("PATCH", APP, [], "body", "must be a JSON object"),
        ("PATCH", APP, None, "body", "is required"),
        (
            "PATCH",
            APP,
            {"executorTimeoutSecs": "60"},
            "body.executorTimeoutSecs",
            "must be a whole number",
        ),
        (
            "PATCH",
            APP,
            {"privateMode": 1},
            "body.privateMode",
            "must be true or false",
        ),
        ("PATCH", APP, {"privateMode": None}, "body.privateMode", "must not be null"),
        (
            "PATCH",
            f"{RELAY_APP}/settings",
            {"versionPolicy": "x"},
            "body.versionPolicy",
            "must be 'same' or 'any'",
        ),
        (
            "POST",
            f"{RELAY_APP}/recoveries",
            {"executorId": "e1"},
            "body.appVersion",
            "is required",
        ),
        (
            "POST",
            f"{RELAY_APP}/recoveries/x/abandon",
            {"reason": 1},
            "body.reason",
            "must be text",
        ),
        ("POST", TOKEN, {"appNames": "shop"}, "body.appNames", "must be a list"),
        ("POST", TOKEN, {"appNames": [1]}, "body.appNames[0]", "must be text"),
        (
            "GET",
            "/v2/orgs/local/audit-logs?limit=many",
            None,
            "query.limit",
            "must be a whole number",
        ),
        (
            "GET",
            "/v2/orgs/local/audit-logs?limit=0",
            None,
            "query.limit",
            "must be at least 1",
        ),
        (
            "GET",
            "/v2/orgs/local/audit-logs?offset=9223372036854775808",
            None,
            "query.offset",
            "must be at most 9223372036854775807",
        ),
        (
            "GET",
            f"{APP}/workflows?sortDesc=yes",
            None,
            "query.sortDesc",
            "must be true or false",
        ),
        (
            "POST",
            f"{APP}/workflows/search",
            {"offset": -1},
            "body.offset",
            "must be at least 0",
        ),
        (
            "POST",
            f"{APP}/workflows/search",
            {"user": ["a", "b\0"]},
            "body.user[1]",
            "must hold no NUL",
        ),
        (
            "POST",
            f"{APP}/workflows/search",
            {"attributes": {"a": [2**53]}},
            "body.attributes",
            "must hold no number beyond ±9007199254740991",
        ),
        (
            "POST",
            f"{APP}/workflows/bulk-cancel",
            {"workflowIds": ["a", " "]},
            "body.workflowIds[1]",
            "must not be blank",
        ),
        (
            "POST",
            f"{APP}/workflows/bulk-fork-from-failure",
            {"workflowIds": ["a"]},
            "body",
            "must have exactly one of fromLastFailure, fromLastStep, fromStep and"
            " fromStepName",
        ),
    ],
)
async def test_mistake_is_told_in_plain_words(
    house: House,
    method: str,
    path: str,
    body: Any,
    location: str,
    message: str,
) -> None:
    """What is wrong, at which place, and how it should be."""
    await house.register("shop")

    response = await house.client.request(method, path, json=body)

    [flaw] = problem(response, 422)["errors"]
    assert (flaw["location"], flaw["message"]) == (location, message)


async def test_choices_are_named(house: House) -> None:
    """Whoever asks for a state that there is none of learns which there are."""
    await house.register("shop")

    response = await house.client.get(f"{RELAY_APP}/recoveries?state=OPEN")

    [flaw] = problem(response, 422)["errors"]
    assert flaw["location"] == "query.state[0]"
    assert flaw["message"].startswith("must be 'WAITING', 'READY', ")


def test_every_kind_exists() -> None:
    """The table has no name that the validator never uses."""
    assert set(get_args(ErrorType)) >= set(WORDS)


def test_unknown_kind_keeps_its_message() -> None:
    """A mistake nobody thought of is told as well as can be."""
    assert word({"type": "url_parsing", "msg": "no URL"}) == "no URL"
