"""A look at a trace while the store fails: it is answered, or refused for a reason that is known."""

import asyncio

from miniqueue.errors import MiniqueueError
from tests.broker.traces.test_tracer import T, traced
from tests.fakes import settle_down


async def test_a_trace_that_is_read_while_the_store_fails_is_told_or_refused(world):
    await traced(world, b"a")
    world.store.may_scan.clear()
    looking = asyncio.create_task(world.broker.trace(T, (0, 0)))
    await settle_down()
    world.store.fail_writes = {world.store.write_count + 1}
    world.broker.publish(T, [b"b"])
    await settle_down()
    world.store.may_scan.set()
    try:
        told = [step.event for step in await looking]
    except MiniqueueError:
        return
    assert told[:2] == ["published", "committed"]
