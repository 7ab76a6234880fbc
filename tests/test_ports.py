"""What tests rely on when they start a server on a port of theirs."""

import socket

import pytest

from tests.ports import ReservedPort


def listening(port: int) -> socket.socket:
    """A server on that port, like asyncio's, uvicorn's and PostgreSQL's."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    return listener


def test_a_server_may_come_and_go_on_a_reserved_port() -> None:
    """Nobody answers before, between and after."""
    with ReservedPort() as port:
        for _ in range(2):
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port.number))
            with (
                listening(port.number),
                socket.create_connection(("127.0.0.1", port.number)) as client,
            ):
                assert client.getpeername()[1] == port.number
