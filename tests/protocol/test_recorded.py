"""What real executors answered is understood."""

import json
from dataclasses import asdict, is_dataclass
from typing import Any

import pytest

from relay.protocol import decode_envelope, is_unknown_message
from relay.protocol.sdk import Sdk, capabilities_of
from tests.protocol.conversations import Exchange, list_exchanges

EXCHANGES = list_exchanges()


def plain(reply: Any) -> Any:
    """A reply as JSON would show it."""
    if isinstance(reply, tuple):
        return [plain(item) for item in reply]
    return asdict(reply) if is_dataclass(reply) else reply  # type: ignore[arg-type]  # instances only


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


def test_recordings_cover_every_sdk_and_message() -> None:
    """Each of the four versions has an answer to each of the six questions."""
    asked = {
        (exchange.sdk, exchange.version, exchange.request.message_type)
        for exchange in EXCHANGES
        if exchange.request is not None
    }

    assert len(asked) == 4 * 6


def test_recorded_sdks_are_safe_for_recovery() -> None:
    """The versions that the project tests against are above the floor."""
    assert all(
        capabilities_of(Sdk(exchange.sdk, exchange.version)).is_safe
        for exchange in EXCHANGES
    )
