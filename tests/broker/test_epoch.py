"""An act within an epoch leaves nothing behind."""

import asyncio
import gc
import weakref

import pytest

from miniqueue.broker.epoch import Epoch


class Page:
    """What an act has read."""


def test_what_a_cancelled_act_has_read_is_freed_at_once():
    async def body():
        pages = []

        async def act():
            page = Page()
            pages.append(weakref.ref(page))
            await asyncio.get_running_loop().create_future()

        task = asyncio.ensure_future(Epoch().repeat(act))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        del task
        await asyncio.sleep(0)
        assert pages[0]() is None

    gc.collect()
    gc.disable()
    try:
        asyncio.run(body())
    finally:
        gc.enable()
