"""Who must not be asked: an executor whose SDK cannot do what a request wants."""

from typing import Any

from relay.dispatch.peers import Peer
from relay.errors import InvalidInputError, RelayError, UnknownMessageError
from relay.protocol.envelope import Request
from relay.protocol.sdk import Sdk
from relay.protocol.support import knows_message, list_ignored


def find_misfit(peer: Peer, request: Request[Any]) -> RelayError | None:
    """
    Why the executor's SDK cannot do what `request` asks for; `None` if it can.

    Returns:
        An `UnknownMessageError`, or an `InvalidInputError` whose location is the name
        in camel case of an option that would be left out of account.
    """
    sdk = Sdk(peer.info.language, peer.info.dbos_version)
    label = " ".join(filter(None, (sdk.language, sdk.version))) or "unknown"
    if not knows_message(sdk, request.message_type):
        return UnknownMessageError(
            peer.ref.executor_id,
            f"the connected SDK ({label}) does not know {request.message_type!r};"
            " a newer one may",
        )
    ignored = [to_camel(option) for option in list_ignored(sdk, request)]
    if ignored:
        return InvalidInputError(
            ignored[0],
            f"the connected SDK ({label}) would ignore it: leave out"
            f" {', '.join(ignored)}, or upgrade the SDK",
        )
    return None


def to_camel(name: str) -> str:
    """A name in snake case as REST writes it."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
