"""Keeping clear of the limit of open files."""

import resource
import sys
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

import structlog

from relay.clock import Clock
from relay.telemetry import Metrics

LARGEST_RESERVE = 500
WARNING_SPAN = timedelta(minutes=1)

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Ceilings:
    """
    The descriptors from which on sockets are refused.

    The system gives a new socket the lowest number that is free, so the number alone
    says how many are in use. `upgrade` is for executors, `any_socket` for all others:
    an operator gets in when no executor does. What is above is for the database, files
    and sockets that are being refused.
    """

    upgrade: int
    any_socket: int

    @classmethod
    def below(cls, limit: int) -> Self:
        """For a process that may have `limit` descriptors."""
        reserve = min(LARGEST_RESERVE, limit // 4)
        return cls(upgrade=limit - reserve, any_socket=limit - reserve // 2)

    @classmethod
    def of_this_process(cls) -> Self:
        """By the limit that holds now."""
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return cls.below(sys.maxsize if limit == resource.RLIM_INFINITY else limit)


class Descriptors:
    """Whether another socket may be kept; says once a minute that some may not."""

    def __init__(self, ceilings: Ceilings, clock: Clock, metrics: Metrics) -> None:
        self.ceilings = ceilings
        self._clock = clock
        self._metrics = metrics
        self._warned_at = float("-inf")
        self._refused = 0

    def note_refusal(self) -> None:
        """A socket was refused for want of descriptors."""
        self._metrics.sockets_turned_away.labels("descriptors").inc()
        self._refused += 1
        now = self._clock.monotonic()
        if now - self._warned_at < WARNING_SPAN.total_seconds():
            return
        self._warned_at = now
        logger.warning(
            "descriptors_ran_out",
            refused_sockets=self._refused,
            kept_for_executors=self.ceilings.upgrade,
            advice="raise the limit of open files (ulimit -n, LimitNOFILE)",
        )
        self._refused = 0
