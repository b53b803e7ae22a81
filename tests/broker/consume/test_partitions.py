"""Topics of several partitions: where messages go, that they come out again, and that order holds by key."""

import pytest

from miniqueue.core.message.ids import following_ids, parse_message_id
from miniqueue.core.message.lanes import Priority
from miniqueue.core.message.partitioning import partition_for
from miniqueue.core.options.batch import BatchOptions
from miniqueue.core.options.publish import PublishOptions
from miniqueue.errors.requests import InvalidSettingError
from tests.broker.support import World
from tests.fakes import settle_down

KEYS = [b"key-%d" % number for number in range(20)]


async def create(world: World, partitions: int, **settings: object) -> None:
    await world.broker.admin.create(b"t", {"partitions": partitions, **settings}).wait()


async def publish(world: World, key: bytes, payload: bytes, **options: object) -> bytes:
    accepted = world.broker.publish_with(b"t", payload, PublishOptions(key=key, **options))
    await world.commit()
    return accepted.message_id


def partitions_of(world: World) -> list[int]:
    return sorted(world.broker._engine.topics.by_name[b"t"].partitions)


async def test_a_key_chooses_the_partition_and_the_id_shows_it(world):
    await create(world, 8)
    for key in KEYS:
        partition, _ = parse_message_id(await publish(world, key, b"x"))
        assert partition == partition_for(key, 8)


async def test_messages_without_a_key_go_to_the_next_partition_with_every_commit(world):
    await create(world, 3)
    numbers = []
    for _ in range(6):
        published = world.broker.publish(b"t", [b"x", b"y"])
        numbers.append(published.partition)
        await published.commit.wait()
    assert numbers == [0, 1, 2, 0, 1, 2]
    assert sorted(await world.drain(b"t")) == [b"x"] * 6 + [b"y"] * 6


async def test_all_that_one_commit_takes_without_a_key_is_in_one_partition(world):
    await create(world, 4)
    published = [world.broker.publish(b"t", [b"%d" % number]) for number in range(10)]
    await world.commit()
    assert len({one.partition for one in published}) == 1


async def test_consumers_get_messages_of_all_partitions_in_turns(world):
    await create(world, 4)
    for number in range(4):
        await world.publish(b"t", *[b"%d" % number] * 3)
    assert (await world.drain(b"t"))[:4] == [b"0", b"1", b"2", b"3"]


async def test_what_comes_back_stays_in_its_partition(world):
    await create(world, 2)
    await world.publish_each(b"t", b"a", b"b", b"c", b"d")
    holder = await world.holding(b"t")
    assert holder.payloads == [b"a"]
    holder.consumer.nack()
    holder.consumer.close()
    assert sorted(await world.drain(b"t")) == [b"a", b"b", b"c", b"d"]


async def test_the_order_of_a_key_holds(world):
    await create(world, 8)
    for number in range(200):
        await publish(world, KEYS[number % len(KEYS)], b"%b %d" % (KEYS[number % len(KEYS)], number))
    by_key: dict[bytes, list[int]] = {}
    for payload in await world.drain(b"t"):
        key, number = payload.split()
        by_key.setdefault(key, []).append(int(number))
    assert len(by_key) == len(KEYS)
    assert all(numbers == sorted(numbers) for numbers in by_key.values())


async def test_partitions_are_there_after_a_restart(world):
    await create(world, 5)
    ids = [await publish(world, key, b"%b" % key) for key in KEYS]
    await world.restart()
    assert partitions_of(world) == [0, 1, 2, 3, 4]
    assert world.broker.admin.settings_of(b"t").partitions == 5
    again = await publish(world, KEYS[0], b"again")
    assert parse_message_id(again)[0] == parse_message_id(ids[0])[0]
    assert sorted(await world.drain(b"t")) == sorted([*KEYS, b"again"])


async def test_partitions_are_added_but_never_removed(world):
    await create(world, 2)
    await world.publish_each(b"t", b"a", b"b")
    await world.broker.admin.change(b"t", {"partitions": 4}).wait()
    assert partitions_of(world) == [0, 1, 2, 3]
    await world.publish_each(b"t", b"c", b"d", b"e", b"f")
    for fewer in (3, 1, None):
        with pytest.raises(InvalidSettingError, match="at least the 4 that there are"):
            world.broker.admin.change(b"t", {"partitions": fewer})
    commit, is_new = world.broker.admin.replace(b"t", {"lease_seconds": 5})
    await commit.wait()
    assert not is_new
    assert partitions_of(world) == [0, 1, 2, 3]
    await world.restart()
    assert world.broker.admin.settings_of(b"t").partitions == 4
    assert sorted(await world.drain(b"t")) == [b"a", b"b", b"c", b"d", b"e", b"f"]


async def test_a_topic_that_was_deleted_has_one_partition_again(world):
    await create(world, 3)
    await world.broker.delete_topic(b"t")
    await world.publish_each(b"t", b"a", b"b")
    assert partitions_of(world) == [0]
    await world.restart()
    assert partitions_of(world) == [0]
    assert await world.drain(b"t") == [b"a", b"b"]


async def test_a_delayed_message_goes_to_the_partition_of_its_key_when_it_is_due(world):
    await create(world, 2)
    for key in KEYS:
        await publish(world, key, key, delay_seconds=10)
    await world.broker.admin.change(b"t", {"partitions": 8}).wait()
    world.clock.advance(11)
    world.broker.tick()
    await settle_down()
    await world.commit()
    for number, partition in world.broker._engine.topics.by_name[b"t"].partitions.items():
        assert partition.next_seq == sum(partition_for(key, 8) == number for key in KEYS)
    assert sorted(await world.drain(b"t")) == sorted(KEYS)


async def test_a_priority_is_for_the_whole_topic(world):
    await create(world, 4)
    for key in KEYS:
        await publish(world, key, b"normal")
    ids = [await publish(world, key, b"high", priority=Priority.HIGH) for key in KEYS[:3]]
    assert ids[0] == b"%d.high-0" % partition_for(KEYS[0], 4)
    assert (await world.drain(b"t"))[:3] == [b"high"] * 3


async def test_dead_letters_keep_their_keys_and_come_back_to_their_partitions(world):
    await create(world, 4, max_deliveries=1)
    await world.broker.admin.create(b"t.dlq", {"partitions": 3}).wait()
    for key in KEYS:
        await publish(world, key, key)
    consumer = world.consumer(b"t")
    consumer.consumer.request()
    for _ in KEYS:
        await settle_down()
        consumer.consumer.nack()
        consumer.consumer.refill()
    consumer.consumer.close()
    await world.commit()
    dead = world.broker._engine.topics.by_name[b"t.dlq"].partitions
    assert [dead[number].next_seq for number in range(3)] == [
        sum(partition_for(key, 3) == number for key in KEYS) for number in range(3)
    ]
    assert await world.broker.redrive(b"t.dlq") == len(KEYS)
    assert sorted(await world.drain(b"t")) == sorted(KEYS)


@pytest.mark.parametrize("is_applied", [False, True])
async def test_a_fault_of_the_store_leaves_partitions_as_the_store_has_them(is_applied, world):
    await create(world, 3)
    await world.publish_each(b"t", b"a", b"b", b"c")
    world.store.fail_writes.add(world.store.write_count + 1)
    world.store.applies_failed = is_applied
    commit = world.broker.admin.change(b"t", {"partitions": 6})
    with pytest.raises(Exception, match="may or may not"):
        await commit.wait()
    await settle_down()
    count = world.broker.admin.settings_of(b"t").partitions
    assert len(partitions_of(world)) == count == (6 if is_applied else 3)
    assert sorted(await world.drain(b"t")) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_batch_is_split_by_key_in_one_commit_and_its_ids_are_those_of_the_messages(is_restarted, world):
    await create(world, 4)
    each = BatchOptions(KEYS)
    writes = world.store.write_count
    accepted = world.broker.publish_batch(b"t", list(KEYS), b"once", each)
    await accepted.commit.wait()
    assert world.store.write_count == writes + 1
    if is_restarted:
        await world.restart()
    ids = following_ids(accepted.message_id, accepted.message_count)
    assert [parse_message_id(one)[0] for one in ids] == [partition_for(key, 4) for key in KEYS]
    again = world.broker.publish_batch(b"t", [b"other"], b"once")
    assert again.is_duplicate
    assert following_ids(again.message_id, again.message_count) == ids
    single = world.broker.publish_with(b"t", b"other", PublishOptions(dedup_id=b"once"))
    assert single.message_id == ids[0]
