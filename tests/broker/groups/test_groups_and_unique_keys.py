"""Unique keys where there are groups: they go with the group `default`, or with the first one by name."""

import pytest

from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.options.start import Edge, FromMessage
from tests.broker.groups.test_groups import payloads, receive
from tests.fakes import settle_down
from tests.tools.test_audit_of_retention import problems_of


async def is_taken(world, key: bytes) -> bool:
    """Publish with a unique key; tell whether another message has it."""
    await settle_down()
    assert problems_of(world.store.pairs()) == []
    accepted = await world.broker.publish_unique(b"t", b"again", PublishOptions(unique_key=key))
    await accepted.commit.wait()
    assert problems_of(world.store.pairs()) == []
    return accepted.is_duplicate


async def publish(world, *keys: bytes) -> None:
    for key in keys:
        await (await world.broker.publish_unique(b"t", key, PublishOptions(unique_key=key))).commit.wait()


async def test_keys_are_free_when_the_default_group_is_done_whatever_others_have(world):
    for group in (b"a", b"default"):
        await world.broker.groups.create(b"t", group)
    await publish(world, b"k")
    assert await payloads(world, b"a") == [b"k"]
    assert await is_taken(world, b"k")
    assert await payloads(world, b"default") == [b"k"]
    assert not await is_taken(world, b"k")


async def test_another_group_has_messages_whose_keys_are_free(world):
    for group in (b"a", b"default"):
        await world.broker.groups.create(b"t", group)
    await publish(world, b"k")
    assert await payloads(world, b"default") == [b"k"]
    await settle_down()
    assert problems_of(world.store.pairs()) == []
    assert not await is_taken(world, b"k")


async def test_keys_of_what_a_group_goes_past_are_free(world):
    await publish(world, b"a", b"b", b"c", b"d")
    taken = await receive(world, b"default", count=1)
    world.broker.leases.nack(b"t", [taken[1][0]])
    await world.commit()
    await world.broker.groups.seek(b"t", b"default", FromMessage(0, 2))
    await settle_down()
    assert [await is_taken(world, key) for key in (b"a", b"b", b"c", b"d")] == [False, False, True, True]


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_keys_that_the_next_group_is_done_with_are_free_when_the_default_group_is_deleted(is_restarted, world):
    for group in (b"a", b"default", b"z"):
        await world.broker.groups.create(b"t", group)
    await publish(world, b"acked", b"returned", b"leased", b"waiting")
    (acked, returned, *_) = await receive(world, b"a", count=3)
    world.broker.leases.ack(b"t", [acked[0]])
    world.broker.leases.nack(b"t", [returned[0]])
    await world.commit()
    await world.broker.groups.delete(b"t", b"default")
    if is_restarted:
        await settle_down()
        await world.restart()
    keys = (b"acked", b"returned", b"leased", b"waiting")
    assert [await is_taken(world, key) for key in keys] == [False, True, True, True]
    await payloads(world, b"z")
    assert await is_taken(world, b"waiting")
    await payloads(world, b"a")


async def test_keys_go_with_the_default_group_as_soon_as_there_is_one(world):
    await world.broker.groups.create(b"t", b"a")
    await publish(world, b"k")
    await world.broker.groups.create(b"t", b"default", Edge.LATEST)
    assert not await is_taken(world, b"k")


async def test_what_frees_keys_goes_on_after_a_crash(world):
    await publish(world, b"k")
    await world.broker.groups.seek(b"t", b"default", Edge.LATEST)
    await settle_down()
    gone = next(n for n, batch in enumerate(world.store.batches) if any(key[0] == 0x11 for key in batch) and n > 1)
    store = await world.store.as_of(gone + 1)
    await world.broker.stop()
    world.store = store
    await world.start()
    assert not await is_taken(world, b"k")
