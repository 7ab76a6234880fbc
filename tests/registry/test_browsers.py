"""Which host names and origins are this server's own."""

import pytest

from relay.registry import BrowserRules
from relay.settings import RelaySettings


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        ("localhost", True),
        ("localhost:8090", True),
        ("127.0.0.1:1", True),
        ("[::1]:8090", True),
        ("relay.localhost:8090", True),
        ("localhost.", False),
        ("127.0.0.1.evil.example", False),
        ("evil.example", False),
        ("10.0.0.5", False),
        ("evil.example@localhost", True),
        (":8090", False),
        ("[::1", False),
        (None, False),
    ],
)
def test_loopback_server_knows_loopback_names(host: str | None, is_own: bool) -> None:
    """Nothing else leads to it but a name that was rebound."""
    assert BrowserRules(RelaySettings()).is_own_host(host) is is_own


def test_server_on_every_address_knows_each_literal_one() -> None:
    """A literal address cannot be rebound, a name can."""
    rules = BrowserRules(RelaySettings(host="::", allow_unauthenticated=True))

    assert rules.is_own_host("10.0.0.5:8090")
    assert rules.is_own_host("[2001:db8::1]:8090")
    assert not rules.is_own_host("relay:8090")


def test_configured_names_are_own() -> None:
    """Those of `host` and `public_url`."""
    rules = BrowserRules(
        RelaySettings(
            host="relay-a",
            allow_unauthenticated=True,
            public_url="https://Relay.example:8443/conductor",
        )
    )

    assert rules.is_own_host("relay-a:8090")
    assert rules.is_own_host("relay.example")
    assert not rules.is_own_host("relay-b")
    assert not rules.is_own_host("10.0.0.5")


@pytest.mark.parametrize(
    ("origin", "host", "is_own"),
    [
        ("http://localhost:8090", "localhost:8090", True),
        ("https://relay.example", "localhost:8090", True),
        ("https://relay.example", "relay.example", True),
        ("http://relay.example", "localhost:8090", False),
        ("http://localhost:3000", "localhost:8090", False),
        ("http://127.0.0.1:8090", "localhost:8090", False),
        ("http://evil.example", "evil.example", False),
        ("null", "localhost:8090", False),
        ("file://", "localhost:8090", False),
        ("http://[::1", "localhost:8090", False),
        ("http://[::1]:8090", "[::1]:8090", True),
        ("", "localhost:8090", False),
        ("http://localhost:8090", None, False),
    ],
)
def test_page_is_own_when_this_server_served_it(
    origin: str, host: str | None, is_own: bool
) -> None:
    """Its origin is the host it asks, or the public URL."""
    rules = BrowserRules(RelaySettings(public_url="https://relay.example/conductor"))

    assert rules.is_own_origin(origin, host) is is_own
