"""Floor of REST: a FastAPI route that returns what it finds in a file, each time."""

import json
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from bench.floors.listening import announce


def make_app(content: Any) -> FastAPI:
    """An application with one route that serialises `content`."""
    app = FastAPI()

    @app.get("/bare")
    async def bare() -> Any:
        return content

    return app


if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    announce(listener)
    content = json.loads(Path(sys.argv[2]).read_text())
    config = uvicorn.Config(
        make_app(content), http="httptools", log_config=None, access_log=False
    )
    uvicorn.Server(config).run([listener])
