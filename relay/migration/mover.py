"""One workflow, from where it is to its end."""

from dataclasses import replace
from datetime import timedelta
from typing import Final, assert_never

import structlog

from relay.clock import Clock
from relay.dispatch import Repeat
from relay.errors import (
    ConnectionLostError,
    DispatchError,
    ExecutorBusyError,
    NoExecutorError,
    RelayError,
    ReplyTimeoutError,
    StoreUnavailableError,
    UnknownMessageError,
)
from relay.ids import AppVersion
from relay.migration.books import Books, Task
from relay.migration.planning import UNFINISHED
from relay.migration.ports import Connections
from relay.migration.reading import Reader
from relay.migration.steps import (
    Advance,
    Begin,
    Cancel,
    End,
    Fork,
    Message,
    Move,
    Rewind,
    decide,
)
from relay.operations.asking import Executors
from relay.operations.changes import demand_success
from relay.operations.workflows import KIND
from relay.protocol.workflow_orders import (
    CancelRequest,
    ForkWorkflowRequest,
    ResumeRequest,
    RewindWorkflowRequest,
)
from relay.records import OPEN_ITEM_STATES, ItemState, MigrationItem, MigrationMethod

logger = structlog.get_logger(__name__)

RETRY_PAUSE: Final = timedelta(seconds=15)
"""While there is nobody to ask, or the store is away."""

AGAIN_PAUSE: Final = timedelta(seconds=1)
"""After a no, and after a yes that nothing came of."""

ATTEMPTS: Final = 3
"""Noes to one step, after which it is given up."""


class TargetGoneError(DispatchError):
    """No executor of the version that the work goes to is connected any more."""

    def __init__(self, app_version: AppVersion) -> None:
        super().__init__(f"no executor of version {app_version!r} is connected")


_UNREACHABLE: Final = (
    TargetGoneError,
    NoExecutorError,
    ConnectionLostError,
    ExecutorBusyError,
    ReplyTimeoutError,
    UnknownMessageError,
    StoreUnavailableError,
)
"""Errors that say nothing about the workflow: whoever waits may find better ones."""


class Mover:
    """
    Moves the workflows of one migration, one after the other.

    However often it is begun anew, after whatever crash, each workflow ends once.
    """

    def __init__(
        self,
        task: Task,
        *,
        books: Books,
        executors: Executors,
        peers: Connections,
        clock: Clock,
    ) -> None:
        self._task = task
        self._books = books
        self._executors = executors
        self._reader = Reader(executors, task.application)
        self._peers = peers
        self._clock = clock
        self._move = Move(
            method=task.migration.method,
            executor_id=task.recovery.executor.executor_id,
            old_version=task.recovery.app_version,
            app_version=task.migration.app_version,
        )
        self._complaint: type[RelayError] | None = None
        self._may_be_touched = True

    async def finish(self, item: MigrationItem) -> MigrationItem:
        """
        Bring an item to its end, however long that takes.

        Raises:
            Overtaken: somebody else has changed it.
        """
        noes = 0
        reason: str | None = None
        self._complaint = None
        self._may_be_touched = True
        while item.state in OPEN_ITEM_STATES:
            before = item.state
            try:
                await self._look_at_application()
                if noes > ATTEMPTS:
                    item = await self._give_up(item, reason or "")
                else:
                    item, reason = await self._take_step(item, reason, noes)
            except _UNREACHABLE as error:
                await self._pause(item, error)
                continue
            except RelayError as error:
                reason = str(error)
            noes = noes + 1 if item.state is before else 0
            if 1 < noes <= ATTEMPTS:
                await self._clock.sleep(AGAIN_PAUSE)
        return item

    async def _look_at_application(self) -> None:
        application = await self._books.find_application(self._task)
        if application != self._task.application:
            self._task = replace(self._task, application=application)
            self._reader = Reader(self._executors, application)

    async def _pause(self, item: MigrationItem, error: RelayError) -> None:
        """Told once, until something else is the matter: it may be for days."""
        if self._complaint is not type(error):
            self._complaint = type(error)
            logger.warning(
                "migration_paused",
                recovery_id=self._task.recovery.id,
                workflow_id=item.workflow_id,
                reason=str(error),
            )
        await self._clock.sleep(RETRY_PAUSE)

    async def _take_step(
        self, item: MigrationItem, reason: str | None, noes: int
    ) -> tuple[MigrationItem, str | None]:
        """
        The item after one action, and why it is as it was.

        A message does not change it: the next look may. After the last of the attempts
        there is a look, and no message.
        """
        action = decide(self._move, item, await self._reader.look(item))
        match action:
            case Begin():
                return await self._begin(item, action), None
            case Advance(state=state, start_step=start_step):
                return await self._books.write_item(
                    self._task, item, state, item.reason, start_step=start_step
                ), None
            case End(state=state, reason=why):
                return await self._write(item, state, why), None
            case Cancel() | Rewind() | Fork() if noes >= ATTEMPTS:
                return item, reason
            case Cancel() | Rewind() | Fork():
                try:
                    await self._send(item, action)
                except _UNREACHABLE as error:
                    if self._may_be_touched or _may_have_arrived(error):
                        raise
                    # Begin anew: what is true of it now may not be so after the pause.
                    item = await self._write(item, ItemState.PLANNED, item.reason)
                    await self._pause(item, error)
                    return item, None
                finally:
                    self._may_be_touched = True
                return item, "an executor said that it was done, and it was not"
            case _:
                assert_never(action)

    async def _begin(self, item: MigrationItem, begin: Begin) -> MigrationItem:
        """
        Begin with a workflow, unless somebody else runs it.

        Raises:
            TargetGoneError: nobody would run it, whatever its version.
        """
        old, new = self._move.old_version, self._move.app_version
        if self._peers.is_online(self._task.recovery.executor):
            return await self._write(
                item, ItemState.SKIPPED, "its executor is connected again"
            )
        peers = self._peers.list_peers(self._task.application.ref.id)
        live = {peer.info.application_version for peer in peers}
        if new not in live:
            if old in live:
                why = f"version {new} is no longer connected, and {old} is again"
                return await self._write(item, ItemState.SKIPPED, why)
            if await self._books.is_claimed(self._task):
                raise TargetGoneError(new)
        begun = await self._books.begin_item(
            self._task, item, begin.state, begin.start_step, begin.remark
        )
        self._may_be_touched = False
        return begun

    async def _send(self, item: MigrationItem, message: Message) -> None:
        id_ = item.workflow_id
        match message:
            case Cancel():
                demand_success(
                    await self._executors.change(
                        self._task.application,
                        CancelRequest(workflow_ids=(id_,)),
                        # Or who was asked last would tell of nobody but himself.
                        repeat=Repeat.UNDELIVERED,
                        about=(KIND, id_),
                    )
                )
            case Rewind():
                demand_success(
                    await self._executors.change(
                        self._task.application,
                        RewindWorkflowRequest(
                            workflow_id=id_,
                            start_step=item.start_step,
                            app_version=self._move.app_version,
                            queue_name=item.queue_name,
                            queue_partition_key=item.queue_partition_key,
                        ),
                        # Lost on its way it may have been done, and been run since.
                        repeat=Repeat.UNDELIVERED,
                        about=(KIND, id_),
                    )
                )
            case Fork():
                await self._executors.change(
                    self._task.application,
                    ForkWorkflowRequest(
                        workflow_id=id_,
                        start_step=item.start_step,
                        app_version=self._move.app_version,
                        new_workflow_id=item.new_workflow_id,
                        queue_name=item.queue_name,
                        queue_partition_key=item.queue_partition_key,
                    ),
                    repeat=Repeat.UNDELIVERED,
                    about=(KIND, id_),
                )
            case _:
                assert_never(message)

    async def _write(
        self, item: MigrationItem, state: ItemState, reason: str | None
    ) -> MigrationItem:
        return await self._books.write_item(self._task, item, state, reason)

    async def _give_up(self, item: MigrationItem, reason: str) -> MigrationItem:
        """Leave a workflow as safe as can be, and say where it stands."""
        is_fork = self._move.method is MigrationMethod.FORK
        match item.state:
            case ItemState.REWINDING:
                await self._put_back(item)
                sight = await self._reader.look(item)
                action = decide(self._move, item, sight)
                told = f"it was cancelled, and could not be rewound ({reason}); "
                if isinstance(action, Rewind):
                    told += "resume or fork it by hand"
                elif (
                    sight.row is not None
                    and sight.row.app_version == self._move.old_version
                    and sight.row.status in UNFINISHED
                ):
                    told += (
                        f"it waits in its queue for version {self._move.old_version}"
                    )
                    told += " again"
                else:
                    return (await self._take_step(item, reason, ATTEMPTS))[0]
            case ItemState.CANCELLING if is_fork:
                told = (
                    f"its copy {item.new_workflow_id} was made, and it could not be"
                    f" cancelled: {reason}"
                )
            case _:
                told = f"nothing was done to it: {reason}"
        return await self._write(item, ItemState.FAILED, told)

    async def _put_back(self, item: MigrationItem) -> None:
        """
        Have a workflow wait for its old version again, if it is seen to be cancelled.

        Asked twice, the SDK would also put back what has begun to run since.
        """
        action = decide(self._move, item, await self._reader.look(item))
        if not isinstance(action, Rewind):
            return
        try:
            demand_success(
                await self._executors.change(
                    self._task.application,
                    ResumeRequest(
                        workflow_ids=(item.workflow_id,), queue_name=item.queue_name
                    ),
                    repeat=Repeat.UNDELIVERED,
                    about=(KIND, item.workflow_id),
                )
            )
        except _UNREACHABLE:
            raise
        except RelayError as error:
            logger.warning(
                "migration_not_put_back",
                recovery_id=self._task.recovery.id,
                workflow_id=item.workflow_id,
                reason=str(error),
            )


def _may_have_arrived(error: RelayError) -> bool:
    if isinstance(error, ConnectionLostError | ReplyTimeoutError):
        return error.delivered
    return False
