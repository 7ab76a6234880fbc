"""A whole server on a thread of its own, with executors, and made new at any moment."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import requests
from anyio.from_thread import BlockingPortal, start_blocking_portal
from structlog.testing import capture_logs

from relay.clock import SystemClock
from relay.ids import AppVersion, ExecutorId, ExecutorRef, MigrationId, new_id
from relay.records import (
    MigrationMethod,
    MigrationRecord,
    RecoveryRecord,
    RecoveryState,
)
from relay.registry import SHELL_ACTOR, ApplicationChange
from relay.settings import AuthMode, RelaySettings
from relay.testing.answers import Silence
from relay.testing.executor import PATIENCE, FakeExecutor
from relay.testing.work import FakeWork
from tests.recovery.records import make_recovery
from tests.serving import Serving, serving

APPLICATION, RECOVERY = "shop", "lost"
CLOCK = SystemClock()


class Premises:
    """
    One running server.

    `renew` puts it back to where it began: the application `shop` with one live
    executor, its two workflows and one stranded recovery that is not due and whose work
    was moved once, a key to be revoked, the executor's, and that of `session`, which
    may do everything. Only the audit log remembers more.
    """

    def __init__(self, portal: BlockingPortal, served: Serving) -> None:
        self.url = f"http://127.0.0.1:{served.port}"
        self.session = requests.Session()
        self.session.trust_env = False
        self._portal = portal
        self._served = served
        self._executor: FakeExecutor | None = None

    def renew(self) -> None:
        """Undo all that has been done."""
        self._portal.call(self._renew)

    def close(self) -> None:
        """Let the executor go."""
        self.session.close()
        self._portal.call(self._dismiss)

    async def _mint(self, name: str, permissions: list[str]) -> str:
        minted = await self._served.server.registry.keys.create(
            SHELL_ACTOR,
            name,
            permissions=permissions,
            application_names=None,
            is_admin=True,
        )
        return minted.text

    async def _renew(self) -> None:
        registry = self._served.server.registry
        await self._dismiss()
        for view in await registry.applications.list_all(SHELL_ACTOR.principal):
            await registry.applications.delete(SHELL_ACTOR, view.record.ref.name)
        for key in await registry.keys.list_live():
            await registry.keys.revoke(SHELL_ACTOR, key.name)
        await self._mint("a-reader", ["application.read"])
        admin = await self._mint("z-admin", [])
        executor = await self._mint("z-executor", ["websocket.connect"])
        if self._served.server.settings.auth is AuthMode.KEYS:
            self.session.headers["Authorization"] = f"Bearer {admin}"
        await registry.applications.put(SHELL_ACTOR, APPLICATION, private_mode=None)
        await registry.applications.change(
            SHELL_ACTOR, APPLICATION, ApplicationChange(imports_allowed=True)
        )
        view = await registry.applications.get(APPLICATION)
        lost = ExecutorRef(view.record.ref, ExecutorId("lost"))
        async with self._served.server.store.write() as work:
            recovery = make_recovery(
                lost,
                recovery_id=RECOVERY,
                app_version=AppVersion("v0"),
                now=work.now,
            )
            # While an attempt at it is under way nobody may retry it.
            later = work.now + timedelta(hours=1)
            await work.recoveries.insert(
                replace(recovery, state=RecoveryState.STRANDED, next_attempt_at=later)
            )
            await work.migrations.insert(_make_migration(recovery, work.now), [])
        self._executor = await FakeExecutor.connect(
            self._served.url,
            APPLICATION,
            executor,
            work=_make_work(),
            # A recovery that it takes over would be closed at some moment or other.
            script={"exist_pending_workflows": [Silence()], "recovery": [Silence()]},
        )
        async with CLOCK.timeout(PATIENCE):
            while not await registry.list_executors(APPLICATION):
                await CLOCK.sleep(timedelta(milliseconds=1))

    async def _dismiss(self) -> None:
        executor, self._executor = self._executor, None
        if executor is not None:
            async with executor:
                pass


def _make_migration(recovery: RecoveryRecord, now: datetime) -> MigrationRecord:
    return MigrationRecord(
        id=MigrationId(new_id()),
        recovery_id=recovery.id,
        application=recovery.executor.application,
        app_version=AppVersion("v1"),
        method=MigrationMethod.REWIND,
        has_more=False,
        begun_at=now,
        ended_at=now,
    )


def _make_work() -> FakeWork:
    work = FakeWork()
    work.add("executor-1", "v1", "running", "done")
    work.finish("done")
    return work


@contextmanager
def open_premises(directory: Path, auth: AuthMode) -> Iterator[Premises]:
    """A server on a free port that keeps its data in `directory`."""
    settings = RelaySettings(data_dir=directory, auth=auth)
    with (
        # Tracebacks with all their locals would take most of the time.
        capture_logs(),
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(serving(settings)) as served,
        closing(Premises(portal, served)) as premises,
    ):
        premises.renew()
        yield premises
