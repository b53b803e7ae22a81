"""Topics that are deleted, and made again, while what they need not keep any longer is given back."""

import asyncio

import pytest

from miniqueue.broker.cleanup import retention
from tests.broker.cleanup.test_retention import chunks, configure, consume, fill, readable
from tests.broker.support import started_world
from tests.fakes import settle_down
from tests.tools.test_audit_of_retention import problems_of


@pytest.mark.parametrize("is_made_again", [False, True])
@pytest.mark.parametrize("drops_unread", [False, True])
async def test_a_topic_is_deleted_between_two_pages(is_made_again, drops_unread, monkeypatch):
    monkeypatch.setattr(retention, "PAGE_CHUNKS", 2)

    async with started_world() as world:
        await configure(world, retention_seconds=2, retention_drops_unread=drops_unread)
        await fill(world, 9)
        await consume(world, 0 if drops_unread else 9)
        await world.commit()
        world.clock.advance(100)
        world.store.may_write.clear()
        world.broker.tick()
        await settle_down()
        deleting = asyncio.create_task(world.broker.delete_topic(b"t"))
        await settle_down()
        if is_made_again:
            world.broker.publish(b"t", [b"new"])
            world.broker.admin.change(b"t", {"retention": "forever"})
        world.store.may_write.set()
        await deleting
        await settle_down()
        assert not world.broker.failed.done()
        assert problems_of(world.store.pairs()) == []
        if is_made_again:
            assert await readable(world, 0) == ([b"new"], 0)
        else:
            assert chunks(world) == []
