"""How much may wait for its commit, all clients together; who comes when it is too much waits for its turn."""

import asyncio
from functools import partial

import pytest

from miniqueue.broker.model.limits import BrokerLimits, Limit
from miniqueue.errors import InvalidTopicError
from tests.broker.support import world_with
from tests.fakes import settle_down

TEN_BYTES = BrokerLimits(max_uncommitted_bytes=10)


@world_with(limits=TEN_BYTES)
async def test_nobody_waits_up_to_the_limit(world):
    world.store.may_write.clear()
    assert not world.broker.backpressure.must_wait
    world.broker.publish(b"t", [b"x" * 10])
    assert not world.broker.backpressure.must_wait
    world.broker.publish(b"t", [b"x"])
    assert world.broker.backpressure.must_wait
    world.store.may_write.set()
    await settle_down()
    assert not world.broker.backpressure.must_wait


@world_with(limits=TEN_BYTES)
async def test_what_is_being_written_counts_too(world):
    world.store.may_write.clear()
    world.broker.publish(b"t", [b"x" * 6])
    await settle_down()  # under way
    world.broker.publish(b"t", [b"x" * 6])
    assert world.broker.backpressure.must_wait
    world.store.may_write.set()


@world_with(limits=TEN_BYTES)
async def test_those_who_wait_go_one_after_the_other_as_far_as_there_is_room(world):
    world.store.may_write.clear()
    world.broker.publish(b"t", [b"x" * 11])
    gone = []

    def publish(number):
        gone.append(number)
        world.broker.publish(b"t", [b"x" * 6])

    for number in range(5):
        world.broker.backpressure.call_when_room(lambda number=number: publish(number))
    await settle_down()
    assert gone == []
    world.store.may_write.set()
    await settle_down()
    assert gone == [0, 1, 2, 3, 4]
    sizes = [sum(map(len, batch.values())) for batch in world.store.batches if None not in batch.values()]
    assert max(sizes) < 200
    assert len(world.store.batches) >= 4
    assert world.broker.limit_counts.counts == {Limit.UNCOMMITTED: 5}


@world_with(limits=TEN_BYTES)
async def test_a_fault_of_the_store_leaves_nobody_waiting(world):
    world.store.fail_writes = {world.store.write_count + 1}
    world.broker.publish(b"t", [b"x" * 11])
    gone = []
    world.broker.backpressure.call_when_room(lambda: gone.append(1))
    await settle_down()
    assert gone == [1]


@world_with(limits=TEN_BYTES)
async def test_those_who_wait_for_a_result_go_one_after_the_other_too(world):
    world.store.may_write.clear()
    world.broker.publish(b"t", [b"x" * 11])
    publish = partial(world.broker.publish, b"t", [b"x" * 6])
    waiting = [asyncio.create_task(world.broker.backpressure.admit(publish)) for _ in range(20)]
    await settle_down()
    world.store.may_write.set()
    assert [(await each).first_seq for each in waiting] == list(range(1, 21))
    await settle_down()
    assert max(sum(len(value or b"") for value in batch.values()) for batch in world.store.batches) < 200


@world_with(limits=TEN_BYTES)
async def test_an_error_is_for_the_one_who_waits(world):
    world.store.may_write.clear()
    world.broker.publish(b"t", [b"x" * 11])
    wrong, right = [
        asyncio.create_task(world.broker.backpressure.admit(partial(world.broker.publish, name, [b"x"])))
        for name in (b"a/b", b"t")
    ]
    await settle_down()
    world.store.may_write.set()
    with pytest.raises(InvalidTopicError):
        await wrong
    assert (await right).first_seq == 1


@world_with(limits=TEN_BYTES)
async def test_nobody_overtakes_those_who_wait(world):
    world.store.may_write.clear()
    world.broker.publish(b"t", [b"x" * 11])
    await settle_down()  # under way
    order = []
    world.broker.backpressure.call_when_room(lambda: order.append("first"))
    _, under_way = world.broker._engine.journal.committer.begun
    under_way.add_listener(lambda: order.append(f"later must wait: {world.broker.backpressure.must_wait}"))
    world.store.may_write.set()
    await settle_down()
    assert order == ["later must wait: True", "first"]
    assert not world.broker.backpressure.must_wait


@world_with(limits=TEN_BYTES)
async def test_a_waiter_may_give_up(world):
    world.store.may_write.clear()
    world.broker.publish(b"t", [b"x" * 11])
    done = []
    first, second = [
        asyncio.create_task(world.broker.backpressure.admit(partial(done.append, number))) for number in (1, 2)
    ]
    await settle_down()
    first.cancel()
    world.store.may_write.set()
    await settle_down()
    assert (first.cancelled(), second.done(), done) == (True, True, [2])


@world_with(limits=TEN_BYTES)
async def test_a_bug_in_what_waited_for_room_is_told_to_who_waits_and_keeps_nobody_else_waiting(world):
    world.store.may_write.clear()
    world.broker.publish(b"t", [b"x" * 11])
    done = []
    broken = asyncio.create_task(world.broker.backpressure.admit(partial(done.pop, 0)))
    world.broker.backpressure.call_when_room(lambda: done[0])
    last = asyncio.create_task(world.broker.backpressure.admit(partial(done.append, "last")))
    await settle_down()
    world.store.may_write.set()
    with pytest.raises(IndexError):
        await broken
    await last
    assert done == ["last"]
