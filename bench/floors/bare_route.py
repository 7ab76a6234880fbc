"""Floor of REST: FastAPI routes that return what stands in a file, each time."""

import json
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Response

from bench.floors.listening import announce


def make_app(content: Any) -> FastAPI:
    """One route that serialises `content` each time, and one that has its bytes."""
    app = FastAPI()

    @app.get("/bare")
    async def bare() -> Any:
        return content

    written = json.dumps(content, separators=(",", ":")).encode()

    @app.get("/bytes")
    @app.post("/bytes")
    async def as_bytes() -> Response:
        return Response(written, media_type="application/json")

    return app


if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    announce(listener)
    content = json.loads(Path(sys.argv[2]).read_text())
    config = uvicorn.Config(
        make_app(content), http="httptools", log_config=None, access_log=False
    )
    uvicorn.Server(config).run([listener])
