"""An act within an epoch leaves nothing behind."""

import asyncio
import gc
import weakref

import pytest

from miniqueue.broker.runtime.tasks import Epoch


class Page:
    """What an act has read."""


async def test_what_a_cancelled_act_has_read_is_freed_at_once():
    pages = []

    async def act():
        page = Page()
        pages.append(weakref.ref(page))
        await asyncio.get_running_loop().create_future()

    gc.collect()
    gc.disable()
    try:
        task = asyncio.ensure_future(Epoch().repeat(act))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        del task
        await asyncio.sleep(0)
        assert pages[0]() is None
    finally:
        gc.enable()


async def test_background_work_does_not_begin_after_the_epoch_in_which_it_was_spawned():
    epoch, begun = Epoch(), []

    async def act():
        begun.append(True)

    outdated = epoch.background(act())
    epoch.end()
    await outdated
    assert begun == []
    await epoch.background(act())
    assert begun == [True]
