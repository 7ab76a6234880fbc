"""Fields of replies and requests, as they are on the wire."""

import json
from typing import Any

from relay.ids import RequestId
from relay.protocol import Request, encode


def reply(**fields: Any) -> bytes:
    """A frame as Python executors write it, NaN tokens included."""
    return json.dumps({"type": "any", "request_id": "r", **fields}).encode()


def written(request: Request[Any]) -> dict[str, Any]:
    """The fields of a request as they arrive."""
    frame: dict[str, Any] = json.loads(encode(request, RequestId("r")))
    del frame["type"], frame["request_id"]
    return frame
