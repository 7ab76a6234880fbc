"""
What keeps a web page from using a server that asks nobody for a key.

In local mode the only protection is that the server listens on the loopback address,
and every page that a user of the machine opens can reach that address too. A page on
another site is recognised by its `Origin`; a page whose own name was made to resolve
to 127.0.0.1 (DNS rebinding) by the `Host` it asked for.
"""

from ipaddress import ip_address
from urllib.parse import urlsplit

from relay.settings import RelaySettings, is_loopback

FOREIGN_HOST = (
    "this host name is not known to Relay: use localhost, or set RELAY_PUBLIC_URL to"
    " the URL that clients use"
)
"""What a request for a host that is not ours is told."""

_EVERY_ADDRESS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared, not bound


class BrowserRules:
    """
    Which `Host` and `Origin` headers belong to this server.

    A server told to listen on every address is reached by any of them, so that each
    literal address counts as its own: a literal address cannot be rebound. A *name* is
    its own only when it is `localhost` or stands in `public_url` or `host`.
    """

    def __init__(self, settings: RelaySettings) -> None:
        public = urlsplit(settings.public_url or "")
        self._names = {
            name.lower() for name in (settings.host, public.hostname) if name
        }
        self._origins = (
            {f"{public.scheme}://{public.netloc}".lower()} if public.netloc else set()
        )
        self._is_everywhere = settings.host in _EVERY_ADDRESS

    def is_own_host(self, host: str | None) -> bool:
        """Whether a request for `host` (a `Host` header, port and all) is for us."""
        name = _hostname(host or "")
        if name is None:
            return False
        if name in self._names or is_loopback(name) or name.endswith(".localhost"):
            return True
        return self._is_everywhere and _is_address(name)

    def is_own_origin(self, origin: str, host: str | None) -> bool:
        """Whether the page at `origin` was served under the `host` it now asks."""
        if origin.lower() in self._origins:
            return True
        scheme, _, authority = origin.lower().partition("://")
        return (
            scheme in {"http", "https"}
            and authority == (host or "").lower()
            and self.is_own_host(host)
        )


def _hostname(host: str) -> str | None:
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return None
    return name.lower() if name else None


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
