"""A dead letter goes back to the group that gave it up, and no other group is handed it."""

import pytest

from miniqueue.broker.cleanup import purge
from miniqueue.core.message import attributes
from miniqueue.core.message.partitioning import partition_for
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.core.options.read import ReadOptions
from miniqueue.core.options.start import Edge
from miniqueue.errors.requests import UnknownMessageError
from tests.broker.consume.test_members import Reader, members_of
from tests.broker.dead_letters.test_dead_letters import assert_sound
from tests.broker.groups.test_groups import lag, payloads, receive
from tests.broker.support import World, started_world
from tests.fakes import settle_down

DEAD = b"t.dlq"


async def groups_of_t(world: World, *names: bytes) -> None:
    for name in names:
        await world.broker.groups.create(b"t", name)


async def reject(world: World, group: bytes, count: int = 1) -> None:
    """Dead-letter the next messages of a group."""
    taken = [receipt for receipt, _ in await receive(world, group)]
    assert world.broker.leases.reject(b"t", taken[:count], b"broken") == [True] * count
    for receipt in reversed(taken[count:]):
        world.broker.leases.nack(b"t", [receipt])
    await world.commit()


async def test_only_the_group_that_gave_it_up_gets_it_again(world):
    await groups_of_t(world, b"a", b"b")
    await world.publish(b"t", b"1", b"2")
    await reject(world, b"a")
    assert await payloads(world, b"a") == [b"2"]
    assert await payloads(world, b"b") == [b"1", b"2"]
    assert await world.broker.redrive(DEAD) == 1
    assert await payloads(world, b"b") == []
    assert await payloads(world, b"a") == [b"1"]
    figures = {one.name: (one.lag, one.dropped, one.moved) async for one in world.broker.groups.figures(b"t")}
    assert figures == {b"a": (0, 0, 1), b"b": (0, 0, 0)}
    assert_sound(world.store)


async def test_a_message_that_each_group_gave_up_comes_back_to_each_once(world):
    await groups_of_t(world, b"a", b"default")
    await world.publish(b"t", b"1")
    await reject(world, b"a")
    await reject(world, b"default")
    assert await world.broker.redrive(DEAD) == 2
    await world.restart()
    assert await payloads(world, b"a") == [b"1"]
    assert await payloads(world, b"default") == [b"1"]


async def test_what_died_again_goes_back_to_the_same_group(world):
    await groups_of_t(world, b"a", b"b")
    await world.publish(b"t", b"1")
    for _ in range(2):
        await reject(world, b"a")
        assert await world.broker.redrive(DEAD) == 1
    assert await payloads(world, b"b") == [b"1"]
    assert await payloads(world, b"a") == [b"1"]


async def test_it_stays_a_dead_letter_when_the_group_is_no_more_and_a_target_is_for_all(world):
    await groups_of_t(world, b"a", b"b")
    await world.publish(b"t", b"1")
    await reject(world, b"a")
    await world.broker.groups.delete(b"t", b"a")
    assert await world.broker.redrive(DEAD) == 0
    assert world.broker.stats()[DEAD].ready == 1
    assert await world.broker.redrive(DEAD, target=b"t") == 1
    assert await payloads(world, b"b") == [b"1", b"1"]


async def test_a_topic_that_is_made_anew_has_the_groups_that_they_came_from(world):
    await groups_of_t(world, b"a", b"b")
    await world.publish(b"t", b"1", b"2")
    await reject(world, b"a")
    await reject(world, b"b", 2)
    await world.broker.delete_topic(b"t")
    assert await world.broker.redrive(DEAD) == 3
    assert sorted(world.broker._engine.topics.by_name[b"t"].groups) == [b"a", b"b", b"default"]
    assert [one.name async for one in world.broker.groups.figures(b"t")] == [b"a", b"b"]
    assert await payloads(world, b"a") == [b"1"]
    assert await payloads(world, b"b") == [b"1", b"2"]


async def test_where_one_group_reads_it_is_a_message_like_any_other(world):
    await groups_of_t(world, b"a")
    await world.publish(b"t", b"1")
    await reject(world, b"a")
    assert await world.broker.redrive(DEAD) == 1
    await world.broker.groups.create(b"t", b"late")
    assert await payloads(world, b"late") == [b"1"]


async def test_who_begins_in_front_of_it_passes_it_over(world):
    await world.broker.admin.replace(b"t", {"retention": "forever"})[0].wait()
    await groups_of_t(world, b"a", b"b")
    await world.publish(b"t", b"1")
    await reject(world, b"a")
    assert await world.broker.redrive(DEAD) == 1
    await world.publish(b"t", b"2")
    assert await payloads(world, b"b") == [b"1", b"2"]
    await world.broker.groups.seek(b"t", b"b", Edge.EARLIEST)
    assert await payloads(world, b"b") == [b"1", b"2"]
    await world.broker.groups.create(b"t", b"late")
    assert await payloads(world, b"late") == [b"1", b"2"]
    page = await world.broker.inspect.log.read(b"t", 0, ReadOptions())
    extras = [attributes.only_for(extra) for run in page.runs for extra in run.attributes or [b""] * len(run.payloads)]
    assert extras == [b"", b"a", b""]


async def test_a_tick_passes_it_over_where_nobody_reads(world):
    await groups_of_t(world, b"a", b"idle")
    await world.publish(b"t", b"1")
    await reject(world, b"a")
    assert await payloads(world, b"idle") == [b"1"]
    await world.broker.redrive(DEAD)
    assert await lag(world, b"idle") == 1
    for _ in range(3):
        world.broker.tick()
        await settle_down()
    assert await lag(world, b"idle") == 0
    await world.restart()
    assert (await lag(world, b"idle"), await payloads(world, b"a")) == (0, [b"1"])


async def test_want_of_room_makes_it_no_dead_letter_of_another_group(world):
    await groups_of_t(world, b"a", b"b")
    await world.publish(b"t", b"1")
    await reject(world, b"a")
    assert await payloads(world, b"b") == [b"1"]
    await world.broker.redrive(DEAD)
    assert await payloads(world, b"a") == [b"1"]
    await world.broker.admin.replace(b"t", {"max_messages": 1, "limit_policy": "dead-letter"})[0].wait()
    await world.publish(b"t", b"2")
    assert world.broker.stats()[DEAD].ready == 0
    assert await payloads(world, b"b") == [b"2"]


async def test_members_of_a_group_get_it_by_their_partitions(world):
    await world.broker.admin.create(b"t", {"partitions": 4}).wait()
    await groups_of_t(world, b"a")
    world.broker.publish(b"t", [b"1"], [attributes.Attributes(key=b"k").encode()], partition_for(b"k", 4))
    await world.commit()
    await reject(world, b"a")
    x, y = Reader(world, b"x", group=b"a"), Reader(world, b"y", group=b"a")
    await settle_down()
    assert await world.broker.redrive(DEAD) == 1
    await settle_down()
    owner = next(name for name, numbers in (await members_of(world, b"a")).items() if partition_for(b"k", 4) in numbers)
    assert {b"x": x.payloads, b"y": y.payloads} == {b"x": [], b"y": []} | {owner: [b"1"]}


async def test_a_redrive_makes_no_group_where_others_read_the_dead_letters(world):
    await world.publish(b"t", b"1", b"2", b"3")
    await world.broker.groups.create(DEAD, b"ops")
    await reject(world, b"default", 3)
    answers = []
    world.broker.leases.receive(DEAD, ReceiveOptions(2, group=b"ops"), answers.append, answers.append)
    await settle_down()
    receipts = [
        b"%b%d" % (answers[0].prefix, lease.receipt + n) for _, lease in answers[0].leases for n in range(lease.count)
    ]
    assert world.broker.leases.ack(DEAD, [receipts[1]]) == [True]
    assert await world.broker.redrive(DEAD) == 1
    assert await payloads(world, b"default") == [b"3"]
    assert [one.name async for one in world.broker.groups.figures(DEAD)] == [b"ops"]
    world.broker.leases.nack(DEAD, [receipts[0]])
    assert await world.broker.redrive(DEAD) == 1
    assert await payloads(world, b"default") == [b"1"]
    assert world.broker.stats()[DEAD].ready == 0
    assert_sound(world.store)


async def test_what_is_for_another_group_is_neither_shown_nor_counted_as_purged(world):
    await groups_of_t(world, b"a", b"b")
    await world.publish(b"t", b"1", b"2")
    await reject(world, b"a", 2)
    assert await payloads(world, b"b") == [b"1", b"2"]
    await world.broker.redrive(DEAD)
    await world.publish(b"t", b"3")
    assert [one.stored.payload for one in await world.broker.inspect.peek(b"t", group=b"b")] == [b"3"]
    assert [one.stored.payload for one in await world.broker.inspect.peek(b"t", group=b"a")] == [b"1", b"2", b"3"]
    with pytest.raises(UnknownMessageError):
        await world.broker.inspect.find(b"t", (0, 2), b"b")
    assert await world.broker.purge(b"t", group=b"b") == 1
    assert await world.broker.purge(b"t", group=b"a") == 3
    figures = {one.name: (one.lag, one.dropped) async for one in world.broker.groups.figures(b"t")}
    assert figures == {b"a": (0, 3), b"b": (0, 1)}
    assert_sound(world.store)


async def test_a_purge_goes_on_behind_what_is_all_for_another_group(monkeypatch):
    monkeypatch.setattr(purge, "MAX_RUNS_PER_COMMIT", 1)

    async with started_world() as world:
        await groups_of_t(world, b"a", b"b")
        await world.publish(b"t", b"1", b"2")
        await reject(world, b"a", 2)
        assert await payloads(world, b"b") == [b"1", b"2"]
        await world.broker.redrive(DEAD)
        await world.publish(b"t", b"3")
        assert await world.broker.purge(b"t", group=b"b") == 1
        assert await lag(world, b"b") == 0


async def test_dead_letters_that_another_group_holds_are_redriven(world):
    await world.publish(b"t", b"1", b"2")
    for group in (b"ops", b"default"):
        await world.broker.groups.create(DEAD, group)
    await reject(world, b"default", 2)
    answers = []
    world.broker.leases.receive(DEAD, ReceiveOptions(9, group=b"ops"), answers.append, answers.append)
    await settle_down()
    assert sum(lease.count for _, lease in answers[0].leases) == 2
    assert await world.broker.redrive(DEAD) == 2
    assert await payloads(world, b"default") == [b"1", b"2"]
    assert_sound(world.store)
