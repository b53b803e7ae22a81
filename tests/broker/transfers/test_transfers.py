"""Messages that move to a topic of another shard: each is in one place, in order, whatever fails on the way."""

from random import Random

import pytest

from miniqueue.broker.outbox import outbox
from miniqueue.core.message import attributes
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.core.settings.fields import Side
from miniqueue.errors import LimitReachedError
from miniqueue.storage.format.keys import Space
from miniqueue.tools.audit.store import Audit
from tests.broker.support import World
from tests.broker.transfers.shards import HERE, THERE, Shards
from tests.fakes import settle_down

LOST = {"dead_letter_topic": THERE.decode()}
DEAD = THERE + b".dlq"


async def reject_all(world: World, topic: bytes, count: int = 1000) -> int:
    """Reject the messages of a topic; return how many were received."""
    received = []
    world.broker.leases.receive(topic, ReceiveOptions(max_count=count), received.append, received.append)
    await settle_down()
    if not received[0].leases:
        return 0
    receipts = [
        received[0].prefix + b"%d" % (lease.receipt + n) for _, lease in received[0].leases for n in range(lease.count)
    ]
    world.broker.leases.reject(topic, receipts, b"broken")
    return len(receipts)


async def having_letters(shards: Shards, *payloads: bytes, **settings: object) -> None:
    """Make dead letters of a topic of the first shard, for a topic of the second; they are in the outbox."""
    here = shards.both[0]
    await here.broker.admin.create(HERE, {**LOST, **settings}).wait()
    await here.publish(HERE, *payloads)
    await reject_all(here, HERE)
    await here.commit()


def assert_sound(shards: Shards) -> None:
    for shard in shards.both:
        audit = Audit()
        for key, value in sorted(shard.store.pairs().items()):
            audit.take(key, value)
        audit.finish()
        assert [str(problem) for problem in audit.problems.kept] == []


async def test_dead_letters_reach_a_topic_of_another_shard_in_order_with_their_origin():
    async with Shards() as shards:
        here, there = shards.both
        await having_letters(shards, b"a", b"b", b"c")
        assert len(here.broker.outbox) == 3
        assert here.broker.stats()[HERE].ready == 0
        await shards.carry_all()
        assert len(here.broker.outbox) == 0
        assert here.stored(Space.OUTBOX) == []
        consumer = there.consumer(THERE)
        assert await consumer.drain_all() == [b"a", b"b", b"c"]
        origin = attributes.decode(consumer.leases[0].attributes[0]).origin
        assert (origin.topic, origin.seq, origin.reason) == (HERE, 0, b"broken")
        assert_sound(shards)


async def test_a_transfer_is_sent_only_once_its_commit_is_durable():
    async with Shards() as shards:
        here = shards.both[0]
        await here.broker.admin.create(HERE, LOST).wait()
        await here.publish(HERE, b"a")
        here.store.may_write.clear()
        await reject_all(here, HERE)
        assert here.broker.outbox.parcel(1).transfers == []
        here.store.may_write.set()
        await here.commit()
        assert len(here.broker.outbox.parcel(1).transfers) == 1


async def test_a_fault_of_the_store_leaves_the_message_in_its_topic():
    async with Shards() as shards:
        here = shards.both[0]
        await here.broker.admin.create(HERE, LOST).wait()
        await here.publish(HERE, b"a")
        here.store.fail_writes.add(here.store.write_count + 1)
        await reject_all(here, HERE)
        with pytest.raises(Exception, match="may or may not"):
            await here.commit()
        await here.restart()
        assert len(here.broker.outbox) == 0
        assert await here.drain(HERE) == [b"a"]


async def test_what_is_sent_again_is_added_once():
    async with Shards() as shards:
        here, there = shards.both
        await having_letters(shards, b"a", b"b")
        parcel = here.broker.outbox.parcel(1)
        for _ in range(2):
            taken = await there.broker.inbox.take(0, parcel)
            assert taken.arrived == [number for number, _ in parcel.transfers]
        await there.crash()
        assert (await there.broker.inbox.take(0, parcel)).arrived == taken.arrived
        assert await there.drain(THERE) == [b"a", b"b"]


async def test_what_a_topic_refuses_waits_and_does_not_hold_up_others():
    async with Shards() as shards:
        here, there = shards.both
        other = THERE + b".dlq"  # in the same shard
        await there.broker.admin.create(THERE, {"max_messages": 1}).wait()
        await having_letters(shards, b"a", b"b", b"c")
        await here.broker.admin.change(HERE, {"dead_letter_topic": other.decode()}).wait()
        await here.publish(HERE, b"d")
        await reject_all(here, HERE)
        await shards.carry_all()
        assert len(here.broker.outbox) == here.broker.outbox.waiting_for(THERE) == 2
        assert await there.drain(other) == [b"d"]
        await there.crash()
        await here.crash()
        assert len(here.broker.outbox) == 2
        found = await there.drain(THERE)
        await shards.carry_all()
        found += await there.drain(THERE)
        await shards.carry_all()
        assert found + await there.drain(THERE) == [b"a", b"b", b"c"]
        assert_sound(shards)


async def test_a_topic_that_drops_its_oldest_messages_does_so_for_dead_letters():
    async with Shards() as shards:
        there = shards.both[1]
        await there.broker.admin.create(THERE, {"max_messages": 2, "limit_policy": "drop-oldest"}).wait()
        await having_letters(shards, b"a", b"b", b"c")
        await shards.carry_all()
        assert await there.drain(THERE) == [b"b", b"c"]


async def test_messages_stay_where_they_are_while_the_outbox_is_full(monkeypatch):
    monkeypatch.setattr(outbox, "MAX_COUNT", 8)
    async with Shards() as shards:
        here, there = shards.both
        await here.broker.admin.create(HERE, LOST).wait()
        await here.publish_each(HERE, b"a", b"b", b"c")
        await reject_all(here, HERE)
        assert len(here.broker.outbox) == 2  # a quarter, for one topic
        assert here.broker.stats()[HERE].ready == 1
        await shards.carry_all()
        await reject_all(here, HERE)
        await shards.carry_all()
        assert sorted(await there.drain(THERE)) == [b"a", b"b", b"c"]


async def test_a_redrive_to_another_shard_takes_what_the_outbox_has_room_for(monkeypatch):
    monkeypatch.setattr(outbox, "MAX_COUNT", 12)
    async with Shards() as shards:
        here, there = shards.both
        await here.publish(HERE, b"a", b"b", b"c", b"d", b"e")
        report = await here.broker.redrive_report(HERE, target=THERE)
        assert (report.moved, report.remaining) == (3, 2)
        assert isinstance(report.error, LimitReachedError)
        await shards.carry_all()
        assert await here.broker.redrive(HERE, target=THERE) == 2
        await shards.carry_all()
        assert await there.drain(THERE) == [b"a", b"b", b"c", b"d", b"e"]


async def test_dead_letters_go_home_to_another_shard_without_their_origin():
    async with Shards() as shards:
        here, there = shards.both
        await having_letters(shards, b"a", b"b")
        await shards.carry_all()
        assert await there.broker.redrive(THERE) == 2
        await shards.carry_all()
        consumer = here.consumer(HERE)
        assert await consumer.drain_all() == [b"a", b"b"]
        assert all(attributes.decode((lease.attributes or [b""])[0]).origin is None for lease in consumer.leases)


async def test_a_dead_letter_whose_group_is_gone_returns_to_its_dead_letter_topic():
    async with Shards() as shards:
        here, there = shards.both
        await having_letters(shards, b"a")
        await shards.carry_all()
        await here.broker.delete_topic(HERE)
        await here.broker.admin.create(HERE, {}).wait()
        await here.broker.groups.create(HERE, b"other")
        await here.broker.groups.delete(HERE, b"default")
        assert await there.broker.redrive(THERE) == 1
        await shards.carry_all()
        assert here.broker.stats()[HERE].ready == 0
        consumer = there.consumer(THERE)
        assert await consumer.drain_all() == [b"a"]
        assert attributes.decode(consumer.leases[0].attributes[0]).origin.topic == HERE


async def test_a_redrive_waits_in_the_outbox_while_publishes_to_its_target_are_paused():
    async with Shards() as shards:
        here, there = shards.both
        await there.broker.admin.create(THERE, {}).wait()
        await there.broker.admin.pause(THERE, Side.IN).wait()
        await here.publish(HERE, b"a")
        assert await here.broker.redrive(HERE, target=THERE) == 1
        await shards.carry_all()
        assert len(here.broker.outbox) == 1
        await there.broker.admin.resume(THERE).wait()
        await shards.carry_all()
        assert await there.drain(THERE) == [b"a"]


async def test_numbers_are_not_used_again_after_all_have_arrived_and_the_clock_was_set_back():
    async with Shards() as shards:
        here, there = shards.both
        await having_letters(shards, b"a")
        await shards.carry_all()
        here.clock.advance(-3600)
        await here.restart()
        await here.publish(HERE, b"b")
        await reject_all(here, HERE)
        await shards.carry_all()
        assert await there.drain(THERE) == [b"a", b"b"]


async def test_messages_that_leave_a_store_that_was_restored_from_a_backup_arrive():
    async with Shards() as shards:
        here, there = shards.both
        await here.broker.admin.create(HERE, LOST).wait()
        await here.publish(HERE, b"a")
        backup = await here.store.as_of(len(here.store.batches))
        await reject_all(here, HERE)
        await shards.carry_all()
        await here.broker.stop()
        here.store = backup
        here.clock.advance(1)
        await here.start()
        await here.publish(HERE, b"b")
        await reject_all(here, HERE)
        await shards.carry_all()
        assert await there.drain(THERE) == [b"a", b"a", b"b"]  # `a` had left since; nothing is lost


@pytest.mark.parametrize("seed", range(30))
async def test_each_message_is_in_one_place_and_in_order_however_it_is_carried_and_whoever_crashes(seed):
    chance = Random(seed)
    async with Shards() as shards:
        here, there = shards.both
        settings = {"max_messages": 6, "max_deliveries": 1}
        await there.broker.admin.create(THERE, settings if chance.random() < 0.5 else {}).wait()
        await here.broker.admin.create(HERE, LOST).wait()
        published, found = [], []
        for number in range(40):
            here.clock.advance(0.01)
            match chance.randrange(4):
                case 0:
                    payload = b"%d" % number
                    await here.publish(HERE, payload)
                    published.append(payload)
                case 1:
                    await reject_all(here, HERE, chance.randint(1, 5))
                    if chance.random() < 0.7:
                        await here.commit()
                case 2:
                    await shards.carry_badly(chance)
                case 3 if chance.random() < 0.3:
                    found += await there.drain(THERE)
                    await there.commit()
        for store in (here.store, there.store):
            store.fail_writes.clear()
        while await reject_all(here, HERE):
            await here.commit()
        for _ in range(20):
            await shards.carry_all()
            found += await there.drain(THERE)
            await there.commit()
        assert found == published
        assert len(here.broker.outbox) == 0
        assert_sound(shards)
