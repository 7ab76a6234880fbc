"""
Before a socket is a connection: what was asked for, and whether it may come in.

The hub knows no keys and no applications. It reads the request, and a `Gatekeeper`
above it decides.
"""

import re
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import unquote

from relay.ids import ApplicationRef, KeyId, KeyName

_UPGRADE_PATH = re.compile(r"/{1,2}websocket/([^/]+)/([^/]+)")


@dataclass(frozen=True, slots=True)
class Knock:
    """
    An upgrade request, as far as it matters to whoever decides about it.

    `app_name` and `key` are percent-decoded once and otherwise unchecked.
    `peer_address` is the client's, behind trusted proxies too, or empty.
    """

    app_name: str
    key: str
    peer_address: str
    origin: str | None
    host: str | None

    def __repr__(self) -> str:
        """Without the key, which must not reach a log through a traceback."""
        return f"Knock(app_name={self.app_name!r}, peer_address={self.peer_address!r})"


@dataclass(frozen=True, slots=True)
class Admission:
    """Come in: as an executor of `application`, with this key (`None`: no keys)."""

    application: ApplicationRef
    key_id: KeyId | None
    key_name: KeyName | None


@dataclass(frozen=True, slots=True)
class Refusal:
    """
    Stay out: an HTTP status and what the operator of the executor will read.

    The executor comes back in a second whatever it says, so it has to be cheap; its
    `detail` is the one text that both SDKs log.
    """

    status: int
    title: str
    detail: str


class Gatekeeper(Protocol):
    """Who decides which upgrade requests come in."""

    async def admit(self, knock: Knock) -> Admission | Refusal:
        """
        Decide about one request; may take a few seconds, and may be cancelled.

        Any error it raises refuses the request.
        """
        ...


def parse_upgrade_path(raw_path: str, root_path: str) -> tuple[str, str] | None:
    """
    The application name and the key in the target of an upgrade request.

    Source: the executors' clients append `/websocket/{name}/{key}` to their base URL;
    the Java one leaves a second slash before it.

    Args:
        raw_path: the request target as received, percent-encoded, query included.
        root_path: prefix that a proxy may leave in place, without a trailing slash.

    Returns:
        Both percent-decoded once, unchecked and not empty; `None` when the target is
        no upgrade path.
    """
    path = raw_path.partition("?")[0]
    if root_path and path.startswith(f"{root_path}/"):
        path = path.removeprefix(root_path)
    match = _UPGRADE_PATH.fullmatch(path)
    if match is None:
        return None
    try:
        # Taken apart first and decoded then: an encoded slash belongs to the key.
        app_name, key = (unquote(part, errors="strict") for part in match.groups())
    except UnicodeDecodeError:
        return None
    return app_name, key
