"""An ASGI application that reads its request and answers 201, served as miniqueue serves its own.

`python -m benchmarks.noop PORT FOLDER`, with localhost.pem and localhost-key.pem in FOLDER: the ceiling for any
application on this HTTP server, so it answers in one frame where the server lets applications do so.
"""

import asyncio
import sys
from pathlib import Path

import uvloop
from starlette.types import Receive, Scope, Send

from miniqueue.server.listening import listen, serve_https
from miniqueue.server.replies import EMPTY_REPLY


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer 201 to every request."""
    if scope["type"] == "http":
        while (await receive()).get("more_body"):
            pass
        if EMPTY_REPLY in (scope.get("extensions") or ()):
            await send({"type": EMPTY_REPLY, "status": 201, "headers": [(b"content-length", b"0")]})
        else:
            await send({"type": "http.response.start", "status": 201, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})


async def main(port: int, folder: Path) -> None:
    listener = listen("127.0.0.1", port)
    stopped = asyncio.Event()
    await serve_https(app, listener, folder / "localhost.pem", folder / "localhost-key.pem", stopped.wait)


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), Path(sys.argv[2])))
