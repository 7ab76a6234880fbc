"""The real use-cases, and an executor that is asked without a socket."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, TypeVar

from relay.audit import AuditWriter
from relay.dispatch import Repeat
from relay.errors import ExecutorFailedError, NoExecutorError
from relay.ids import ExecutorId, RequestId
from relay.operations.asking import Executors
from relay.operations.changes import WorkflowChanges
from relay.operations.clerk import Clerk
from relay.operations.failures import translate
from relay.operations.queues import Queues
from relay.operations.schedules import Schedules
from relay.operations.versions import Versions
from relay.operations.workflows import Workflows
from relay.protocol.envelope import Request, encode
from relay.protocol.versions import ListApplicationVersionsRequest, VersionRow
from relay.records import ApplicationRecord
from relay.registry.lookup import ApplicationLookup
from relay.store import Store
from relay.testing.answers import Failure
from relay.testing.application import FakeApplication
from relay.testing.behaviour import behave
from relay.testing.work import FakeWork

ReplyT = TypeVar("ReplyT")

INFO = {"executor_id": "e1", "application_version": "v1"}
SLOW = timedelta(seconds=300)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How one thing was to be asked; a read has no `repeat`."""

    message_type: str
    repeat: Repeat | None
    within: timedelta | None
    latest_version: bool = False


class PaperExecutors(Executors):
    """
    One executor of every application, which answers at once.

    `requests` holds what it was asked, as sent, and `terms` how. `replies` replaces its
    answers by message type. With `error` it is not asked but fails so; with `pause`,
    nothing is answered before that is set.
    """

    def __init__(self) -> None:
        self.work = FakeWork()
        self.application = FakeApplication()
        self.requests: list[dict[str, Any]] = []
        self.terms: list[Terms] = []
        self.replies: dict[str, dict[str, Any]] = {}
        self.error: Exception | None = None
        self.pause: asyncio.Event | None = None
        self.asked = asyncio.Event()

    def received(self, message_type: str) -> Sequence[dict[str, Any]]:
        """The requests of one type, without their envelope."""
        return [
            {key: asked[key] for key in asked if key not in ("type", "request_id")}
            for asked in self.requests
            if asked["type"] == message_type
        ]

    def disconnect(self, application: ApplicationRecord) -> None:
        """Answer no more: there is no executor."""
        self.error = NoExecutorError(application.ref.name)

    async def read(
        self,
        application: ApplicationRecord,
        request: Request[ReplyT],
        *,
        about: tuple[str, str] | None = None,
        within: timedelta | None = None,
    ) -> ReplyT:
        """The answer, read as from a socket."""
        del application
        terms = Terms(message_type=request.message_type, repeat=None, within=within)
        self.terms.append(terms)
        return await self._answer(request, about or ("", ""))

    async def list_own_versions(
        self, application: ApplicationRecord
    ) -> Sequence[VersionRow]:
        """All that are listed: it keeps applications apart."""
        return await self.read(application, ListApplicationVersionsRequest())

    async def change(
        self,
        application: ApplicationRecord,
        request: Request[ReplyT],
        *,
        repeat: Repeat,
        about: tuple[str, str] | None = None,
        within: timedelta | None = None,
        latest_version: bool = False,
    ) -> ReplyT:
        """The same."""
        del application
        self.terms.append(
            Terms(
                message_type=request.message_type,
                repeat=repeat,
                within=within,
                latest_version=latest_version,
            )
        )
        return await self._answer(request, about or ("", ""))

    async def _answer(self, request: Request[ReplyT], about: tuple[str, str]) -> ReplyT:
        asked = json.loads(encode(request, RequestId("r")))
        self.asked.set()
        if self.pause is not None:
            await self.pause.wait()
        if self.error is not None:
            raise self.error
        self.requests.append(asked)
        answer = behave(asked, INFO, self.work, self.application)
        if isinstance(answer, Failure):
            failure = ExecutorFailedError(ExecutorId("e1"), answer.message)
            raise translate(failure, *about)
        fields = self.replies.get(request.message_type, answer.fields)
        head = {"type": request.message_type, "request_id": "r"}
        return request.decode_reply(json.dumps({**head, **fields}).encode())


def make_operations(
    store: Store,
    audit: AuditWriter,
    executors: Executors,
    applications: ApplicationLookup,
) -> SimpleNamespace:
    """The use-cases as `relay.operations` puts them together."""
    clerk = Clerk(store, audit, applications)
    return SimpleNamespace(
        workflows=Workflows(clerk=clerk, executors=executors, slow=SLOW),
        changes=WorkflowChanges(clerk=clerk, executors=executors, slow=SLOW),
        queues=Queues(clerk=clerk, executors=executors),
        schedules=Schedules(clerk=clerk, executors=executors),
        versions=Versions(clerk=clerk, executors=executors),
    )
