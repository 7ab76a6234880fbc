"""What came of requests, in the words of the metrics."""

from typing import Final

from relay.errors import (
    ConnectionLostError,
    DispatchError,
    ExecutorBusyError,
    ExecutorFailedError,
    ReplyInvalidError,
    ReplyTimeoutError,
    ReplyTooLargeError,
    RequestWithdrawnError,
    UnknownMessageError,
)

_OUTCOMES: Final[dict[type[DispatchError], str]] = {
    ConnectionLostError: "lost",
    ExecutorBusyError: "busy",
    ExecutorFailedError: "failed",
    ReplyInvalidError: "invalid",
    ReplyTimeoutError: "timeout",
    ReplyTooLargeError: "too_large",
    RequestWithdrawnError: "withdrawn",
    UnknownMessageError: "unknown",
}


def name_outcome(error: DispatchError) -> str:
    """The word for what befell a request."""
    return _OUTCOMES.get(type(error), "failed")
