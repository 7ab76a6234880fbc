"""The queue before the gatekeeper: bounded in time and in how many it sees at once."""

import asyncio
from datetime import timedelta

import structlog

from relay.clock import Clock
from relay.errors import StoreError
from relay.hub.handshake import Admission, Gatekeeper, Knock, Refusal
from relay.hub.refusals import OVERLOADED, UNDECIDED

ADMISSION_LIMIT = timedelta(seconds=4)
"""Executors give an upgrade up after 5 s, and learn nothing then."""

ADMISSIONS_AT_ONCE = 32

logger = structlog.get_logger(__name__)


class Admissions:
    """
    Puts upgrade requests to the gatekeeper.

    After a restart every executor knocks within a second. The cap keeps them from
    taking every database connection; who waits too long is refused and comes back.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._places = asyncio.Semaphore(ADMISSIONS_AT_ONCE)

    async def decide(
        self, knock: Knock, gatekeeper: Gatekeeper | None
    ) -> Admission | Refusal:
        """The gatekeeper's verdict, or a refusal when there is none in time."""
        if gatekeeper is None:
            return UNDECIDED
        try:
            async with self._clock.timeout(ADMISSION_LIMIT), self._places:
                return await gatekeeper.admit(knock)
        except TimeoutError:
            return OVERLOADED
        except StoreError:
            return UNDECIDED
        except Exception:
            logger.exception("admission_failed")
            return UNDECIDED
