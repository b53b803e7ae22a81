"""Before a stop: nothing comes in or goes out, and what consumers hold they may still settle."""

import pytest

from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.core.settings.fields import Side
from miniqueue.errors import DrainingError, OutcomeUnknownError
from tests.fakes import settle_down


def stats(world):
    return world.broker.stats()[b"t"]


async def test_what_is_held_is_settled_and_nothing_follows(world):
    await world.publish(b"t", b"a", b"b", b"c")
    one, two = await world.holding(b"t"), await world.holding(b"t")
    world.broker.admin.rest()
    assert world.broker.admin.leased_count == 2
    one.consumer.ack()
    one.consumer.refill()
    two.consumer.nack()
    await settle_down()
    assert one.leases[1:] == []
    assert world.broker.admin.leased_count == 0
    assert (stats(world).ready, stats(world).acknowledged) == (2, 1)
    with pytest.raises(DrainingError):
        await world.publish(b"t", b"d")
    with pytest.raises(DrainingError):
        world.broker.leases.receive(b"t", ReceiveOptions(), one.leases.append, one.leases.append)
    one.consumer.close()
    two.consumer.close()
    await world.restart()
    assert await world.drain(b"t") == [b"b", b"c"]


async def test_receipts_are_good_until_the_broker_stops(world):
    await world.publish(b"t", b"a", b"b")
    got = []
    world.broker.leases.receive(b"t", ReceiveOptions(max_count=2), got.append, got.append)
    first = got[0].leases[0][1].receipt
    receipts = [got[0].prefix + b"%d" % (first + n) for n in range(2)]
    world.broker.admin.rest()
    assert world.broker.refusal is DrainingError
    assert world.broker.leases.ack(b"t", receipts[:1]) == [True]
    await world.broker.stop()
    with pytest.raises(DrainingError):
        world.broker.leases.ack(b"t", receipts[1:])
    await world.start()
    assert await world.drain(b"t") == [b"b"]


async def test_a_disk_that_fills_and_empties_meanwhile_changes_nothing(world):
    await world.publish(b"t", b"a")
    held = await world.holding(b"t")
    world.broker.admin.rest()
    world.broker._engine.journal.admission.set_full(True)
    assert world.broker.refusal is DrainingError
    world.broker._engine.journal.admission.set_full(False)
    assert world.broker.refusal is DrainingError
    held.consumer.ack()


async def test_a_store_that_fails_meanwhile_takes_no_settle_until_it_is_open(world):
    await world.publish(b"t", b"a", b"b")
    held = await world.holding(b"t")
    world.broker.admin.rest()
    world.store.fail_writes = {world.store.write_count + 1}
    held.consumer.ack()
    with pytest.raises(OutcomeUnknownError):
        await world.commit()
    await settle_down()
    assert world.broker.refusal is DrainingError
    assert world.broker.admin.leased_count == 0


async def test_a_store_that_is_reopened_meanwhile_has_nothing_handed_out(world):
    await world.publish(b"t", b"a", b"b")
    held, waits = await world.holding(b"t"), world.consumer(b"t")
    waits.consumer.request()
    world.broker.admin.rest()
    world.store.fail_writes = {world.store.write_count + 1}
    held.consumer.ack()
    with pytest.raises(OutcomeUnknownError):
        await world.commit()
    await settle_down()
    held.consumer.request()
    world.broker.tick()
    await settle_down()
    assert len(held.leases) + len(waits.leases) == 2  # from before
    held.consumer.close()
    waits.consumer.close()
    await world.restart()
    assert await world.drain(b"t") == [b"a", b"b"]


@pytest.mark.parametrize("is_over", [False, True])
async def test_the_end_of_a_pause_changes_nothing(is_over, world):
    await world.publish(b"t", b"a", b"b")
    world.broker.admin.pause(b"t", Side.OUT, 5.0)
    waits = world.consumer(b"t")
    waits.consumer.request()
    world.broker.admin.rest()
    if is_over:
        world.clock.advance(6)
        world.broker.tick()
    else:
        world.broker.admin.resume(b"t")
    await settle_down()
    assert waits.leases == []


async def test_a_topic_that_is_made_meanwhile_hands_nothing_out(world):
    await world.publish(b"t", b"a")
    world.broker.admin.replace(b"t", {"max_deliveries": 1})
    held, waits = await world.holding(b"t"), world.consumer(b"t.dlq")
    waits.consumer.request()
    world.broker.admin.rest()
    held.consumer.nack()
    await world.commit()
    await settle_down()
    assert world.broker.stats()[b"t.dlq"].ready == 1
    assert waits.leases == []


async def test_who_stops_may_not_rest(world):
    await world.broker.stop()
    world.broker.admin.rest()
    with pytest.raises(DrainingError):
        world.broker.leases.ack(b"t", [b"1"])
    await world.start()
