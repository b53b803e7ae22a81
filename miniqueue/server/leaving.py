"""Hears when an HTTP client leaves while its request is being answered."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from starlette.types import Receive


@asynccontextmanager
async def listening(receive: Receive) -> AsyncIterator[Callable[[], bool]]:
    """Read a request, whose content does not matter, in this block; yield what tells whether its client is there."""
    listener = asyncio.ensure_future(until_gone(receive))
    try:
        yield lambda: not listener.done()
    finally:
        listener.cancel()


async def until_gone(receive: Receive) -> None:
    """Read a request, whose content does not matter, until its client has left; a server may swallow what is sent."""
    while (await receive())["type"] != "http.disconnect":
        pass
