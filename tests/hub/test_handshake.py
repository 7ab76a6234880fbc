"""What an upgrade request asks for."""

import pytest

from relay.hub.handshake import Knock, parse_upgrade_path
from relay.hub.proxies import ProxyTrust


@pytest.mark.parametrize(
    ("target", "root_path"),
    [
        ("/websocket/orders/secret", ""),
        ("//websocket/orders/secret", ""),
        ("/websocket/orders/secret?x=1", ""),
        ("/conductor/websocket/orders/secret", "/conductor"),
        ("/conductor//websocket/orders/secret", "/conductor"),
        ("/websocket/orders/secret", "/conductor"),
        ("/a/b/websocket/orders/secret", "/a/b"),
        ("/websocket/%6Frders/s%65cret", ""),
    ],
)
def test_path_names_application_and_key(target: str, root_path: str) -> None:
    """Every spelling that an SDK or a proxy produces is understood."""
    assert parse_upgrade_path(target, root_path) == ("orders", "secret")


@pytest.mark.parametrize(
    ("segment", "decoded"),
    [
        ("a%2Fb", "a/b"),
        ("a%2520b", "a%20b"),
        ("%C3%BC", "ü"),
        ("a+b", "a+b"),
        ("100%", "100%"),
        ("%zz", "%zz"),
    ],
)
def test_path_is_decoded_exactly_once(segment: str, decoded: str) -> None:
    """An encoded slash stays inside its segment and an encoded percent sign stays."""
    assert parse_upgrade_path(f"/websocket/orders/{segment}", "") == ("orders", decoded)


@pytest.mark.parametrize(
    ("target", "root_path"),
    [
        ("/websocket/orders", ""),
        ("/websocket/orders/", ""),
        ("/websocket//secret", ""),
        ("/websocket/orders/secret/", ""),
        ("/websocket/orders/se/cret", ""),
        ("///websocket/orders/secret", ""),
        ("/other/orders/secret", ""),
        ("/websockets/orders/secret", ""),
        ("/WebSocket/orders/secret", ""),
        ("/p?x=1/websocket/orders/secret", ""),
        ("/conductorwebsocket/orders/secret", "/conductor"),
        ("/other/websocket/orders/secret", "/conductor"),
        ("/conductor/websocket/orders/secret", ""),
        ("/websocket/orders/%FF", ""),
        ("http://h/websocket/orders/secret", ""),
        ("/", ""),
        ("", ""),
    ],
)
def test_other_paths_are_no_upgrade_paths(target: str, root_path: str) -> None:
    """A missing or surplus segment, another prefix or bytes that are no text: none."""
    assert parse_upgrade_path(target, root_path) is None


def test_knock_does_not_show_its_key() -> None:
    """The key does not reach a log through a traceback."""
    knock = Knock("orders", "secret", "127.0.0.1", None, None)

    assert "secret" not in repr(knock)


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("198.51.100.7", ["203.0.113.9"], "198.51.100.7"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["6.6.6.6, 203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["6.6.6.6", "203.0.113.9, 10.0.0.2"], "203.0.113.9"),
        ("10.0.0.1", ["2001:db8::1"], "2001:db8::1"),
        ("10.0.0.1", ["203.0.113.9, <script>"], "10.0.0.1"),
        ("", ["203.0.113.9"], ""),
    ],
)
def test_client_is_the_nearest_address_that_is_no_trusted_proxy(
    peer: str, forwarded: list[str], client: str
) -> None:
    """A header is believed hop by hop, and only from a trusted proxy."""
    trust = ProxyTrust(["10.0.0.0/8"])

    assert trust.find_client(peer, forwarded) == client


def test_nobody_is_trusted_by_default() -> None:
    """Without a setting, the peer of the TCP connection is the client."""
    assert ProxyTrust([]).find_client("10.0.0.1", ["203.0.113.9"]) == "10.0.0.1"
