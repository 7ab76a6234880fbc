"""
Stranded work, and executors of another version that answer from one database.

The store, the dispatcher and the engine are real; what the executors do to workflows is
done by `relay.testing`.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from relay.errors import ExecutorFailedError, UnknownMessageError
from relay.ids import AppVersion, ExecutorId, RecoveryId, RequestId
from relay.migration import MigrationReport, Migrations
from relay.operations.asking import Executors
from relay.protocol.envelope import Request, encode
from relay.protocol.messages import (
    ExistPendingWorkflowsRequest,
    ListWorkflowsRequest,
    RecoveryRequest,
)
from relay.protocol.sdk import Sdk
from relay.protocol.workflow_orders import (
    CancelRequest,
    ForkWorkflowRequest,
    ResumeRequest,
    RewindWorkflowRequest,
)
from relay.protocol.workflows import (
    GetWorkflowNotificationsRequest,
    GetWorkflowRequest,
    ListStepsRequest,
    SearchWorkflowsRequest,
)
from relay.records import ApplicationRecord, AuditRecord, RecoveryRecord, RecoveryState
from relay.store import Store
from relay.tasks import TaskSet
from relay.testing.answers import Failure
from relay.testing.application import FakeApplication
from relay.testing.behaviour import behave
from relay.testing.work import FakeWork
from tests.operations.desk import ANN
from tests.recovery.records import SHOP, V1, V2, make_settings
from tests.recovery.stage import MODERN, FakePeer, Stage

OLDER = Sdk("python", "2.31.1")
"""Does not know `rewind_workflow`."""

LOOKS = timedelta(minutes=5)
WAIT = timedelta(seconds=20)

_ASKED = (
    *(ExistPendingWorkflowsRequest, ListWorkflowsRequest, RecoveryRequest),
    *(GetWorkflowRequest, SearchWorkflowsRequest, ListStepsRequest),
    *(GetWorkflowNotificationsRequest, CancelRequest, ResumeRequest),
    *(ForkWorkflowRequest, RewindWorkflowRequest),
)

Hook = Callable[[str, Any], Awaitable[None]]


async def nothing(_: str, __: Any) -> None:
    """No interference."""


class Yard:
    """
    The application `shop`, whose version `v1` has died out.

    `before` and `after` are called around each message with its type and the request;
    what they raise, the executor is asked in vain. `done` counts, by message type and
    workflow, the changes that were made; `unread` are messages that nobody received.
    """

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.clock = stage.clock
        self.work = FakeWork()
        self.application = FakeApplication()
        self.unread: dict[str, int] = {}
        self.before: Hook = nothing
        self.after: Hook = nothing
        self.done: Counter[tuple[str, str]] = Counter()
        self.migrations = self.make_migrations()
        self._run: asyncio.Task[None] | None = None
        self._tasks = TaskSet("yard")

    async def close(self) -> None:
        await self._tasks.close()

    def make_migrations(self, store: Store | None = None) -> Migrations:
        """One that remembers nothing, as after a start of Relay."""
        stage = self.stage
        store = store or stage.store
        return Migrations(
            store=store,
            audit=stage.audit,
            executors=Executors(stage.dispatcher, make_settings(), self.clock, store),
            peers=stage.peers,
            clock=self.clock,
        )

    def start(self, migrations: Migrations | None = None) -> None:
        self.migrations = migrations or self.migrations
        self._run = self._tasks.spawn(self.migrations.run(), name="migrations")

    async def kill(self) -> None:
        """The process ends without a word."""
        assert self._run is not None
        self._run.cancel()
        await asyncio.wait([self._run])

    # --- what is there ---------------------------------------------------------------

    def connect(
        self, name: str = "e2", version: AppVersion = V2, sdk: Sdk = MODERN
    ) -> FakePeer:
        """An executor connects; it works on the database of the others."""
        peer = self.stage.connect(name, version, sdk=sdk)

        async def answer(request: Request[Any]) -> object:
            return await self._answer(peer, request)

        for kind in _ASKED:
            peer.on(kind, answer)
        return peer

    async def strand(
        self,
        *workflow_ids: str,
        name: str = "dead",
        state: RecoveryState = RecoveryState.STRANDED,
    ) -> RecoveryId:
        """An executor of `v1` has died, and nobody can take its work over."""
        self.work.add(name, V1, *workflow_ids)
        recovery_id = await self.stage.bury(name, pending=())
        record = await self.stage.find(recovery_id)
        stranded = replace(
            record, state=state, next_attempt_at=self.clock.now() + LOOKS
        )
        async with self.stage.store.write() as work:
            assert await work.recoveries.save(stranded, expected_revision=0)
        return recovery_id

    async def set(self, **changes: Any) -> None:
        """Other settings of the application."""
        async with self.stage.store.write() as work:
            old: ApplicationRecord | None = await work.applications.lock(
                SHOP.organization, SHOP.name
            )
            assert old is not None
            assert await work.applications.update(replace(old, **changes))

    # --- what is done ----------------------------------------------------------------

    async def plan(self, recovery_id: RecoveryId, version: str = V2) -> MigrationReport:
        return await self.migrations.plan("shop", recovery_id, AppVersion(version))

    async def begin(
        self, recovery_id: RecoveryId, wait: timedelta = timedelta()
    ) -> MigrationReport:
        return await self.migrations.begin(ANN, "shop", recovery_id, V2, wait=wait)

    async def move(self, recovery_id: RecoveryId) -> MigrationReport:
        """Begin, and let time pass until the end."""
        if self._run is None:
            self.start()
        await self.begin(recovery_id)
        return await self.reach_end(recovery_id)

    async def reach_end(self, recovery_id: RecoveryId) -> MigrationReport:
        async def has_ended() -> bool:
            return (await self.report(recovery_id)).state == "ENDED"

        await self.stage.run_until(has_ended)
        return await self.report(recovery_id)

    async def report(self, recovery_id: RecoveryId) -> MigrationReport:
        return await self.migrations.report("shop", recovery_id)

    # --- what became of it -----------------------------------------------------------

    async def find(self, recovery_id: RecoveryId) -> RecoveryRecord:
        return await self.stage.find(recovery_id)

    async def audit(
        self, recovery_id: RecoveryId, operation: str
    ) -> Sequence[AuditRecord]:
        """The entries of one kind in the story of a recovery, oldest first."""
        story = await self.stage.list_story(recovery_id)
        return [each for each in story if each.entry.operation == operation]

    def row(self, workflow_id: str) -> Mapping[str, Any]:
        """A workflow as it stands in the database."""
        [row] = self.work.answer_listing({"workflow_uuids": [workflow_id]})
        return row

    def copies(self) -> Sequence[str]:
        """The ids of the workflows that were made by a fork."""
        return [id_ for kind, id_ in self.done if kind == "copy"]

    # --- the executors ---------------------------------------------------------------

    async def _answer(self, peer: FakePeer, request: Request[Any]) -> object:
        await self.before(request.message_type, request)
        asked = json.loads(encode(request, RequestId("r")))
        fields = self._carry_out(peer, asked)
        await self.after(request.message_type, request)
        head = {"type": request.message_type, "request_id": "r"}
        return request.decode_reply(json.dumps({**head, **fields}).encode())

    def _carry_out(self, peer: FakePeer, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        match asked:
            case {"type": "get_workflow_notifications", "workflow_id": id_}:
                unread = {"topic": None, "message": "m", "consumed": False}
                return {"notifications": [unread] * self.unread.get(id_, 0)}
            case {"type": "fork_workflow", "body": body}:
                return self._fork(peer, body)
            case {"type": "resume", "workflow_id": id_}:
                self.work.rewind(
                    id_, 10**6, version=None, queue_name="jobs", partition_key=None
                )
        info = {
            "executor_id": peer.info.executor_id,
            "application_version": peer.info.application_version,
            "language": peer.info.language,
            "dbos_version": peer.info.dbos_version,
        }
        reply = behave(asked, info, self.work, self.application)
        if isinstance(reply, Failure):
            raise _error_of(peer.ref.executor_id, reply)
        self._note(asked)
        return reply.fields

    def _fork(self, peer: FakePeer, body: Mapping[str, Any]) -> Mapping[str, Any]:
        new_id = body["new_workflow_id"]
        if self.work.knows(new_id):
            raise ExecutorFailedError(
                peer.ref.executor_id, "duplicate key value violates unique constraint"
            )
        self.work.enqueue(
            "",
            body["application_version"],
            new_id,
            queue_name=body.get("queue_name"),
            partition_key=body.get("queue_partition_key"),
        )
        self.done["fork_workflow", body["workflow_id"]] += 1
        self.done["copy", new_id] += 1
        return {"new_workflow_id": new_id}

    def _note(self, asked: Mapping[str, Any]) -> None:
        kind = asked["type"]
        if kind in ("cancel", "resume"):
            self.done[kind, asked["workflow_id"]] += 1
        if kind == "rewind_workflow":
            self.done[kind, asked["body"]["workflow_id"]] += 1


def _error_of(executor_id: ExecutorId, failure: Failure) -> ExecutorFailedError:
    if failure.message == "Unknown message type":
        return UnknownMessageError(executor_id, failure.message)
    return ExecutorFailedError(executor_id, failure.message)
