"""How a process of the bench says that it listens, and gets its descriptors."""

import resource
import socket


def announce(listener: socket.socket) -> None:
    """Tell the parent the port."""
    print(listener.getsockname()[1], flush=True)  # noqa: T201 - read by the parent


def raise_descriptor_limit() -> None:
    """Allow this process as many descriptors as the system does."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
