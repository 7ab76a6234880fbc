"""
Logs and figures.

Everything Relay writes passes `mask`: an API key stands in the path of every executor's
upgrade request, and must not stand anywhere else. Each server has its own `Metrics`
with its own registry, so that two servers in one process do not share a figure.

Libraries log through the standard `logging`, the server's rooms through structlog; both
end in one handler with one format (`configure_logging`).
"""

import gc
import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from structlog.typing import EventDict, Processor, WrappedLogger

from relay.settings import LogFormat, LogLevel

_KEY_IN_PATH = re.compile(r"(/websocket/[^/\s?#]*/)\S+")
# A minted key has 43 characters after the prefix; names of databases have fewer.
_KEY = re.compile(r"dbos_[A-Za-z0-9_-]{32,}")

_LIBRARIES = ("aiosqlite", "alembic", "asyncio", "sqlalchemy", "uvicorn", "websockets")

_WITH_LINES = {"exception", "stack"}
"""The fields of an event that are more than one line long."""

_COLLECT_AFTER = (5_000, 5, 100_000)
"""
Thresholds of the garbage collector; see `tuned_collector`.

Small young generations: looking at 50,000 objects took up to 100 ms while thousands of
executors connected, at 5,000 it is less than 20.
"""


def mask(text: str) -> str:
    """`text` without the API keys in it, in URL paths or bare."""
    # Looking for a word is a tenth of a search by pattern, and nearly all texts are
    # innocent: when thousands of executors come back, this is asked 100,000 times.
    if "/websocket/" in text:
        text = _KEY_IN_PATH.sub(r"\1***", text)
    if "dbos_" in text:
        text = _KEY.sub("dbos_***", text)
    return text


def show_controls(text: str, *, keep: str = "") -> str:
    r"""
    `text` with what is no plain character spelt out, as `\n` or `\x1b`.

    Names and messages of strangers shall not begin a new line in a log, nor steer the
    terminal of whoever reads it.

    Args:
        keep: characters that stay as they are.
    """
    if text.isprintable():
        return text
    return "".join(
        sign
        if sign.isprintable() or sign in keep
        else sign.encode("unicode_escape").decode()
        for sign in text
    )


def mask_event(logger: WrappedLogger, name: str, event: EventDict) -> EventDict:
    """
    A structlog processor that masks every text of an event, however deep.

    It has to run after tracebacks are rendered to text and before the event is:
    what is no plain value (an exception, say) becomes its text here, because the
    renderer would write that text unmasked later.
    """
    del logger, name
    return {key: _masked(value) for key, value in event.items()}


def configure_logging(
    log_format: LogFormat, level: LogLevel, *, stream: TextIO | None = None
) -> None:
    """Send all logs of the process to `stream` (standard error), masked."""
    stream = stream or sys.stderr
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            mask_event,
            *_renderers(log_format, is_terminal=stream.isatty()),
        ],
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for library in _LIBRARIES:
        # Below it they print statements, frames and request lines.
        logging.getLogger(library).setLevel(max(root.level, logging.WARNING))
    logging.captureWarnings(capture=True)


@contextmanager
def tuned_collector(
    metrics: "Metrics", read_seconds: Callable[[], float]
) -> Iterator[None]:
    """
    Keep the garbage collector from stopping the loop, and measure its pauses.

    With the interpreter's thresholds a full collection over tens of thousands of
    connections takes seconds, longer than the slack between ping and deadline. What
    lives at the start is frozen (it never becomes garbage), and full collections become
    rare. Enter it when everything long-lived has been made.

    Args:
        read_seconds: a monotonic reading, in seconds.
    """
    began = 0.0

    def observe(phase: str, info: Mapping[str, int]) -> None:
        nonlocal began
        del info
        if phase == "start":
            began = read_seconds()
        else:
            metrics.observe_gc_pause(read_seconds() - began)

    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
    gc.callbacks.append(observe)
    try:
        yield
    finally:
        gc.callbacks.remove(observe)
        gc.set_threshold(*before)
        gc.unfreeze()


def _renderers(log_format: LogFormat, *, is_terminal: bool) -> Sequence[Processor]:
    if log_format is LogFormat.JSON:
        return [structlog.processors.JSONRenderer()]
    return [
        _spread_details,
        _show_controls_of_event,
        structlog.dev.ConsoleRenderer(
            colors=is_terminal,
            exception_formatter=structlog.dev.plain_traceback,
            pad_event_to=30,
        ),
    ]


def _spread_details(logger: WrappedLogger, name: str, event: EventDict) -> EventDict:
    """For people: the details of an event as fields of its own."""
    del logger, name
    details = event.get("details")
    if not isinstance(details, Mapping):
        return event
    spread = {key: value for key, value in event.items() if key != "details"}
    for key, value in details.items():
        field = show_controls(key)
        is_taken = field in event or field in _WITH_LINES
        spread[f"details.{field}" if is_taken else field] = value
    return spread


def _show_controls_of_event(
    logger: WrappedLogger, name: str, event: EventDict
) -> EventDict:
    """Texts alone: the renderer spells out what other values hold."""
    del logger, name
    return {
        key: show_controls(value, keep="\n" if key in _WITH_LINES else "")
        if isinstance(value, str)
        else value
        for key, value in event.items()
    }


def _masked(value: object) -> Any:
    match value:
        case str():
            return mask(value)
        case None | bool() | int() | float():
            return value
        case Mapping():
            return {mask(str(key)): _masked(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_masked(item) for item in value]
        case _:
            return mask(str(value))


class _Registry(CollectorRegistry):
    """
    A registry that does not say when each counter was made.

    The library adds a `_created` series to every counter and histogram, twice the
    lines for a date nobody asks for, and can only be told not to for the whole process.
    """

    def collect(self) -> Iterator[Metric]:
        for family in super().collect():
            family.samples = [
                sample
                for sample in family.samples
                if not sample.name.endswith("_created")
            ]
            yield family


class Metrics:
    """Relay's own figures, as `/metrics` serves them."""

    def __init__(self) -> None:
        self.registry: CollectorRegistry = _Registry()
        self.connections = Gauge(
            "relay_connections",
            "Executor sockets open now.",
            registry=self.registry,
        )
        self.upgrades = Counter(
            "relay_upgrades",
            "Upgrade requests, by outcome (accepted, gone, or the refusal's status).",
            ["outcome"],
            registry=self.registry,
        )
        self.sockets_turned_away = Counter(
            "relay_sockets_turned_away",
            "Sockets cut or refused that were no executors', by reason.",
            ["reason"],
            registry=self.registry,
        )
        self.handshakes_failed = Counter(
            "relay_handshakes_failed",
            "Sockets that never said who they are.",
            registry=self.registry,
        )
        self.disconnects = Counter(
            "relay_disconnects",
            "Executor sockets that ended, by reason.",
            ["reason"],
            registry=self.registry,
        )
        self.replies_dropped = Counter(
            "relay_replies_dropped",
            "Replies nobody waits for, and frames that are no replies.",
            registry=self.registry,
        )
        self.requests = Counter(
            "relay_executor_requests",
            "Requests to executors, by message type and outcome.",
            ["message", "outcome"],
            registry=self.registry,
        )
        self.request_seconds = Histogram(
            "relay_executor_request_seconds",
            "Time from queueing a request to its reply, in seconds.",
            ["message"],
            registry=self.registry,
        )
        self.executors = Gauge(
            "relay_executors",
            "Known executors, by status.",
            ["status"],
            registry=self.registry,
        )
        self.transitions = Counter(
            "relay_transitions",
            "Changes of an executor's status, by audit operation.",
            ["operation"],
            registry=self.registry,
        )
        self.recoveries = Gauge(
            "relay_recoveries",
            "Open recoveries, by state; counted every 15 s.",
            ["state"],
            registry=self.registry,
        )
        self.recovery_oldest_seconds = Gauge(
            "relay_recovery_oldest_seconds",
            "Age of the oldest open recovery, by state, in seconds, every 15 s.",
            ["state"],
            registry=self.registry,
        )
        self.recovery_orders = Counter(
            "relay_recovery_orders",
            "Dead executors named in recovery orders, by outcome of the order.",
            ["outcome"],
            registry=self.registry,
        )
        self.retentions = Counter(
            "relay_retentions",
            "Retention messages, by outcome.",
            ["outcome"],
            registry=self.registry,
        )
        self.censuses = Counter(
            "relay_censuses",
            "Counts of an application's pending work, by outcome.",
            ["outcome"],
            registry=self.registry,
        )
        self.collections = Counter(
            "relay_collections",
            "Questions what an application did in a window, by outcome.",
            ["outcome"],
            registry=self.registry,
        )
        self.unattended_workflows = Gauge(
            "relay_unattended_workflows",
            "Pending workflows that are not recovered by themselves, by kind of owner.",
            ["kind"],
            registry=self.registry,
        )
        self.disputed_applications = Gauge(
            "relay_disputed_applications",
            "Applications whose executors read different databases.",
            registry=self.registry,
        )
        self.audit_entries = Counter(
            "relay_audit_entries",
            "Audit entries written, by operation and status.",
            ["operation", "status"],
            registry=self.registry,
        )
        self.store_failures = Counter(
            "relay_store_failures",
            "Transactions that failed because the database did not answer.",
            registry=self.registry,
        )
        self.loop_stall_seconds = Gauge(
            "relay_loop_stall_seconds_max",
            "Longest stall of the event loop since start, in seconds.",
            registry=self.registry,
        )
        self.gc_pause_seconds = Gauge(
            "relay_gc_pause_seconds_max",
            "Longest pause of the garbage collector since start, in seconds.",
            registry=self.registry,
        )
        self._longest_gc_pause = 0.0

    def observe_gc_pause(self, seconds: float) -> None:
        """Note a pause of the garbage collector."""
        if seconds > self._longest_gc_pause:
            self._longest_gc_pause = seconds
            self.gc_pause_seconds.set(seconds)
