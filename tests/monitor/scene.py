"""A monitor on a real store, with sockets that only exist on paper."""

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from relay.audit import AuditWriter
from relay.clock import SystemClock
from relay.db import Database
from relay.errors import StoreUnavailableError
from relay.hub.events import Arrival, Departure, Loss
from relay.hub.pulse import Pulse
from relay.ids import (
    ApplicationId,
    ApplicationRef,
    AppName,
    AppVersion,
    ConnectionId,
    ExecutorId,
    ExecutorRef,
    InstanceId,
    KeyName,
    OrgName,
)
from relay.liveness.states import ExecutorStatus
from relay.monitor import Monitor
from relay.protocol.messages import ExecutorInfo
from relay.records import (
    ApplicationRecord,
    AuditRecord,
    ExecutorRecord,
    RecoveryRecord,
    VersionPolicy,
)
from relay.settings import RelaySettings
from relay.store import Store, UnitOfWork
from relay.tasks import TaskSet
from relay.telemetry import Metrics
from relay.testing.clock import FakeClock

SECOND = timedelta(seconds=1)
GRACE = 30 * SECOND
FAULT_GRACE = 60 * SECOND
LOCAL = OrgName("local")
APPLICATION = ApplicationRef(
    id=ApplicationId("application-1"), organization=LOCAL, name=AppName("orders")
)
SETTINGS = RelaySettings.model_validate(
    {"fault_grace_secs": 60, "handshake_timeout_secs": 10}
)
ADDRESS = "192.0.2.7"
PATIENCE = 30 * SECOND
"""How long a test waits for the database's own threads: a disk may be busy."""


class FaultyStore(Store):
    """A store that does not answer while `is_down`, and counts what was committed."""

    is_down = False
    is_stalling = False
    writes = 0

    def __init__(self, database: Database, clock: FakeClock) -> None:
        super().__init__(database)
        self._clock = clock
        self._read_stall = timedelta(0)
        self._write_stall = timedelta(0)

    def stall_next_read(self, span: timedelta) -> None:
        """Let the next reading transaction stand still for `span`."""
        self._read_stall = span

    def stall_next_write(self, span: timedelta) -> None:
        """Let the next writing transaction stand still for `span`."""
        self._write_stall = span

    @asynccontextmanager
    async def read(self) -> AsyncIterator[UnitOfWork]:
        self._check()
        span, self._read_stall = self._read_stall, timedelta(0)
        await self._stand_still(span)
        async with super().read() as work:
            yield work

    @asynccontextmanager
    async def write(self) -> AsyncIterator[UnitOfWork]:
        self._check()
        span, self._write_stall = self._write_stall, timedelta(0)
        await self._stand_still(span)
        async with super().write() as work:
            yield work
        self.writes += 1

    async def _stand_still(self, span: timedelta) -> None:
        if span:
            self.is_stalling = True
            await self._clock.sleep(span)
            self.is_stalling = False

    def _check(self) -> None:
        if self.is_down:
            raise StoreUnavailableError("switched off")


@dataclass(frozen=True, slots=True)
class PaperConnection:
    """An open socket, as far as the monitor can tell."""

    id: ConnectionId
    ref: ExecutorRef
    info: ExecutorInfo
    peer_address: str = ADDRESS
    key_name: KeyName | None = None


@dataclass(slots=True)
class PaperSockets:
    """The hub's side of the monitor: what is open, and what it was told to close."""

    clock: FakeClock
    open: dict[ConnectionId, PaperConnection] = field(default_factory=dict)
    handshaking: set[ApplicationId] = field(default_factory=set)
    colliding: set[ExecutorRef] = field(default_factory=set)
    closed: list[tuple[ConnectionId, Loss]] = field(default_factory=list)
    is_draining: bool = False
    pulse: Pulse = field(init=False)

    def __post_init__(self) -> None:
        self.pulse = Pulse(self.clock, Metrics())

    @property
    def stalled_for(self) -> timedelta:
        return self.pulse.stalled_for

    def find(self, ref: ExecutorRef) -> PaperConnection | None:
        found = [each for each in self.open.values() if each.ref == ref]
        return found[-1] if found else None

    def is_handshaking(self, application: ApplicationRef) -> bool:
        return application.id in self.handshaking

    def is_colliding(self, ref: ExecutorRef) -> bool:
        return ref in self.colliding

    def list_last_seen(
        self,
    ) -> Sequence[tuple[ExecutorRef, ConnectionId, datetime]]:
        now = self.clock.now()
        return [(each.ref, each.id, now) for each in self.open.values()]

    def close_connection(
        self, connection_id: ConnectionId, loss: Loss, code: int, reason: str
    ) -> None:
        assert code == 1008 if loss is Loss.DELETED else 4000 <= code < 5000
        assert reason
        self.closed.append((connection_id, loss))


class PaperNewcomers:
    """Gives the applications in `waiting` their rows when asked about them."""

    def __init__(self) -> None:
        self.waiting: dict[ApplicationId, ApplicationRecord] = {}

    async def register(
        self, work: UnitOfWork, application_ids: Collection[ApplicationId]
    ) -> None:
        for application_id in application_ids:
            if record := self.waiting.pop(application_id, None):
                await work.applications.insert(record)


class Scene:
    """One monitor and everything around it."""

    def __init__(self, database: Database, clock: FakeClock) -> None:
        self.store = FaultyStore(database, clock)
        self.clock = clock
        self.database = Store(database)
        self.sockets = PaperSockets(clock)
        self.newcomers = PaperNewcomers()
        self.metrics = Metrics()
        self.recovery_wakes = 0
        self.monitor = self.new_monitor()

    def new_monitor(self, *, settings: RelaySettings = SETTINGS) -> Monitor:
        """The monitor of a process that has just started."""
        return Monitor(
            store=self.store,
            hub=self.sockets,
            newcomers=self.newcomers,
            audit=AuditWriter(self.metrics),
            settings=settings,
            clock=self.clock,
            metrics=self.metrics,
            instance_id=InstanceId("instance-1"),
            wake_recovery=self._count_wake,
        )

    def _count_wake(self) -> None:
        self.recovery_wakes += 1

    async def register(self) -> None:
        """Register the application that everybody here belongs to."""
        async with self.store.write() as work:
            await work.organizations.ensure(LOCAL)
            await work.applications.insert(
                ApplicationRecord(
                    ref=APPLICATION,
                    created_at=work.now,
                    executor_timeout=GRACE,
                    gc_time_threshold=None,
                    gc_rows_threshold=None,
                    global_timeout=None,
                    private_mode=False,
                    language=None,
                    version_policy=VersionPolicy.SAME,
                )
            )

    async def set_grace(self, grace: timedelta) -> None:
        """Change the executor timeout, as a PATCH does."""
        async with self.store.write() as work:
            record = await work.applications.find_by_id(APPLICATION.id)
            assert record is not None
            await work.applications.update(replace(record, executor_timeout=grace))
            await work.executors.recompute_deadlines(
                APPLICATION.id, grace=grace, fault_grace=FAULT_GRACE
            )
        self.monitor.recheck_deadlines()

    async def restart(self) -> None:
        """Relay dies without a word and starts again."""
        self.sockets.open.clear()
        self.monitor = self.new_monitor()
        await self.monitor.start()

    def connect(
        self,
        executor: str,
        connection: str,
        *,
        version: str = "v1",
        is_collision: bool = False,
        language: str | None = "python",
        dbos_version: str = "3.2.0",
        hostname: str | None = "host-1",
    ) -> Arrival:
        """A socket of `executor` opens and says whose it is."""
        info = ExecutorInfo(
            executor_id=ExecutorId(executor),
            application_version=AppVersion(version),
            hostname=hostname,
            language=language,
            dbos_version=dbos_version,
            metadata={"zone": "a"},
        )
        ref = ref_of(executor)
        live = PaperConnection(ConnectionId(connection), ref, info)
        self.sockets.open[live.id] = live
        arrival = Arrival(
            ref=ref,
            connection_id=live.id,
            at=self.clock.now(),
            info=info,
            peer_address=ADDRESS,
            key_name=None,
            is_collision=is_collision,
        )
        self.monitor.connected(arrival)
        return arrival

    def lose(
        self,
        executor: str,
        connection: str,
        *,
        loss: Loss = Loss.CLOSED,
        is_fault: bool = False,
        close_code: int | None = 1000,
        close_reason: str = "bye",
        silent_for: timedelta = timedelta(0),
    ) -> None:
        """A socket of `executor` ends, `silent_for` after its last byte."""
        self.sockets.open.pop(ConnectionId(connection), None)
        self.monitor.lost(
            Departure(
                ref=ref_of(executor),
                connection_id=ConnectionId(connection),
                at=self.clock.now(),
                last_seen_at=self.clock.now() - silent_for,
                loss=loss,
                close_code=close_code,
                close_reason=close_reason,
                peer_address=ADDRESS,
                is_fault=is_fault,
            )
        )

    async def turn(self) -> timedelta:
        """Let the monitor do what is to be done now."""
        return await self.monitor.turn()

    @asynccontextmanager
    async def background(
        self, work: Coroutine[Any, Any, Any]
    ) -> AsyncIterator[asyncio.Task[Any]]:
        """Run `work` beside the block; it ends with it at the latest."""
        async with TaskSet("scene") as tasks:
            yield tasks.spawn(work, name="background")

    async def until(self, is_so: Callable[[], bool], *, advance: bool = False) -> None:
        """Wait for something; with `advance`, time passes meanwhile."""

        async def ask() -> bool:
            return is_so()

        await self._until(ask, advance=advance)

    async def until_row(self, executor: str, *, advance: bool = False) -> None:
        async def ask() -> bool:
            return await self.find(executor) is not None

        await self._until(ask, advance=advance)

    async def until_status(
        self, executor: str, status: ExecutorStatus, *, advance: bool = False
    ) -> None:
        async def ask() -> bool:
            return await self.status(executor) is status

        await self._until(ask, advance=advance)

    async def until_seen(self, executor: str, *, after: datetime) -> None:
        async def ask() -> bool:
            return (await self.row(executor)).last_seen_at > after

        await self._until(ask, advance=True)

    async def until_raised(self, executor: str) -> None:
        before = (await self.row(executor)).dead_after

        async def ask() -> bool:
            return (await self.row(executor)).dead_after != before

        await self._until(ask, advance=True)

    async def until_deadline(self, executor: str, *, not_before: datetime) -> None:
        async def ask() -> bool:
            deadline = (await self.row(executor)).dead_after
            return deadline is not None and deadline >= not_before

        await self._until(ask, advance=False)

    async def _until(
        self, ask: Callable[[], Awaitable[bool]], *, advance: bool
    ) -> None:
        async with SystemClock().timeout(PATIENCE):
            while True:
                # The database has threads of its own: a question gives them time.
                await self.database.ping()
                if await ask():
                    return
                if advance:
                    await self.clock.advance(SECOND / 2)

    async def stall(self, span: timedelta) -> None:
        """The event loop stands still for `span`: nobody looks, and nobody is heard."""
        self.sockets.pulse.beat(next_in=SECOND / 4)
        await self.clock.advance(span)

    def let_loop_run(self) -> None:
        """The event loop runs from here on, whether or not anybody says so again."""
        self.sockets.pulse.beat(next_in=timedelta(days=9999))

    async def pass_time(self, span: timedelta) -> None:
        """Let `span` pass, second by second, the monitor looking each time."""
        self.let_loop_run()
        while span > timedelta(0):
            await self.clock.advance(min(span, SECOND))
            span -= SECOND
            await self.turn()

    async def disconnect(self, executor: str, connection: str) -> None:
        """`executor` comes on line and is lost again."""
        self.connect(executor, connection)
        await self.turn()
        self.lose(executor, connection)
        await self.turn()

    async def find(self, executor: str) -> ExecutorRecord | None:
        async with self.store.read() as work:
            return await work.executors.find(ref_of(executor).key)

    async def row(self, executor: str) -> ExecutorRecord:
        record = await self.find(executor)
        assert record is not None
        return record

    async def status(self, executor: str) -> ExecutorStatus:
        return (await self.row(executor)).status

    async def recoveries(self) -> Sequence[RecoveryRecord]:
        """The whole ledger, newest first."""
        async with self.store.read() as work:
            return await work.recoveries.list_all(states=None, limit=100)

    async def audit(self) -> Sequence[AuditRecord]:
        """Everything in the audit log, oldest first."""
        async with self.store.read() as work:
            newest_first = await work.audit.list_entries(
                LOCAL,
                start=None,
                end=None,
                operation=None,
                subject=None,
                target=None,
                limit=100_000,
                offset=0,
            )
        return newest_first[::-1]

    async def operations(self) -> Sequence[str]:
        return [record.entry.operation for record in await self.audit()]

    async def application(self) -> ApplicationRecord:
        async with self.store.read() as work:
            record = await work.applications.find_by_id(APPLICATION.id)
        assert record is not None
        return record


def ref_of(executor: str) -> ExecutorRef:
    return ExecutorRef(APPLICATION, ExecutorId(executor))
