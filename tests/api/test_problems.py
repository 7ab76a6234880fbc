"""Every error is a problem document."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from fastapi.exceptions import RequestValidationError

from relay import errors
from relay.errors import ExecutorFailedError, RelayError
from relay.ids import AppName, ExecutorId
from relay_api.problems import ROWS, explain, problem_of


def every_error(kind: type[RelayError] = RelayError) -> Iterator[type[RelayError]]:
    """`RelayError` and everything below it that `relay.errors` defines."""
    if kind.__module__ == errors.__name__:
        yield kind
    for below in kind.__subclasses__():
        yield from every_error(below)


@pytest.mark.parametrize("kind", list(every_error()), ids=lambda kind: kind.__name__)
def test_every_error_has_a_row(kind: type[RelayError]) -> None:
    """A new error has to be given a status by hand."""
    assert kind in ROWS
    assert 400 <= ROWS[kind].status <= 599


def test_rows_name_only_errors_that_exist() -> None:
    """The table holds the tree, and nothing besides."""
    assert set(ROWS) == set(every_error())


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.StoreUnavailableError("connection to secret-host refused"), 503),
        (errors.SettingsError("secret-host is wrong"), 500),
        (errors.NotFoundError("application", "shop"), 404),
        (errors.ConflictError("taken"), 409),
        (errors.InvalidInputError("body.limit", "too large"), 422),
        (errors.MalformedInputError("no"), 400),
        (errors.AuthenticationError("unknown"), 401),
        (errors.PermissionDeniedError("no"), 403),
        (errors.NoExecutorError(AppName("shop")), 503),
        (errors.ConnectionLostError(ExecutorId("e1"), delivered=True), 502),
        (
            errors.ReplyTimeoutError(
                ExecutorId("e1"), timedelta(seconds=9), delivered=True
            ),
            502,
        ),
        (ExecutorFailedError(ExecutorId("e1"), "File secret-host\nit broke"), 502),
        (RuntimeError("secret-host"), 500),
    ],
)
def test_status_follows_the_error_and_secrets_stay(
    error: Exception, status: int
) -> None:
    """Messages that may hold internals do not reach the caller or the audit log."""
    problem = problem_of(error)

    assert problem.status == status
    assert problem.detail
    assert "secret-host" not in problem.detail
    assert "secret-host" not in explain(error)


def test_key_in_a_message_is_masked() -> None:
    """Whatever a caller typed in the wrong place is not repeated to others."""
    key = "dbos_" + "k" * 43

    problem = problem_of(errors.InvalidInputError("path.tokenName", f"no {key}", key))

    assert key not in repr(problem.to_response().body)
    assert key not in explain(errors.NotFoundError("key", key))


def test_rules_of_ours_are_told_without_the_words_of_the_validator() -> None:
    """A caller reads the rule, not that it was a `ValueError` somewhere."""
    entry = {"type": "value_error", "loc": ("body", "a"), "msg": "Value error, no"}

    assert problem_of(RequestValidationError([entry])).flaws[0].message == "no"


def test_an_answer_is_small_however_much_is_wrong() -> None:
    """A body full of mistakes fills neither the answer nor the audit log."""
    entries = [
        {"type": "extra_forbidden", "loc": ("body", f"{n}" + "k" * 9999), "msg": "m"}
        for n in range(5000)
    ]
    error = RequestValidationError(entries)

    answer = problem_of(error).to_response()

    assert len(answer.body) < 20_000
    assert b"4980 more" in answer.body
    assert len(explain(error)) <= 1000
    assert len(explain(errors.MalformedInputError("x" * 99_999))) <= 1000


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(24.99987, "25 s"), (300, "300 s"), (1800, "1800 s"), (0.2, "0.2 s")],
)
def test_time_is_told_as_it_was_meant(seconds: float, said: str) -> None:
    """A part of a millisecond has passed before an executor is asked."""
    error = errors.ReplyTimeoutError(
        ExecutorId("e-1"), timedelta(seconds=seconds), delivered=True
    )

    assert explain(error) == f"executor e-1 did not answer within {said}"
