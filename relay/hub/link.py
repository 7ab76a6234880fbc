"""What a connection needs of the socket under it."""

from typing import Protocol


class Link(Protocol):
    """The socket under a connection; `relay.hub.socket` has the real one."""

    @property
    def is_writable(self) -> bool:
        """Whether the peer keeps up with what is written to it."""
        ...

    @property
    def unread_bytes(self) -> int:
        """What was sent and has not left this process, in bytes."""
        ...

    def send(self, *pieces: bytes) -> None:
        """Hand one text frame to the transport, in this turn of the loop."""
        ...

    def ping(self) -> None:
        """Send a ping."""
        ...

    def close(self, code: int, reason: str) -> None:
        """Begin the closing handshake; the socket is gone within seconds."""
        ...

    def abort(self) -> None:
        """Drop the socket in this turn; what is not sent yet is lost."""
        ...

    def pause_reading(self) -> None:
        """Leave what the peer sends with the system."""
        ...

    def resume_reading(self) -> None:
        """Take what the peer sends again."""
        ...

    def refuse_text(self) -> None:
        """End the connection: the peer sent a text that is none."""
        ...

    def fail(self) -> None:
        """End the connection: taking a message of the peer met a defect."""
        ...

    def give_message_up(self) -> None:
        """Close the socket: there is no room for the message that arrives on it."""
        ...
