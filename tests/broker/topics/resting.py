"""What tests of topics at rest do with a world."""

from contextlib import suppress

from miniqueue.broker.model.topic import Topic
from tests.broker.support import World
from tests.fakes import settle_down


def topic_of(world: World, name: bytes = b"t") -> Topic:
    return world.broker._engine.topics.by_name[name]


async def tick(world: World) -> None:
    world.broker.tick()
    await settle_down()


async def reopen(world: World) -> None:
    """Make the store fail, so that it is read again."""
    world.store.fail_writes = {world.store.write_count + 1}
    with suppress(Exception):
        await world.publish(b"other", b"x")
    await settle_down()
    assert world.broker.refusal is None
