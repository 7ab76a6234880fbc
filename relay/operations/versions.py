"""The versions that an application has had, and which of them is the latest."""

from collections.abc import Sequence

from relay.dispatch import Repeat
from relay.errors import NotFoundError
from relay.operations.asking import Executors
from relay.operations.changes import demand_success
from relay.operations.clerk import Clerk
from relay.protocol.versions import (
    ListApplicationVersionsRequest,
    SetLatestApplicationVersionRequest,
    VersionRow,
)
from relay.registry import Actor

KIND = "version"


class Versions:
    """What can be learned about versions; raises as `Workflows` does."""

    def __init__(self, *, clerk: Clerk, executors: Executors) -> None:
        self._clerk = clerk
        self._executors = executors

    async def list_all(self, application: str) -> Sequence[VersionRow]:
        """The versions of an application; the first one is the latest."""
        record = await self._clerk.find(application)
        return await self._executors.read(record, ListApplicationVersionsRequest())

    async def set_latest(self, actor: Actor, application: str, version: str) -> None:
        """
        Make a version the latest: what is enqueued without a version goes to it.

        SDKs claim success for a version that does not exist; it is looked up first. So
        is whose it is: nothing would ever take work for another application's version.
        """
        record = await self._clerk.find(application)
        known = await self._executors.list_own_versions(record)
        if version not in {row.version_name for row in known}:
            raise NotFoundError(KIND, version)
        reply = await self._executors.change(
            record,
            SetLatestApplicationVersionRequest(version_name=version),
            repeat=Repeat.ALWAYS,
            about=(KIND, version),
        )
        demand_success(reply)
        await self._clerk.note(
            actor,
            "application.set_latest_version",
            record,
            {"version_name": version},
        )
