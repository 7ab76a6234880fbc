"""Logs that hold no key, in both formats and from both kinds of logger."""

import gc
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from relay.settings import LogFormat, LogLevel
from relay.telemetry import Metrics, configure_logging, mask, tuned_collector

KEY = "marker-key"
MINTED = "dbos_" + "a1B2-_" * 8


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    """The logging of the test run as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()


def written(log_format: LogFormat, level: LogLevel = LogLevel.INFO) -> io.StringIO:
    """Where log lines go after this call."""
    stream = io.StringIO()
    configure_logging(log_format, level, stream=stream)
    return stream


def read_json(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_names_that_only_begin_like_a_key_stay_readable() -> None:
    """A database may be called after the product; every minted key is longer."""
    text = "cannot open dbos_workflows_production on dbos_system_database_eu_1"

    assert mask(text) == text


@pytest.mark.parametrize(
    "text",
    [
        f"GET /websocket/app/{KEY} HTTP/1.1",
        f"//websocket/app/{KEY}?a=b",
        f"/conductor/v1/websocket/app/{KEY}/more/{KEY}",
        f"/websocket/app/x'{KEY}\"<{KEY}>",
        f"Bearer {MINTED}, again {MINTED}.",
        f"/websocket//{MINTED}",
    ],
)
def test_keys_are_masked_wherever_they_stand(text: str) -> None:
    """Paths of upgrade requests and minted keys lose their secret part."""
    masked = mask(text)

    assert KEY not in masked
    assert MINTED not in masked
    assert "***" in masked


def test_other_text_is_left_alone() -> None:
    """Names that only resemble a key stay readable."""
    text = "dbos_short loop /v2/orgs/local/apps/websocket 0e07a6d9-d408-486c"

    assert mask(text) == text


@pytest.mark.parametrize("log_format", list(LogFormat))
def test_no_part_of_an_event_holds_a_key(log_format: LogFormat) -> None:
    """Event, values however deep, objects and tracebacks are masked."""
    stream = written(log_format)

    class Holder:
        def __str__(self) -> str:
            return f"/websocket/app/{KEY}"

    try:
        raise ValueError(f"/websocket/app/{KEY}")
    except ValueError as error:
        structlog.get_logger("relay.test").exception(
            f"/websocket/app/{KEY}",
            error=error,
            holder=Holder(),
            deep={"list": [{MINTED: (MINTED,)}]},
        )

    assert "ValueError" in stream.getvalue()
    assert KEY not in stream.getvalue()
    assert MINTED not in stream.getvalue()


@pytest.mark.parametrize("log_format", list(LogFormat))
def test_libraries_write_through_the_same_mask(log_format: LogFormat) -> None:
    """Lines of the standard logging are rendered and masked alike."""
    stream = written(log_format)

    logging.getLogger("uvicorn.error").warning("got %s", f"/websocket/app/{KEY}")
    logging.getLogger("relay.tasks").error(
        "task_failed", exc_info=ValueError(f"/websocket/a/{KEY}"), extra={"task": "t"}
    )

    assert "uvicorn.error" in stream.getvalue()
    assert "task_failed" in stream.getvalue()
    assert KEY not in stream.getvalue()


def test_json_lines_have_the_fields_of_the_event() -> None:
    """One object a line: event, level, logger, instant, fields."""
    stream = written(LogFormat.JSON)

    structlog.get_logger("relay.test").info("executor_disconnected", grace_seconds=3.5)

    (line,) = read_json(stream)
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "executor_disconnected",
        "level": "info",
        "logger": "relay.test",
        "grace_seconds": 3.5,
    }


def test_less_severe_lines_are_left_out() -> None:
    """The level counts for our lines; statements and frames never appear."""
    stream = written(LogFormat.JSON, LogLevel.DEBUG)
    structlog.get_logger("relay.test").debug("shown")
    for library in ("sqlalchemy.engine", "websockets.server", "aiosqlite"):
        logging.getLogger(library).info("SELECT or frame")
    later = written(LogFormat.JSON, LogLevel.ERROR)
    structlog.get_logger("relay.test").warning("not shown")
    logging.getLogger("uvicorn.error").warning("not shown")

    assert [line["event"] for line in read_json(stream)] == ["shown"]
    assert later.getvalue() == ""


def test_warnings_of_python_become_log_lines() -> None:
    """A deprecation in a library does not reach standard error unrendered."""
    stream = written(LogFormat.JSON)

    logging.getLogger("py.warnings").warning("deprecated")

    assert read_json(stream)[0]["logger"] == "py.warnings"


def test_collector_is_tuned_for_the_block_and_put_back() -> None:
    """Full collections become rare, what lives is frozen, pauses are measured."""
    before = gc.get_threshold(), gc.get_freeze_count(), list(gc.callbacks)
    readings = iter([1.0, 3.5, 10.0, 11.0])
    metrics = Metrics()

    with tuned_collector(metrics, lambda: next(readings)):
        assert gc.get_threshold() == (5_000, 5, 100_000)
        assert gc.get_freeze_count() > before[1]
        gc.collect()
        gc.collect()

    assert metrics.registry.get_sample_value("relay_gc_pause_seconds_max") == 2.5
    assert (gc.get_threshold(), gc.get_freeze_count(), list(gc.callbacks)) == before


def test_console_shows_details_as_fields() -> None:
    """Each by its name, unless the event has one of that name already."""
    fields = {"target": "loop", "details": {"executor_id": "e1", "target": "e2"}}
    console = written(LogFormat.CONSOLE)
    structlog.get_logger("test").info("audit_recorded", **fields)
    as_json = written(LogFormat.JSON)
    structlog.get_logger("test").info("audit_recorded", **fields)

    words = console.getvalue().split()
    assert {"executor_id=e1", "target=loop", "details.target=e2"} <= set(words)
    assert "{" not in console.getvalue()
    assert read_json(as_json)[0]["details"] == fields["details"]


def test_names_of_details_do_not_steer_the_console() -> None:
    """They may be a stranger's, and `exception` is printed as it is."""
    stream = written(LogFormat.CONSOLE)

    structlog.get_logger("test").info(
        "seen", details={"a\x1bb": 1, "exception": "c\x1bd\ne"}
    )

    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()


def test_console_shows_control_characters_and_does_not_obey_them() -> None:
    """A stranger's text neither begins a new line nor moves the terminal's cursor."""
    stream = written(LogFormat.CONSOLE)

    structlog.get_logger("test").info("seen", name="a\x1b[2Jb", more=["c\x9bd\re"])
    logging.getLogger("test").warning("line\nanother \x1b[31m")

    assert stream.getvalue().count("\n") == 2
    assert not {"\x1b", "\x9b", "\r"} & set(stream.getvalue())
    assert r"\x1b[2J" in stream.getvalue()
