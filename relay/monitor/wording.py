"""What the audit log and the row say of a connection that came or went."""

from collections.abc import Mapping
from typing import Any, assert_never

from relay.hub.events import Arrival, Departure, Loss
from relay.monitor.news import Ending, Missing, Orphaned
from relay.protocol.sdk import OLD_SDK_WARNING, Sdk, capabilities_of

_PLAIN_LOSSES = frozenset({Loss.CLOSED, Loss.RESET, Loss.DRAINED, Loss.SUPERSEDED})
"""Ends of a connection that say nothing against the executor."""


def arrival_details(news: Arrival) -> Mapping[str, Any]:
    """What an executor said of itself, and what is to be said of that."""
    info = news.info
    is_safe = capabilities_of(Sdk(info.language, info.dbos_version)).is_safe
    return {
        "app_version": info.application_version,
        "hostname": info.hostname,
        "language": info.language,
        "dbos_version": info.dbos_version,
        "key_name": news.key_name,
        "warning": None if is_safe else OLD_SDK_WARNING,
    }


def loss_details(news: Ending) -> Mapping[str, Any]:
    """Why a connection is no more; `None` where nothing is known."""
    match news:
        case Departure():
            return {
                "reason": news.loss.value,
                "close_code": news.close_code,
                "close_reason": news.close_reason or None,
                "silent_for_secs": _silence(news),
            }
        case Orphaned():
            return {"reason": "relay_started"}
        case Missing():
            return {"reason": "not_noticed"}
        case _:
            assert_never(news)


def complaint_of(news: Departure) -> str | None:
    """What went wrong with the connection, in one line for the operator."""
    if news.loss in _PLAIN_LOSSES:
        return None
    return f"{news.loss.value}: {news.close_reason}".removesuffix(": ")


def _silence(news: Departure) -> float | None:
    """For how many seconds nothing was heard, if the connection ended for that."""
    if news.loss is not Loss.SILENT:
        return None
    return round((news.at - news.last_seen_at).total_seconds(), 3)
