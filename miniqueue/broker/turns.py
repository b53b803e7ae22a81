"""Long work on the event loop, in parts, between which others have their turn."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import TypeVar

T = TypeVar("T")


async def in_turns(items: Iterable[T], count: int) -> AsyncGenerator[T, None]:
    """Yield `items`, and let others go on behind every `count` of them."""
    for number, item in enumerate(items, start=1):
        yield item
        if number % count == 0:
            await asyncio.sleep(0)
