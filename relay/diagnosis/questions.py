"""The questions of one diagnosis, which share one time."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TypeVar

from relay.clock import Clock
from relay.diagnosis.findings import Gap
from relay.errors import InvalidInputError, RelayError
from relay.operations.asking import Executors
from relay.protocol import Request
from relay.protocol.versions import VersionRow
from relay.records import ApplicationRecord

ReplyT = TypeVar("ReplyT")


class Questions:
    """
    Asks the executors of one application, for `span` altogether from now on.

    `count` says how many questions were asked.
    """

    def __init__(
        self,
        executors: Executors,
        application: ApplicationRecord,
        clock: Clock,
        span: timedelta,
    ) -> None:
        self.count = 0
        self._executors = executors
        self._application = application
        self._clock = clock
        self._deadline = clock.monotonic() + span.total_seconds()

    async def ask(
        self, request: Request[ReplyT], *, about: tuple[str, str] | None = None
    ) -> ReplyT:
        """The answer; raises as `Executors.read` does."""
        self.count += 1
        return await self._executors.read(self._application, request, about=about)

    async def find(self, request: Request[ReplyT]) -> ReplyT | Gap:
        """The answer, or why there is none: a diagnosis does without it."""
        return await self._attempt(lambda: self.ask(request))

    async def find_versions(self) -> Sequence[VersionRow] | Gap:
        """The application's own versions, the latest first, or why none is known."""

        async def ask() -> Sequence[VersionRow]:
            self.count += 1
            return await self._executors.list_own_versions(self._application)

        return await self._attempt(ask)

    async def _attempt(self, ask: Callable[[], Awaitable[ReplyT]]) -> ReplyT | Gap:
        left = timedelta(seconds=self._deadline - self._clock.monotonic())
        if left <= timedelta(0):
            return Gap("there was no time left to ask")
        try:
            async with self._clock.timeout(left):
                return await ask()
        except InvalidInputError as error:
            return Gap(error.message)
        except RelayError as error:
            return Gap(str(error))
        except TimeoutError:
            return Gap("no executor answered in time")
