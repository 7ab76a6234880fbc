"""
A stage with databases: executors that read one of several, and a census of them.

Executors answer through the real encoder and the real readers, from a `FakeWork`.
"""

import json
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from relay.census import Census, CensusReport, CensusReports, Comparison
from relay.census.comparison import LOOK_INTERVAL
from relay.db import Database
from relay.errors import ExecutorFailedError, UnknownMessageError
from relay.ids import (
    ApplicationRef,
    AppVersion,
    ExecutorId,
    InstanceId,
    RecoveryId,
    RequestId,
)
from relay.liveness.states import ExecutorStatus
from relay.protocol import Request, encode, is_unknown_message
from relay.protocol.messages import ExecutorInfo
from relay.protocol.sdk import capabilities_of
from relay.records import AuditEntry, OwnerKind, RecoveryRecord
from relay.recovery.engine import RecoveryEngine
from relay.testing.answers import Failure
from relay.testing.behaviour import behave
from relay.testing.clock import FakeClock
from relay.testing.work import FakeWork
from tests.recovery.records import (
    ME,
    SHOP,
    V1,
    dead_ref,
    make_executor,
    make_recovery,
    make_settings,
)
from tests.recovery.stage import MODERN, FakePeer, Stage, Workflows


@dataclass(eq=False)
class Reader(FakePeer):
    """An executor that reads the database `work`."""

    work: FakeWork = field(default_factory=FakeWork)

    def once_before(self, request_type: type, act: Callable[[], None]) -> None:
        """Do something in the moment in which it is asked next; it answers after it."""

        async def behave(request: Request[Any]) -> object:
            del self.behaviours[request_type]
            act()
            return await self._behave(request)

        self.on(request_type, behave)

    async def _behave(self, request: Request[Any]) -> object:
        if behaviour := self.behaviours.get(type(request)):
            return await behaviour(request)
        info = {
            "executor_id": self.ref.executor_id,
            "application_version": self.info.application_version,
        }
        asked = json.loads(encode(request, RequestId("r")))
        answer = behave(asked, info, self.work)
        if isinstance(answer, Failure):
            if is_unknown_message(answer.message):
                raise UnknownMessageError(self.ref.executor_id, answer.message)
            raise ExecutorFailedError(self.ref.executor_id, answer.message)
        return request.decode_reply(json.dumps(dict(answer.fields)).encode())


def shown(report: CensusReport) -> list[tuple[str, str, OwnerKind, int]]:
    """Executor, version, kind and count of each owner in a report."""
    return [
        (o.owner.executor_id, o.owner.app_version, o.kind, o.pending_count)
        for o in report.owners
    ]


class Town(Stage):
    """Executors, their databases, and whoever looks after both."""

    def __init__(self, database: Database, clock: FakeClock) -> None:
        super().__init__(database, clock)
        self.work = FakeWork()
        self.comparison = self.make_comparison()
        self.census = self.make_census()

    def make_comparison(self) -> Comparison:
        return Comparison(
            store=self.store,
            audit=self.audit,
            peers=self.peers,
            clock=self.clock,
            metrics=self.metrics,
        )

    def make_census(self, **settings: Any) -> Census:
        return Census(
            store=self.store,
            audit=self.audit,
            dispatcher=self.dispatcher,
            peers=self.peers,
            agreement=self.comparison,
            settings=make_settings(**settings),
            clock=self.clock,
            metrics=self.metrics,
            jitter=lambda: 0.5,
        )

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
            agreement=self.comparison,
            jitter=lambda: jitter,
        )

    # --- who is there ----------------------------------------------------------------

    async def join(
        self,
        name: str,
        version: AppVersion = V1,
        *,
        work: FakeWork | None = None,
        application: ApplicationRef = SHOP,
    ) -> Reader:
        """An executor connects, and is HEALTHY."""
        reader = Reader(
            dead_ref(name, application),
            ExecutorInfo(
                ExecutorId(name),
                version,
                "host",
                MODERN.language,
                MODERN.version,
                None,
            ),
            capabilities_of(MODERN),
            Workflows(),
            self.clock,
            work=self.work if work is None else work,
        )
        self.peers.peers.append(reader)
        async with self.store.write() as unit:
            await unit.executors.insert_many(
                [
                    make_executor(
                        reader.ref, status=ExecutorStatus.HEALTHY, app_version=version
                    )
                ]
            )
        return reader

    async def lose(
        self, reader: Reader, status: ExecutorStatus = ExecutorStatus.DEAD
    ) -> RecoveryId:
        """An executor vanishes; DEAD, it has a row in the ledger, which has this id."""
        self.disconnect(reader)
        recovery = make_recovery(
            reader.ref,
            app_version=reader.info.application_version,
            recovery_id=f"r-{reader.ref.executor_id}",
            lost_at=self.clock.now(),
            now=self.clock.now(),
        )
        async with self.store.write() as unit:
            row = await unit.executors.find(reader.ref.key)
            assert row is not None
            await unit.executors.save(
                make_executor(reader.ref, status=status, app_version=row.app_version),
                expected_epoch=row.epoch,
                expected_status=row.status,
            )
            if status is ExecutorStatus.DEAD:
                await unit.recoveries.insert(recovery)
        return recovery.id

    async def run_beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Let a loop of the room run until the end of the test."""
        self._tasks.spawn(work, name="beside")
        await self.settle()

    # --- the time --------------------------------------------------------------------

    async def take_census(self) -> CensusReport:
        await self.census.take_now()
        return await self.report()

    async def look(self, times: int = 1) -> None:
        """Let the comparison look, and the executors answer."""
        for _ in range(times):
            await self.clock.advance(LOOK_INTERVAL)
            await self.comparison.look()
            await self.settle()

    # --- what is seen ----------------------------------------------------------------

    async def report(self, application: ApplicationRef = SHOP) -> CensusReport:
        return await CensusReports(self.store).get(application)

    async def list_entries(self, operation: str) -> Sequence[AuditEntry]:
        """Audit entries of one operation, oldest first."""
        async with self.store.read() as unit:
            found = await unit.audit.list_entries(
                SHOP.organization, operation=operation, limit=1000
            )
        return [record.entry for record in reversed(found)]

    async def list_recoveries(self) -> Sequence[RecoveryRecord]:
        """The ledger of the shop, newest first."""
        async with self.store.read() as unit:
            return await unit.recoveries.list_by_application(
                SHOP.id, states=None, limit=100, offset=0
            )
