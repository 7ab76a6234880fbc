"""An application with executors whose answers a test decides, and who asks them."""

from datetime import UTC, datetime, timedelta
from typing import Any

from relay.db import Database
from relay.dispatch import Dispatcher, Repeat
from relay.errors import ReplyTimeoutError
from relay.ids import AppVersion, ExecutorId
from relay.operations.asking import Executors
from relay.protocol.messages import Acknowledgement, ExecutorInfo
from relay.protocol.queues import GetQueueRequest
from relay.protocol.sdk import Sdk, capabilities_of
from relay.protocol.versions import ListApplicationVersionsRequest, VersionRow
from relay.protocol.workflow_orders import CancelRequest
from relay.protocol.workflows import SearchWorkflowsRequest
from relay.store import Store
from relay.testing.clock import FakeClock
from tests.recovery.records import SHOP, V1, dead_ref, make_application, make_settings
from tests.recovery.stage import (
    MODERN,
    Behaviour,
    FakePeer,
    FakePeers,
    Workflows,
    failing,
    replying,
)

FIRST = ExecutorId("first")
SECOND = timedelta(seconds=1)
DONE = Acknowledgement(success=True)
CHANGE = CancelRequest(workflow_ids=("w-1",))
READ = GetQueueRequest(queue_name="mail")


class Crew:
    """An application with executors whose answers a test decides."""

    def __init__(self, database: Database, **settings: Any) -> None:
        self.clock = FakeClock()
        self.store = Store(database)
        self.peers = FakePeers()
        self.application = make_application(SHOP)
        self.executors = Executors(
            Dispatcher(self.peers, self.clock),
            make_settings(**settings),
            self.clock,
            self.store,
        )

    def connect(
        self,
        name: str,
        behaviour: Behaviour,
        *,
        version: AppVersion = V1,
        sdk: Sdk = MODERN,
    ) -> FakePeer:
        """One that behaves like this; of several the earlier one is asked first."""
        info = ExecutorInfo(
            ExecutorId(name), version, None, sdk.language, sdk.version, None
        )
        peer = FakePeer(
            dead_ref(name, SHOP),
            info,
            capabilities_of(sdk),
            Workflows(),
            self.clock,
            in_flight=len(self.peers.peers),
        )
        for request_type in (CancelRequest, GetQueueRequest, SearchWorkflowsRequest):
            peer.on(request_type, behaviour)
        self.peers.peers.append(peer)
        return peer

    def know_versions(self, *names: AppVersion) -> None:
        """Everybody says that these exist, the latest first."""
        now = datetime(2026, 1, 1, tzinfo=UTC)
        rows = tuple(
            VersionRow(
                version_id=name,
                version_name=name,
                version_timestamp=now,
                created_at=now,
            )
            for name in names
        )
        for peer in self.peers.peers:
            peer.on(ListApplicationVersionsRequest, replying(rows))

    async def read(self, **options: Any) -> object:
        return await self.executors.read(self.application, READ, **options)

    async def change(self, repeat: Repeat = Repeat.ALWAYS, **options: Any) -> object:
        return await self.executors.change(
            self.application, CHANGE, repeat=repeat, **options
        )


def unanswered(*, delivered: bool) -> Behaviour:
    return failing(ReplyTimeoutError(FIRST, SECOND, delivered=delivered))
