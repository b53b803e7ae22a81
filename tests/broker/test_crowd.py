"""How much may wait for its commit, all clients together; who comes when it is too much waits for its turn."""

import asyncio

from miniqueue.broker.limits import BrokerLimits, Limit
from tests.broker.support import run
from tests.fakes import settle_down

TEN_BYTES = BrokerLimits(max_uncommitted_bytes=10)


def test_nobody_waits_up_to_the_limit():
    async def body(world):
        world.store.may_write.clear()
        assert not world.broker.crowd.is_there
        world.broker.publish(b"t", [b"x" * 10])
        assert not world.broker.crowd.is_there
        world.broker.publish(b"t", [b"x"])
        assert world.broker.crowd.is_there
        world.store.may_write.set()
        await settle_down()
        assert not world.broker.crowd.is_there

    run(body, limits=TEN_BYTES)


def test_what_is_being_written_counts_too():
    async def body(world):
        world.store.may_write.clear()
        world.broker.publish(b"t", [b"x" * 6])
        await settle_down()  # under way
        world.broker.publish(b"t", [b"x" * 6])
        assert world.broker.crowd.is_there
        world.store.may_write.set()

    run(body, limits=TEN_BYTES)


def test_those_who_wait_go_one_after_the_other_as_far_as_there_is_room():
    async def body(world):
        world.store.may_write.clear()
        world.broker.publish(b"t", [b"x" * 11])
        gone = []

        def publish(number):
            gone.append(number)
            world.broker.publish(b"t", [b"x" * 6])

        for number in range(5):
            world.broker.crowd.when_gone(lambda number=number: publish(number))
        await settle_down()
        assert gone == []
        world.store.may_write.set()
        await settle_down()
        assert gone == [0, 1, 2, 3, 4]
        sizes = [sum(map(len, batch.values())) for batch in world.store.batches if None not in batch.values()]
        assert max(sizes) < 200
        assert len(world.store.batches) >= 4
        assert world.broker.limit_counts.counts == {Limit.UNCOMMITTED: 5}

    run(body, limits=TEN_BYTES)


def test_a_fault_of_the_store_leaves_nobody_waiting():
    async def body(world):
        world.store.fail_writes = {world.store.write_count + 1}
        world.broker.publish(b"t", [b"x" * 11])
        gone = []
        world.broker.crowd.when_gone(lambda: gone.append(1))
        await settle_down()
        assert gone == [1]

    run(body, limits=TEN_BYTES)


def test_a_waiter_may_give_up():
    async def body(world):
        world.store.may_write.clear()
        world.broker.publish(b"t", [b"x" * 11])
        first, second = [asyncio.create_task(world.broker.crowd.gone()) for _ in range(2)]
        await settle_down()
        first.cancel()
        world.store.may_write.set()
        await settle_down()
        assert (first.cancelled(), second.done()) == (True, True)

    run(body, limits=TEN_BYTES)
