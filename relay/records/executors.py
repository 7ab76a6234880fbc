"""Executors, and what is left of them once they are gone."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from relay.ids import (
    AppVersion,
    ConnectionId,
    Epoch,
    ExecutorRef,
    InstanceId,
    RecoveryId,
)
from relay.liveness.states import ExecutorStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorRecord:
    """
    What is known of one executor.

    `epoch` and `connection_id` name the socket that the row is about: a late event of
    an older socket matches neither. `owner` is the Relay instance holding the socket.

    While DISCONNECTED, `dead_after` is the deadline (by the database's clock) and its
    identity; `grace_started_at` is where PATCH re-computes it from, `grace_is_fault`
    tells that the fault floor applies. `unseen_starts` counts consecutive starts of
    Relay since the executor was last connected.
    """

    ref: ExecutorRef
    app_version: AppVersion
    hostname: str | None
    language: str | None
    dbos_version: str | None
    metadata: Mapping[str, Any] | None
    status: ExecutorStatus
    status_since: datetime
    created_at: datetime
    last_seen_at: datetime
    peer_address: str
    owner: InstanceId
    epoch: Epoch
    connection_id: ConnectionId
    grace_started_at: datetime | None
    grace_is_fault: bool
    dead_after: datetime | None
    unseen_starts: int
    last_error: str | None

    @property
    def is_placeholder(self) -> bool:
        """Whether no socket was ever behind it: a recovery needed a row."""
        return not self.connection_id


@dataclass(frozen=True, slots=True, kw_only=True)
class TombstoneRecord:
    """
    An executor whose record was deleted by recovery; kept for the census.

    `reopened_at` is when the census last found it owning work again.
    """

    executor: ExecutorRef
    app_version: AppVersion
    recovery_id: RecoveryId
    deleted_at: datetime
    reopened_at: datetime | None = None
