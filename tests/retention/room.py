"""Retention with its real store, executors of a script, and settings for it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from relay.ids import ApplicationId, ApplicationRef, AppName
from relay.protocol.sdk import Sdk
from relay.records import ApplicationRecord, AuditEntry
from relay.retention import Retention
from tests.recovery.records import (
    ORGANIZATION,
    SHOP,
    make_application,
    make_settings,
)
from tests.recovery.stage import Stage

on_sqlite = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)

BLOG = ApplicationRef(ApplicationId("app-blog"), ORGANIZATION, AppName("blog"))
OLD_PYTHON = Sdk("python", "2.31.1")
HOUR = timedelta(hours=1)


def settings_of(
    ref: ApplicationRef = SHOP,
    *,
    age: timedelta | None = None,
    rows: int | None = None,
    overdue: timedelta | None = None,
) -> ApplicationRecord:
    return replace(
        make_application(ref),
        gc_time_threshold=age,
        gc_rows_threshold=rows,
        global_timeout=overdue,
    )


class Room:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.retention = Retention(
            store=stage.store,
            audit=stage.audit,
            dispatcher=stage.dispatcher,
            peers=stage.peers,
            settings=make_settings(retention_interval_secs=300),
            clock=stage.clock,
            metrics=stage.metrics,
            jitter=lambda: 0.5,
        )

    async def set(self, application: ApplicationRecord) -> None:
        async with self.stage.store.write() as work:
            if not await work.applications.update(application):
                await work.applications.insert(application)

    async def dispatch(self) -> None:
        await self.retention.dispatch_now()
        await self.stage.settle()

    async def list_entries(self, operation: str) -> list[AuditEntry]:
        async with self.stage.store.read() as work:
            records = await work.audit.list_entries(
                ORGANIZATION, operation=operation, limit=100
            )
        return [record.entry for record in records]
