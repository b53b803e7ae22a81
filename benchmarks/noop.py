"""An ASGI application that reads its request and answers 201, served as miniqueue serves its own.

`python -m benchmarks.noop PORT FOLDER`, with localhost.pem and localhost-key.pem in FOLDER: the ceiling for any
application on this HTTP server, so it answers in one frame where the server lets applications do so. With `--sync` it
answers when a file in FOLDER was written to and synced, once for all that wait, by the threads and the rules that
miniqueue has for that: the ceiling for any application that answers for what is on the disk.
"""

import argparse
import asyncio
import os
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import uvloop
from starlette.types import ASGIApp, Receive, Scope, Send

from miniqueue.broker.commit.journal import Commit, Committer, Ending
from miniqueue.errors import StorageError
from miniqueue.server.asgi.replies import EMPTY_REPLY
from miniqueue.server.granian import server
from miniqueue.server.hypercorn import listening
from miniqueue.server.process import runtime
from miniqueue.storage.leveldb.store import Worker

#: What is written for a request: a message of 10 bytes with its record takes a little more.
WRITTEN_BYTES = 32
FILE_BYTES = 64 << 10


def answering(wait: Callable[[], Awaitable[None]] | None) -> ASGIApp:
    """Return an application that answers 201 to every request, after `wait`."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        while (await receive()).get("more_body"):
            pass
        if wait is not None:
            await wait()
        if EMPTY_REPLY in (scope.get("extensions") or ()):
            await send({"type": EMPTY_REPLY, "status": 201, "headers": [(b"content-length", b"0")]})
        else:
            await send({"type": "http.response.start", "status": 201, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})

    return app


class Disk:
    """A file that is written over and synced, once for all who wait; to be made in an event loop."""

    def __init__(self, file: Path) -> None:
        self._fd = os.open(file, os.O_CREAT | os.O_RDWR)
        os.pwrite(self._fd, bytes(FILE_BYTES), 0)
        os.fsync(self._fd)
        self._worker = Worker("sync")
        self._committer = Committer(self._begin, lambda error: None)
        self._committing = asyncio.create_task(self._committer.run())

    async def wait(self) -> None:
        """Wait until something was written for this request, and synced; raises StorageError."""
        await self._committer.add(WRITTEN_BYTES).wait()

    def _begin(self, commit: Commit) -> Ending:
        return partial(self._end, commit, self._worker.submit(self._write, min(commit.size_bytes, FILE_BYTES)))

    def _write(self, size_bytes: int) -> None:
        os.pwrite(self._fd, bytes(size_bytes), 0)
        os.fdatasync(self._fd)

    async def _end(self, commit: Commit, written: Awaitable[None]) -> None:
        try:
            await written
        except OSError as exc:
            commit.finish(StorageError(str(exc)))
        else:
            commit.finish()


async def main() -> None:
    """Serve until it is killed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.noop", description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sync", action="store_true")
    parser.add_argument("--granian", action="store_true")
    args = parser.parse_args()
    wait = Disk(args.folder / "synced").wait if args.sync else None
    serve_https = server.serve_https if args.granian else listening.serve_https
    listener = listening.listen("127.0.0.1", args.port)
    certificate, key = args.folder / "localhost.pem", args.folder / "localhost-key.pem"
    runtime.freeze_live_objects()
    await serve_https(answering(wait), listener, certificate, key, asyncio.Event().wait)


if __name__ == "__main__":
    runtime.prepare()
    uvloop.run(main())
