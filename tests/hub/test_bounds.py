"""The table of bounds in the hub's theory of operation is what the code does."""

from datetime import timedelta

import pytest

import relay.hub
from relay.hub.admission import ADMISSION_LIMIT, ADMISSIONS_AT_ONCE
from relay.hub.callers import PROGRESS_BYTES, REQUEST_LIMIT, UNREAD_LIMIT
from relay.hub.connection import OUTBOX_BYTES, OUTBOX_FRAMES
from relay.hub.lobby import SILENCE_LIMIT, WAITING_LIMIT
from relay.hub.socket import WRITE_HIGH_WATER_BYTES
from relay.hub.switchboard import CLOSE_LIMIT, SLOW_READER_LIMIT
from relay.hub.turnstile import PEER_LIMIT, PLACES
from relay.settings import RelaySettings

DEFAULTS = RelaySettings()


def seconds(span: timedelta) -> str:
    return f"{span.total_seconds():g} s"


def size(count: int) -> str:
    unit, name = (2**20, "MiB") if count >= 2**20 else (2**10, "KiB")
    return f"{count // unit} {name}"


@pytest.mark.parametrize(
    "row",
    [
        ("the first byte of a socket", seconds(SILENCE_LIMIT)),
        ("waiting to be let in", f"{seconds(WAITING_LIMIT)}, then 503"),
        (f"a request, {size(PROGRESS_BYTES)} of its body", seconds(REQUEST_LIMIT)),
        (
            "on the way in",
            f"{PLACES} at once; a peer counts for {seconds(PEER_LIMIT)}",
        ),
        ("admission", f"{ADMISSIONS_AT_ONCE} at once, {seconds(ADMISSION_LIMIT)}"),
        (
            "the answer to `executor_info`",
            f"{seconds(DEFAULTS.handshake_timeout)} (setting)",
        ),
        ("a message", f"{size(DEFAULTS.max_message_bytes)} (setting)"),
        (
            "all messages that are arriving",
            f"{size(DEFAULTS.max_unfinished_bytes)} (setting); the largest part goes",
        ),
        ("an outbox", f"{OUTBOX_FRAMES:,} frames, {size(OUTBOX_BYTES)}"),
        (
            "what a peer has not read",
            f"{size(WRITE_HIGH_WATER_BYTES)}, for {seconds(SLOW_READER_LIMIT)}; an HTTP"
            f" client: for {seconds(UNREAD_LIMIT)}",
        ),
        ("closing", seconds(CLOSE_LIMIT)),
    ],
    ids=lambda row: row[0],
)
def test_the_table_of_bounds_is_true(row: tuple[str, str]) -> None:
    """Whoever reads it reads what holds."""
    lines = [line.strip() for line in (relay.hub.__doc__ or "").splitlines()]

    assert [line for line in lines if line.startswith(f"{row[0]}  ")] == [
        f"{row[0]:<34}  {row[1]}"
    ]
