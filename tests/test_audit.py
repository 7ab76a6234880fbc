"""The one writer of the audit log."""

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from relay.audit import AuditWriter, engine_entry
from relay.ids import (
    ApplicationId,
    ApplicationRef,
    AppName,
    ExecutorId,
    ExecutorRef,
    OrgName,
    RecoveryId,
)
from relay.liveness.states import ExecutorStatus
from relay.records import (
    RELAY_SUBJECT,
    AuditEntry,
    AuditRecord,
    AuditStatus,
    AuditSubject,
    AuditTarget,
)
from relay.store import Store
from relay.telemetry import Metrics
from relay.testing.clock import START

LOCAL = OrgName("local")
APP = ApplicationRef(ApplicationId("app-1"), LOCAL, AppName("orders"))
EXECUTOR = ExecutorRef(APP, ExecutorId("e1"))
KEY = "dbos_" + "0123456789abcdef" * 3


@pytest.fixture
def metrics() -> Metrics:
    """Figures of one server."""
    return Metrics()


@pytest.fixture
async def writer(store: Store, metrics: Metrics) -> AuditWriter:
    """A writer on a store with one organization."""
    async with store.write() as work:
        await work.organizations.ensure(LOCAL)
    return AuditWriter(metrics)


async def list_entries(store: Store) -> list[AuditRecord]:
    async with store.read() as work:
        return list(await work.audit.list_entries(LOCAL, limit=10))


async def record_details(
    store: Store, writer: AuditWriter, details: Mapping[str, Any]
) -> Mapping[str, Any]:
    async with store.write() as work:
        await writer.record(work, replace(engine_entry("x", APP), details=details))
    return (await list_entries(store))[0].entry.details


def counted(metrics: Metrics, operation: str, status: str) -> float:
    value = metrics.registry.get_sample_value(
        "relay_audit_entries_total", {"operation": operation, "status": status}
    )
    return value or 0.0


def test_an_engine_entry_is_about_the_application() -> None:
    """The subject is Relay, the target the application, the executor a detail."""
    entry = engine_entry(
        "executor.dead",
        EXECUTOR,
        source_ip="10.0.0.1",
        recovery_id=RecoveryId("r1"),
        epoch=3,
    )

    assert entry == AuditEntry(
        organization=LOCAL,
        operation="executor.dead",
        status=AuditStatus.SUCCESS,
        subject=RELAY_SUBJECT,
        target=AuditTarget(kind="application", id="orders"),
        source_ip="10.0.0.1",
        details={"application_name": "orders", "executor_id": "e1", "epoch": 3},
        recovery_id=RecoveryId("r1"),
    )


def test_an_engine_entry_of_an_application_names_no_executor() -> None:
    """What concerns the whole application has no executor to name."""
    entry = engine_entry("retention.fail", APP, status=AuditStatus.FAILURE)

    assert entry.details == {"application_name": "orders"}
    assert entry.status is AuditStatus.FAILURE
    assert entry.source_ip == ""


async def test_entries_are_stored_in_their_order(
    store: Store, writer: AuditWriter
) -> None:
    """What is recorded first is older."""
    async with store.write() as work:
        await writer.record(work, engine_entry("a", EXECUTOR), engine_entry("b", APP))
        await writer.record(work)

    assert [record.entry.operation for record in await list_entries(store)] == [
        "b",
        "a",
    ]


async def test_each_entry_is_counted_and_logged_once_it_is_certain(
    store: Store, writer: AuditWriter, metrics: Metrics
) -> None:
    """Inside the transaction nothing is told yet; afterwards each entry is, once."""
    with capture_logs() as logs:
        async with store.write() as work:
            await writer.record(
                work,
                engine_entry("executor.dead", EXECUTOR),
                engine_entry("recovery.fail", EXECUTOR, status=AuditStatus.FAILURE),
            )
            assert logs == []
            assert counted(metrics, "executor.dead", "success") == 0

    assert [(log["operation"], log["log_level"]) for log in logs] == [
        ("executor.dead", "info"),
        ("recovery.fail", "warning"),
    ]
    assert counted(metrics, "executor.dead", "success") == 1
    assert counted(metrics, "recovery.fail", "failure") == 1


async def test_an_entry_that_was_undone_is_neither_counted_nor_logged(
    store: Store, writer: AuditWriter, metrics: Metrics
) -> None:
    """The entry ends with the transaction of the change it tells of."""

    async def fail() -> None:
        async with store.write() as work:
            await writer.record(work, engine_entry("executor.dead", EXECUTOR))
            raise RuntimeError

    with capture_logs() as logs, pytest.raises(RuntimeError):
        await fail()

    assert logs == []
    assert counted(metrics, "executor.dead", "success") == 0
    assert await list_entries(store) == []


async def test_keys_are_masked_wherever_they_stand(
    store: Store, writer: AuditWriter
) -> None:
    """Neither the row nor the log line shows a key."""
    entry = AuditEntry(
        organization=LOCAL,
        operation="executor.refuse",
        status=AuditStatus.FAILURE,
        subject=AuditSubject(kind="api_key", id=KEY, display=KEY),
        target=AuditTarget(kind="application", id=f"/websocket/orders/{KEY}"),
        source_ip=KEY,
        details={"path": f"/websocket/orders/{KEY}", KEY: [{"deep": KEY}]},
    )

    with capture_logs() as logs:
        async with store.write() as work:
            await writer.record(work, entry)

    (stored,) = await list_entries(store)
    assert "***" in repr(stored)
    assert KEY not in repr(stored)
    assert KEY not in repr(logs)


async def test_details_become_json(store: Store, writer: AuditWriter) -> None:
    """What the house works with has a form in JSON, nested or not."""
    details = await record_details(
        store,
        writer,
        {
            "status": ExecutorStatus.DEAD,
            "at": START,
            "grace": timedelta(milliseconds=1500),
            "ids": ("b", "a"),
            "names": frozenset({"b", "a"}),
            "nested": {1: [None, True, 2**70, 1.5]},
        },
    )

    assert details == {
        "status": "DEAD",
        "at": "2026-01-01T00:00:00+00:00",
        "grace": 1.5,
        "ids": ["b", "a"],
        "names": ["a", "b"],
        "nested": {"1": [None, True, 2**70, 1.5]},
    }


async def test_hostile_values_are_kept_harmless(
    store: Store, writer: AuditWriter
) -> None:
    """NUL, half characters and numbers that are none do not lose the entry."""
    details = await record_details(
        store,
        writer,
        {
            "nul": "a\0b",
            "half": "a\ud800b",
            "numbers": [math.nan, math.inf, -math.inf],
        },
    )

    assert details == {
        "nul": "ab",
        "half": "a?b",
        "numbers": ["nan", "inf", "-inf"],
    }


@pytest.mark.parametrize("value", [b"bytes", object()], ids=["bytes", "object"])
async def test_what_json_has_no_form_for_is_refused(
    store: Store, writer: AuditWriter, value: object
) -> None:
    """A mistake of ours is found at once, and the change is undone with it."""
    with pytest.raises(TypeError, match=type(value).__name__):
        await record_details(store, writer, {"value": value})

    assert await list_entries(store) == []
