"""Asking the store without waiting for one that is away."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, TypeVar

import structlog

from relay.clock import Clock
from relay.errors import StoreUnavailableError
from relay.tasks import TaskSet

PATIENCE = timedelta(seconds=2)
"""For one answer: an executor gives its upgrade up after 5 s."""

PAUSE = timedelta(seconds=1)
"""How long nobody is asked after a failure."""

AnswerT = TypeVar("AnswerT")

logger = structlog.get_logger(__name__)


class Breaker:
    """
    Puts questions to the store, one a `PAUSE` at most while it does not answer.

    A database that hangs would hold each of thousands of knocks for its time-out. So a
    question that failed, or took longer than `PATIENCE`, answers for all that come in
    the next second; then one is let through to see whether the store is back.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._questions = TaskSet("questions")
        self._is_away = False
        self._asked_at = float("-inf")

    async def ask(
        self, question: Callable[[], Coroutine[Any, Any, AnswerT]]
    ) -> AnswerT:
        """
        The answer to `question`.

        Whatever `question` raises, this raises.

        Raises:
            StoreUnavailableError: the store does not answer, not in time, or did not a
                moment ago.
        """
        now = self._clock.monotonic()
        if self._is_away:
            if now - self._asked_at < PAUSE.total_seconds():
                raise StoreUnavailableError("it did not answer a moment ago")
            self._asked_at = now
        outcome = await self._outcome_in_time(question)
        if isinstance(outcome, StoreUnavailableError):
            self._trip(outcome)
        elif self._is_away:
            self._is_away = False
            logger.info("store_answers_again")
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def close(self) -> None:
        """End the questions that nobody waits for any more."""
        await self._questions.close()

    async def _outcome_in_time(
        self, question: Callable[[], Coroutine[Any, Any, AnswerT]]
    ) -> AnswerT | Exception:
        # In a task of its own: a driver whose server hangs takes as long to be
        # cancelled as it would to give up.
        asking = self._questions.spawn(_outcome(question), name="question")
        try:
            async with self._clock.timeout(PATIENCE):
                return await asyncio.shield(asking)
        except TimeoutError:
            return StoreUnavailableError("it takes too long to answer")
        finally:
            asking.cancel()

    def _trip(self, error: StoreUnavailableError) -> None:
        self._asked_at = self._clock.monotonic()
        if not self._is_away:
            self._is_away = True
            logger.warning(
                "store_does_not_answer",
                reason=error.reason,
                consequence="who is known may connect, others are asked to wait",
            )


async def _outcome(
    question: Callable[[], Coroutine[Any, Any, AnswerT]],
) -> AnswerT | Exception:
    """What came of it; as a value, so that its failure has one hearer."""
    try:
        return await question()
    except Exception as error:
        return error
