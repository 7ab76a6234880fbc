"""The running server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import structlog

from relay.audit import AuditWriter
from relay.census import Census, CensusReports, Comparison
from relay.clock import Clock, SystemClock
from relay.collection import MetricCollection, MetricReports
from relay.db import Database
from relay.diagnosis import Diagnosis
from relay.dispatch import Dispatcher
from relay.hub.hub import Hub
from relay.ids import InstanceId, new_id
from relay.migration import Migrations
from relay.monitor import Monitor
from relay.operations import Operations
from relay.operations.asking import Executors
from relay.recovery import Ledger, RecoveryEngine
from relay.registry import LOCAL_ORGANIZATION, Registry
from relay.retention import Retention
from relay.server.database import migrate_when_there, open_database
from relay.server.housekeeping import purge_daily
from relay.server.lock import only_server
from relay.server.loops import kept_running
from relay.settings import AuthMode, RelaySettings
from relay.store import Store
from relay.tasks import TaskSet
from relay.telemetry import Metrics, tuned_collector

logger = structlog.get_logger(__name__)

DRAIN = timedelta(seconds=10)
"""How long executors have to answer the goodbye at shutdown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """
    Everything the HTTP edge works with.

    `replaced` is set when another server has taken the database: whoever runs this one
    has to close it.
    """

    settings: RelaySettings
    clock: Clock
    database: Database
    store: Store
    hub: Hub
    monitor: Monitor
    dispatcher: Dispatcher
    engine: RecoveryEngine
    ledger: Ledger
    registry: Registry
    retention: Retention
    census: Census
    comparison: Comparison
    census_reports: CensusReports
    collection: MetricCollection
    metric_reports: MetricReports
    operations: Operations
    diagnosis: Diagnosis
    migrations: Migrations
    audit: AuditWriter
    metrics: Metrics
    replaced: asyncio.Event


@asynccontextmanager
async def open_server(
    settings: RelaySettings, *, clock: Clock | None = None
) -> AsyncIterator[Server]:
    """
    A server whose sockets may come; drained and closed when the block ends.

    Waits for its database, and for another server on it, as long as it takes.

    Raises:
        SettingsError: the database cannot be used like this.
        SchemaTooNewError: a newer Relay has migrated the database.
        StoreLockedError: another server uses the SQLite file, or (at the end of the
            block) has taken the PostgreSQL database.
    """
    clock = clock or SystemClock()
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(open_database(settings))
        replaced = await stack.enter_async_context(only_server(database, clock))
        await migrate_when_there(database, clock)
        server = await stack.enter_async_context(
            open_server_on(database, settings, clock=clock, replaced=replaced)
        )
        stack.enter_context(tuned_collector(server.metrics, clock.monotonic))
        yield server


@asynccontextmanager
async def open_server_on(
    database: Database,
    settings: RelaySettings,
    *,
    clock: Clock,
    replaced: asyncio.Event,
) -> AsyncIterator[Server]:
    """
    A server on a migrated database that no other server uses.

    The part of `open_server` that has nothing to do with the process around it.
    """
    async with AsyncExitStack() as stack:
        server = await _assemble(settings, clock, database, replaced)
        await server.monitor.start()
        await server.comparison.restore()
        stack.push_async_callback(server.monitor.finish)

        watching = await stack.enter_async_context(TaskSet("watching"))
        watching.spawn(kept_running("hub", server.hub.run, clock), name="hub")
        watching.spawn(
            kept_running("monitor", server.monitor.run, clock), name="monitor"
        )
        stack.push_async_callback(server.registry.finish)
        stack.push_async_callback(server.hub.drain, DRAIN)

        acting = await stack.enter_async_context(TaskSet("acting"))
        for name, loop in {
            "recovery": server.engine.run,
            "retention": server.retention.run,
            "census": server.census.run,
            "comparison": server.comparison.run,
            "collection": server.collection.run,
            "migration": server.migrations.run,
            "registry": server.registry.run,
            "purge": lambda: purge_daily(server.store, clock),
        }.items():
            acting.spawn(kept_running(name, loop, clock), name=name)

        logger.info(
            "server_opened", database=database.dialect, auth=settings.auth.value
        )
        yield server
        logger.info("server_closing", connections=server.hub.connection_count)


async def _assemble(
    settings: RelaySettings, clock: Clock, database: Database, replaced: asyncio.Event
) -> Server:
    metrics = Metrics()
    instance_id = InstanceId(new_id())
    store = Store(database)
    async with store.write() as work:
        await work.organizations.ensure(LOCAL_ORGANIZATION)
        await work.organizations.set_audit_retention(
            LOCAL_ORGANIZATION, settings.audit_retention
        )
        known = await work.executors.count_by_status()
        has_keys = await work.keys.has_live(LOCAL_ORGANIZATION)
    if settings.auth is AuthMode.KEYS and not has_keys:
        logger.warning("no_keys_exist", hint="relay key create operator --admin")
    audit = AuditWriter(metrics)
    hub = Hub(settings=settings, clock=clock, metrics=metrics)
    dispatcher = Dispatcher(hub, clock)
    comparison = Comparison(
        store=store, audit=audit, peers=hub, clock=clock, metrics=metrics
    )
    engine = RecoveryEngine(
        store=store,
        audit=audit,
        dispatcher=dispatcher,
        peers=hub,
        settings=settings if any(known.values()) else _without_hold(settings),
        clock=clock,
        metrics=metrics,
        instance_id=instance_id,
        agreement=comparison,
    )
    registry = Registry(
        store=store,
        audit=audit,
        settings=settings,
        clock=clock,
        hub=hub,
        recheck_deadlines=lambda: monitor.recheck_deadlines(),
        is_flapping=lambda ref: monitor.is_flapping(ref),
    )
    monitor = Monitor(
        store=store,
        hub=hub,
        newcomers=registry.newcomers,
        audit=audit,
        settings=settings,
        clock=clock,
        metrics=metrics,
        instance_id=instance_id,
        wake_recovery=engine.wake,
    )
    hub.attach(registry, monitor)
    executors = Executors(dispatcher, settings, clock, store)
    return Server(
        settings=settings,
        clock=clock,
        database=database,
        store=store,
        hub=hub,
        monitor=monitor,
        dispatcher=dispatcher,
        engine=engine,
        ledger=Ledger(store, audit),
        registry=registry,
        retention=Retention(
            store=store,
            audit=audit,
            dispatcher=dispatcher,
            peers=hub,
            settings=settings,
            clock=clock,
            metrics=metrics,
        ),
        census=Census(
            store=store,
            audit=audit,
            dispatcher=dispatcher,
            peers=hub,
            agreement=comparison,
            settings=settings,
            clock=clock,
            metrics=metrics,
        ),
        comparison=comparison,
        census_reports=CensusReports(store),
        collection=MetricCollection(
            store=store,
            dispatcher=dispatcher,
            peers=hub,
            settings=settings,
            clock=clock,
            metrics=metrics,
        ),
        metric_reports=MetricReports(store),
        operations=Operations(
            store=store,
            audit=audit,
            dispatcher=dispatcher,
            settings=settings,
            clock=clock,
            applications=registry.lookup,
        ),
        diagnosis=Diagnosis(
            store=store,
            executors=executors,
            peers=hub,
            settings=settings,
            clock=clock,
        ),
        migrations=Migrations(
            store=store,
            audit=audit,
            executors=executors,
            peers=hub,
            clock=clock,
        ),
        audit=audit,
        metrics=metrics,
        replaced=replaced,
    )


def _without_hold(settings: RelaySettings) -> RelaySettings:
    """For a start that knows no executor: none of them can be redialling."""
    return settings.model_copy(update={"start_hold_secs": 0.0})
