"""The client behind the proxies in front of this server."""

import ipaddress
from collections.abc import Sequence


class ProxyTrust:
    """Whose word about the client's address is believed."""

    def __init__(self, proxies: Sequence[str]) -> None:
        self._networks = [ipaddress.ip_network(proxy) for proxy in proxies]

    def find_client(self, peer: str, forwarded_for: Sequence[str]) -> str:
        """
        The address of the client behind `peer`.

        Args:
            peer: the address at the other end of the TCP connection.
            forwarded_for: the values of the `X-Forwarded-For` headers, in order.

        Returns:
            The nearest address that is no trusted proxy. Each hop is believed only
            because the one nearer to us is trusted.
        """
        client = peer
        hops = [hop.strip() for value in forwarded_for for hop in value.split(",")]
        while hops and self._is_trusted(client):
            try:
                client = str(ipaddress.ip_address(hops.pop()))
            except ValueError:
                break
        return client

    def _is_trusted(self, address: str) -> bool:
        if not self._networks:
            return False
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self._networks)
