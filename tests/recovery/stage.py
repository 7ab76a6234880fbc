"""
A theatre for the engine: a database of workflows, scripted executors, a fake clock.

The store is a real one. `Stage.run_until` lets time pass in small steps, and each time
waits until nobody uses the database any more, so that every test owns its time although
database drivers work in threads.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast

from relay.audit import AuditWriter
from relay.db import Database
from relay.dispatch import Dispatcher
from relay.errors import (
    ConnectionLostError,
    ReplyTimeoutError,
    RequestWithdrawnError,
    StoreUnavailableError,
)
from relay.ids import (
    ApplicationId,
    ApplicationRef,
    AppVersion,
    ExecutorId,
    ExecutorRef,
    InstanceId,
    RecoveryId,
    WorkflowId,
)
from relay.protocol.envelope import Request
from relay.protocol.messages import (
    Acknowledgement,
    ExecutorInfo,
    ExecutorInfoRequest,
    ExistPendingWorkflowsRequest,
    ListWorkflowsRequest,
    RecoveryRequest,
    RetentionRequest,
    WorkflowSummary,
)
from relay.protocol.sdk import Capabilities, Sdk, capabilities_of
from relay.records import (
    AuditRecord,
    ExecutorRecord,
    RecoveryRecord,
    RecoveryState,
    VersionPolicy,
)
from relay.recovery.bookkeeping import Bookkeeper
from relay.recovery.engine import RecoveryEngine
from relay.store import Store, UnitOfWork
from relay.tasks import TaskSet
from relay.telemetry import Metrics
from relay.testing.clock import FakeClock
from tests.recovery.records import (
    ME,
    ORGANIZATION,
    SHOP,
    V1,
    dead_ref,
    make_application,
    make_executor,
    make_recovery,
    make_settings,
)

ReplyT = TypeVar("ReplyT")
Behaviour = Callable[[Any], Awaitable[object]]

MODERN = Sdk("python", "3.2.0")
DIRECT = Sdk("java", "1.0.0")
"""Starts recovered work on the spot."""


class Workflows:
    """What all executors read: who owns which pending workflows of which version."""

    def __init__(self) -> None:
        self._pending: dict[tuple[ExecutorId, AppVersion], list[WorkflowId]] = (
            defaultdict(list)
        )

    def add(self, owner: ExecutorId, version: AppVersion, *ids: str) -> None:
        self._pending[owner, version] += [WorkflowId(i) for i in ids]

    def pending(self, owner: ExecutorId, version: AppVersion) -> list[WorkflowId]:
        return self._pending[owner, version]

    def take_over(self, owner: ExecutorId, version: AppVersion) -> None:
        """Re-enqueue: nothing of this version is pending under this owner any more."""
        self._pending[owner, version] = []


@dataclass(eq=False)
class FakePeer:
    """An executor that answers truly, as its SDK would, unless told otherwise."""

    ref: ExecutorRef
    info: ExecutorInfo
    capabilities: Capabilities
    workflows: Workflows
    clock: FakeClock
    behaviours: dict[type, Behaviour] = field(default_factory=dict)
    requests: list[Request[Any]] = field(default_factory=list)
    in_flight: int = 0
    is_responsive: bool = True

    def on(self, request_type: type, behaviour: Behaviour) -> None:
        self.behaviours[request_type] = behaviour

    def asked(self, request_type: type) -> list[Any]:
        return [r for r in self.requests if isinstance(r, request_type)]

    async def ask(
        self,
        request: Request[ReplyT],
        timeout: timedelta,  # noqa: ASYNC109 - the span is measured by our Clock
        *,
        still_wanted: Callable[[], bool] | None = None,
    ) -> ReplyT:
        if still_wanted is not None and not still_wanted():
            raise RequestWithdrawnError(self.ref.executor_id)
        self.requests.append(request)
        self.in_flight += 1
        try:
            async with self.clock.timeout(timeout):
                reply = await self._behave(request)
        except TimeoutError:
            raise ReplyTimeoutError(
                self.ref.executor_id, timeout, delivered=True
            ) from None
        finally:
            self.in_flight -= 1
        return cast(ReplyT, reply)

    async def _behave(self, request: Request[Any]) -> object:
        if behaviour := self.behaviours.get(type(request)):
            return await behaviour(request)
        match request:
            case ExistPendingWorkflowsRequest(executor_id, app_version):
                return bool(self.workflows.pending(executor_id, app_version))
            case ListWorkflowsRequest(executor_ids, app_versions):
                return tuple(
                    summary(i, executor_id, version)
                    for executor_id in executor_ids
                    for version in app_versions
                    for i in self.workflows.pending(executor_id, version)
                )[: request.limit]
            case RecoveryRequest(executor_ids):
                for executor_id in executor_ids:
                    self.workflows.take_over(executor_id, self.info.application_version)
                return Acknowledgement(success=True)
            case RetentionRequest():
                return Acknowledgement(success=True)
            case ExecutorInfoRequest():
                return self.info
            case _:
                raise AssertionError(f"no answer to {request}")


def summary(
    workflow_id: str, executor_id: ExecutorId, version: AppVersion = V1
) -> WorkflowSummary:
    return WorkflowSummary(
        WorkflowId(workflow_id), "work", "PENDING", executor_id, version
    )


async def silence(_: object) -> object:
    """No answer, ever."""
    await asyncio.Event().wait()
    raise AssertionError("an event that nobody sets")


def replying(reply: object) -> Behaviour:
    async def behave(_: object) -> object:
        return reply

    return behave


def failing(error: Exception) -> Behaviour:
    async def behave(_: object) -> object:
        raise error

    return behave


def lost(peer: str, *, delivered: bool) -> Behaviour:
    return failing(ConnectionLostError(ExecutorId(peer), delivered=delivered))


class FakePeers:
    """The hub, as far as this room sees it."""

    def __init__(self) -> None:
        self.peers: list[FakePeer] = []
        self.online: set[ExecutorRef] = set()
        self.arriving: set[ApplicationRef] = set()

    def list_peers(self, application_id: ApplicationId) -> Sequence[FakePeer]:
        return [p for p in self.peers if p.ref.application.id == application_id]

    def find(self, ref: ExecutorRef) -> FakePeer | None:
        return next((peer for peer in self.peers if peer.ref == ref), None)

    def is_online(self, ref: ExecutorRef) -> bool:
        return ref in self.online or any(peer.ref == ref for peer in self.peers)

    def is_anybody_arriving(self, application: ApplicationRef) -> bool:
        return application in self.arriving


class BreakableStore(Store):
    """A store whose database can be taken away."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.is_down = False
        self.on_next_commit: Callable[[], None] | None = None

    @asynccontextmanager
    async def read(self) -> AsyncIterator[UnitOfWork]:
        self._check()
        async with super().read() as work:
            yield work

    @asynccontextmanager
    async def write(self) -> AsyncIterator[UnitOfWork]:
        self._check()
        async with super().write() as work:
            yield work
        react, self.on_next_commit = self.on_next_commit, None
        if react is not None:
            react()

    def lose_next_commit(self) -> None:
        """The connection breaks before the database can say that it committed."""

        def break_off() -> None:
            raise StoreUnavailableError("gone while committing")

        self.on_next_commit = break_off

    def _check(self) -> None:
        if self.is_down:
            raise StoreUnavailableError("gone")


class Stage:
    """Everything around one engine."""

    def __init__(self, database: Database, clock: FakeClock) -> None:
        self.database = database
        self.clock = clock
        self.store = BreakableStore(database)
        self.metrics = Metrics()
        self.audit = AuditWriter(self.metrics)
        self.peers = FakePeers()
        self.workflows = Workflows()
        self.dispatcher = Dispatcher(self.peers, clock)
        self._runs: dict[RecoveryEngine, asyncio.Task[None]] = {}
        self._tasks = TaskSet("stage")

    async def __aenter__(self) -> "Stage":
        async with self.store.write() as work:
            await work.organizations.ensure(ORGANIZATION)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._tasks.close()

    # --- who and what is there -------------------------------------------------------

    async def add_application(
        self,
        ref: ApplicationRef = SHOP,
        *,
        version_policy: VersionPolicy = VersionPolicy.SAME,
    ) -> None:
        async with self.store.write() as work:
            await work.applications.insert(
                make_application(ref, version_policy=version_policy)
            )

    def connect(
        self,
        name: str,
        version: AppVersion = V1,
        *,
        application: ApplicationRef = SHOP,
        sdk: Sdk = MODERN,
    ) -> FakePeer:
        """An executor is on line, in the hub only."""
        info = ExecutorInfo(
            ExecutorId(name), version, "host", sdk.language, sdk.version, None
        )
        peer = FakePeer(
            dead_ref(name, application),
            info,
            capabilities_of(sdk),
            self.workflows,
            self.clock,
        )
        self.peers.peers.append(peer)
        return peer

    def disconnect(self, peer: FakePeer) -> None:
        self.peers.peers.remove(peer)

    async def bury(
        self,
        name: str = "dead",
        *,
        application: ApplicationRef = SHOP,
        version: AppVersion = V1,
        pending: Sequence[str] = ("w-1", "w-2"),
        epoch: int = 3,
        lost_at: datetime | None = None,
    ) -> RecoveryId:
        """An executor is DEAD, with a row in the ledger, as the monitor leaves it."""
        ref = dead_ref(name, application)
        self.workflows.add(ref.executor_id, version, *pending)
        record = make_recovery(
            ref,
            epoch=epoch,
            app_version=version,
            recovery_id=f"r-{name}-{epoch}",
            lost_at=lost_at,
            now=self.clock.now(),
        )
        async with self.store.write() as work:
            await work.executors.insert(
                make_executor(ref, epoch=epoch, app_version=version)
            )
            await work.recoveries.insert(record)
        return record.id

    # --- the engine and the time -----------------------------------------------------

    def make_engine(
        self, *, instance_id: InstanceId = ME, jitter: float = 0.5, **settings: Any
    ) -> RecoveryEngine:
        return RecoveryEngine(
            store=self.store,
            audit=self.audit,
            dispatcher=self.dispatcher,
            peers=self.peers,
            settings=make_settings(**settings),
            clock=self.clock,
            metrics=self.metrics,
            instance_id=instance_id,
            jitter=lambda: jitter,
        )

    def start(self, engine: RecoveryEngine | None = None) -> RecoveryEngine:
        engine = engine or self.make_engine()
        self._runs[engine] = self._tasks.spawn(engine.run(), name="engine")
        return engine

    async def kill(self, engine: RecoveryEngine) -> None:
        """The process ends without a word."""
        task = self._runs.pop(engine)
        task.cancel()
        await asyncio.wait([task])

    def make_books(self, instance_id: InstanceId = ME) -> Bookkeeper:
        return Bookkeeper(self.store, self.audit, instance_id=instance_id)

    async def run_until(
        self,
        is_reached: Callable[[], Awaitable[bool]],
        *,
        within: timedelta = timedelta(minutes=10),
        step: timedelta = timedelta(milliseconds=500),
    ) -> timedelta:
        """Let time pass until `is_reached`; how long it took."""
        started = self.clock.now()
        await self.settle()
        while not await is_reached():
            passed = self.clock.now() - started
            assert passed < within, f"not reached within {within}"
            await self.clock.advance(step)
            await self.settle()
        return self.clock.now() - started

    async def pass_time(self, span: timedelta) -> None:
        end = self.clock.now() + span

        async def is_over() -> bool:
            return self.clock.now() >= end

        await self.run_until(is_over, within=span + timedelta(seconds=1))

    async def settle(self) -> None:
        """Return when all that is left to wait for is time or an executor."""
        quiet = 0
        while quiet < 3:
            await self.clock.settle()
            quiet = 0 if self.database.connections_in_use else quiet + 1

    async def reach(
        self, recovery_id: RecoveryId, *states: RecoveryState, **options: Any
    ) -> RecoveryRecord:
        """Let time pass until the row is in one of these states."""

        async def is_reached() -> bool:
            return (await self.find(recovery_id)).state in states

        await self.run_until(is_reached, **options)
        return await self.find(recovery_id)

    # --- what became of it -----------------------------------------------------------

    async def find(self, recovery_id: RecoveryId) -> RecoveryRecord:
        async with Store(self.database).read() as work:
            record = await work.recoveries.find(recovery_id)
        assert record is not None
        return record

    async def find_executor(self, name: str = "dead") -> ExecutorRecord | None:
        async with Store(self.database).read() as work:
            return await work.executors.find(dead_ref(name).key)

    async def list_story(self, recovery_id: RecoveryId) -> Sequence[AuditRecord]:
        async with Store(self.database).read() as work:
            return await work.audit.list_by_recovery(recovery_id)

    async def list_operations(self, recovery_id: RecoveryId) -> list[str]:
        story = await self.list_story(recovery_id)
        return [record.entry.operation for record in story]
