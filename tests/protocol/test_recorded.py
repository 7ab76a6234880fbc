"""What real executors answered is understood."""

import json
from typing import Any

import msgspec
import pytest

from relay.protocol import decode_envelope, is_unknown_message
from relay.protocol.sdk import Sdk, capabilities_of
from tests.protocol.conversations import REQUEST_TYPES, Exchange, list_exchanges

EXCHANGES = list_exchanges()


def plain(reply: Any) -> Any:
    """A reply as JSON would show it."""
    return json.loads(msgspec.json.encode(reply))


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda exchange: exchange.name)
def test_recorded_reply_is_understood(exchange: Exchange) -> None:
    """Envelope and result come out as they were meant; errors as errors."""
    envelope = decode_envelope(exchange.frame)

    assert envelope.request_id == json.loads(exchange.frame)["request_id"]
    if exchange.is_failure:
        assert envelope.error_message is not None
        assert envelope.error_message.strip().endswith(
            exchange.expect["error_ends_with"]
        )
        assert is_unknown_message(envelope.error_message) == exchange.expect.get(
            "is_unknown", False
        )
        return
    assert exchange.request is not None
    assert envelope.error_message is None
    assert envelope.message_type == exchange.request.message_type
    assert plain(exchange.request.decode_reply(exchange.frame)) == exchange.expect


@pytest.mark.parametrize(
    "request_type", REQUEST_TYPES, ids=lambda request_type: request_type.__name__
)
def test_recordings_cover_every_sdk(request_type: type) -> None:
    """Each of the four versions has answered each question."""
    answered = {
        (exchange.sdk, exchange.version)
        for exchange in EXCHANGES
        if isinstance(exchange.request, request_type)
    }

    assert len(answered) == 4


def test_recorded_sdks_are_safe_for_recovery() -> None:
    """The versions that the project tests against are above the floor."""
    assert all(
        capabilities_of(Sdk(exchange.sdk, exchange.version)).is_safe
        for exchange in EXCHANGES
    )
