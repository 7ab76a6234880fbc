"""What the system has to give first: an address to listen on, and descriptors."""

import errno
import resource
import socket

import structlog

from relay.errors import SettingsError

_ABSENT = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}
"""How an address fails that a name has and this machine has not, such as `::1`."""

_MANY_DESCRIPTORS = 1_048_576
"""To ask for where there is no limit; some systems refuse to be asked for infinity."""

logger = structlog.get_logger(__name__)


def bind(host: str, port: int) -> list[socket.socket]:
    """
    Sockets bound to every address of `host`, on one port; nothing listens yet.

    Raises:
        SettingsError: the address cannot be taken.
    """
    bound: list[socket.socket] = []
    absent: OSError | None = None
    try:
        for family, _, _, _, address in socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            if bound:
                port = bound[0].getsockname()[1]
            try:
                bound.append(_bind_one(family, (address[0], port, *address[2:])))
            except OSError as error:
                if error.errno not in _ABSENT:
                    raise
                absent = error
        if absent is not None and not bound:
            raise absent
    except OSError as error:
        for listener in bound:
            listener.close()
        raise SettingsError(
            f"cannot listen on {host or '*'}:{port}: {error.strerror or error}"
        ) from None
    return bound


def _bind_one(
    family: socket.AddressFamily, address: tuple[object, ...]
) -> socket.socket:
    # Without the protocol, asyncio does not know an accepted socket for TCP, and each
    # answer waits for the peer to acknowledge its head.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener


def raise_descriptor_limit() -> None:
    """Allow as many open sockets as the system lets this process have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return
    wanted = max(soft, _MANY_DESCRIPTORS) if hard == resource.RLIM_INFINITY else hard
    if soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        logger.warning("descriptor_limit_kept", limit=soft, reason=str(error))
    else:
        logger.info("descriptor_limit_raised", before=soft, now=wanted)
