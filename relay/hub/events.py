"""What the hub tells about connections, and to whom."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from relay.ids import ConnectionId, ExecutorRef, KeyName
from relay.protocol.messages import ExecutorInfo


class Loss(StrEnum):
    """Why a connection ended."""

    CLOSED = "closed"
    """The executor sent a close frame; whatever its code, no proof of a stop."""

    RESET = "reset"
    """The TCP connection ended without a close frame."""

    SILENT = "silent"
    """No byte for the whole of `ping_wait`; the socket was aborted."""

    SUPERSEDED = "superseded"
    """The same executor opened a newer connection."""

    SLOW_READER = "slow_reader"
    """The executor did not read what was sent to it."""

    PROTOCOL = "protocol"
    """The executor broke the WebSocket protocol."""

    TOO_LARGE = "too_large"
    """The executor sent a message beyond the limit."""

    OVERFLOW = "overflow"
    """All unfinished messages together broke the limit, and its was the largest."""

    DRAINED = "drained"
    """This instance stops."""

    REVOKED = "revoked"
    """The key that opened the connection was revoked."""

    DELETED = "deleted"
    """The application was deleted."""

    UNIDENTIFIED = "unidentified"
    """It did not say who it is; no listener is ever told."""

    FAILED = "failed"
    """A defect of Relay met while handling a frame; the log has the traceback."""

    @property
    def is_own_doing(self) -> bool:
        """Whether Relay hung up on a peer that may well be alive."""
        return self not in {Loss.CLOSED, Loss.RESET, Loss.SILENT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """
    An executor said who it is, and is the one to be asked from now on.

    Also told of an older connection when a newer one of the same executor ends: the
    executor is still on line, on this one. `is_collision` says that live processes
    share one executor id, so that the other connection must stay open.
    """

    ref: ExecutorRef
    connection_id: ConnectionId
    at: datetime
    info: ExecutorInfo
    peer_address: str
    key_name: KeyName | None
    is_collision: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """
    A connection that had arrived is gone.

    `connection_id` may be that of a connection already replaced: late news, which
    changes nothing. `last_seen_at` is when its last byte arrived: for a silent one long
    before `at`. `close_code` and `close_reason` are those of the side that closed
    first, `None` and empty when there was no close frame; a peer's reason is made
    printable. `is_fault` says that Relay caused the loss or cannot judge it.
    """

    ref: ExecutorRef
    connection_id: ConnectionId
    at: datetime
    last_seen_at: datetime
    loss: Loss
    close_code: int | None
    close_reason: str
    peer_address: str
    is_fault: bool


class ConnectionListener(Protocol):
    """
    Who wants to know about connections.

    Called from within the loop's callbacks, in the order in which things happen: an
    implementation notes the event and returns.
    """

    def connected(self, arrival: Arrival) -> None:
        """An executor is on line."""
        ...

    def lost(self, departure: Departure) -> None:
        """A connection ended."""
        ...
