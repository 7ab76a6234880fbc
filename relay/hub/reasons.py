"""The reasons in close frames, ours and those of peers."""

from typing import Final

_LIMIT_BYTES: Final = 123


def fit_reason(reason: str) -> str:
    """The part of `reason` that a close frame can hold."""
    return reason.encode(errors="replace")[:_LIMIT_BYTES].decode(errors="ignore")


def show_reason(reason: str) -> str:
    """A peer's `reason` without what a log or a database cannot take."""
    return "".join(
        char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in reason
    )
