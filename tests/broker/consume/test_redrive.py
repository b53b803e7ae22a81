"""Dead letters go back to where they came from: exactly once, as many and as fast as was said."""

import asyncio

import pytest

from miniqueue.broker.consume import redrive
from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.core.message import attributes
from miniqueue.core.message.attributes import Attributes
from miniqueue.core.message.message import Counts
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.options.start import Edge
from miniqueue.core.settings.fields import Side
from miniqueue.errors import OutcomeUnknownError, RequestError, TopicFullError
from miniqueue.errors.requests import PausedError, UnknownTopicError
from tests.broker.dead_letters.test_dead_letters import assert_sound
from tests.broker.support import started_world, world_with
from tests.fakes import broker_on, settle_down

DEAD = b"dead"


async def die(world, topic: bytes, *payloads: bytes, given: Attributes | None = None) -> None:
    """Publish messages that become dead letters at once."""
    world.broker.admin.replace(topic, {"max_deliveries": 1, "dead_letter_topic": "dead"})
    extras = None if given is None else [given.encode()] * len(payloads)
    await world.broker.publish(topic, list(payloads), extras).commit.wait()
    consumer = world.consumer(topic)
    for _ in payloads:
        consumer.consumer.request()
        await settle_down()
        consumer.consumer.nack()
    consumer.consumer.close()
    await world.broker.admin.replace(topic, {})[0].wait()


def ready(world) -> dict[bytes, int]:
    return {name: topic.ready for name, topic in world.broker.stats().items()}


async def test_every_dead_letter_goes_to_the_topic_it_came_from_with_what_it_had(world):
    given = Attributes(headers=((b"trace", b"7f"),), key=b"ada")
    await die(world, b"t", b"a", b"b", given=given)
    await die(world, b"u", b"c")
    assert await world.broker.redrive(DEAD) == 3
    assert ready(world) == {DEAD: 0, b"t": 2, b"u": 1}
    assert world.broker.stats()[DEAD].moved == 3
    assert_sound(world.store)
    held = await world.holding(b"t")
    assert held.payloads == [b"a"]
    assert attributes.decode(held.leases[0].attributes[0]) == given
    assert await world.drain(b"u") == [b"c"]


async def test_a_message_is_in_exactly_one_topic_after_every_crash(monkeypatch):
    monkeypatch.setattr(redrive, "MAX_PAGE_MESSAGES", 2)

    async with started_world() as world:
        await die(world, b"t", b"a", b"b", b"c", b"d", b"e")
        begun = len(world.store.batches)
        assert await world.broker.redrive(DEAD) == 5
        assert len(world.store.batches) == begun + 3
        for batch_count in range(begun, begun + 4):
            broker = broker_on(await world.store.as_of(batch_count), world.clock)
            await broker.start()
            stats = broker.stats()
            moved_count = min(5, 2 * (batch_count - begun))
            assert (stats[DEAD].ready, stats[b"t"].ready) == (5 - moved_count, moved_count)
            await broker.stop()


async def test_no_more_than_the_limit_are_moved_and_the_others_keep_their_order(world):
    await die(world, b"t", b"a", b"b", b"c")
    assert await world.broker.redrive(DEAD, limit=2) == 2
    assert await world.drain(b"t") == [b"a", b"b"]
    held = await world.holding(DEAD)
    assert (held.payloads, sum(held.leases[0].counts)) == ([b"c"], 0)


async def test_no_more_in_a_second_than_the_rate(monkeypatch, world):
    await die(world, b"t", *[b"%d" % n for n in range(5)])
    naps = []

    async def sleep(seconds: float) -> None:
        naps.append((seconds, ready(world)[b"t"]))

    monkeypatch.setattr("miniqueue.broker.consume.redrive.sleep", sleep)
    assert await world.broker.redrive(DEAD, per_second=2.0) == 5
    assert naps == [(1.0, 2), (1.0, 4)]


async def test_nothing_more_is_moved_when_nobody_waits_for_it(monkeypatch, world):
    await die(world, b"t", *[b"%d" % n for n in range(5)])

    async def sleep(seconds: float) -> None:
        pass

    monkeypatch.setattr("miniqueue.broker.consume.redrive.sleep", sleep)
    answers = iter([True, False])
    assert await world.broker.redrive(DEAD, per_second=2.0, is_wanted=lambda: next(answers)) == 4
    assert ready(world) == {DEAD: 1, b"t": 4}


async def test_a_topic_that_hands_nothing_out_is_not_redriven(monkeypatch, world):
    await die(world, b"t", b"a", b"b", b"c")
    await world.broker.admin.pause(DEAD, Side.OUT).wait()
    with pytest.raises(PausedError):
        await world.broker.redrive(DEAD)
    await world.broker.admin.resume(DEAD).wait()

    async def sleep(seconds: float) -> None:
        world.broker.admin.pause(DEAD, Side.OUT)

    monkeypatch.setattr("miniqueue.broker.consume.redrive.sleep", sleep)
    with pytest.raises(PausedError):
        await world.broker.redrive(DEAD, per_second=2.0)
    assert ready(world) == {DEAD: 1, b"t": 2}


async def test_after_a_restart_what_is_not_in_memory_is_moved_too(world):
    await die(world, b"t", b"a", b"b")
    await world.restart()
    assert await world.broker.redrive(DEAD) == 2
    assert await world.drain(b"t") == [b"a", b"b"]


async def test_a_topic_that_is_gone_is_made_again(world):
    await die(world, b"t", b"a")
    await world.broker.delete_topic(b"t")
    assert await world.broker.redrive(DEAD) == 1
    assert await world.drain(b"t") == [b"a"]


async def test_what_has_no_origin_goes_to_the_back(world):
    await world.publish(DEAD, b"stranger")
    await die(world, b"t", b"a")
    assert await world.broker.redrive(DEAD) == 1
    assert await world.broker.redrive(DEAD) == 0
    held = await world.holding(DEAD)
    assert (held.payloads, held.leases[0].counts.backs) == ([b"stranger"], 2)


async def test_there_is_nothing_to_move_in_a_topic_that_does_not_exist(world):
    with pytest.raises(UnknownTopicError):
        await world.broker.redrive(DEAD)
    assert world.broker.stats() == {}


@world_with(limits=BrokerLimits(max_topic_messages=1))
async def test_a_topic_that_takes_none_stops_it_and_nothing_is_lost(world):
    await die(world, b"t", b"a")
    await world.publish(b"t", b"full")
    with pytest.raises(TopicFullError):
        await world.broker.redrive(DEAD)
    assert ready(world) == {DEAD: 1, b"t": 1}
    await world.drain(b"t")
    world.broker.admin.pause(b"t", Side.IN)
    with pytest.raises(PausedError):
        await world.broker.redrive(DEAD)
    assert ready(world) == {DEAD: 1, b"t": 0}


@world_with(limits=BrokerLimits(max_topic_messages=3))
async def test_what_finds_no_room_stays_where_it_was_and_counts_no_return(world):
    await die(world, b"t", b"a", b"b", b"c")
    await world.publish(b"t", b"1", b"2")
    with pytest.raises(TopicFullError):
        await world.broker.redrive(DEAD)
    await world.publish(b"u", b"with the next commit")
    assert ready(world) == {DEAD: 2, b"t": 3, b"u": 1}
    assert_sound(world.store)
    held = await world.holding(DEAD)
    assert held.payloads == [b"b"]
    assert held.leases[0].counts == Counts()


async def test_a_commit_that_fails_moves_nothing(world):
    await die(world, b"t", b"a")
    world.store.fail_writes = {world.store.write_count + 1}
    with pytest.raises(OutcomeUnknownError):
        await world.broker.redrive(DEAD)
    await settle_down()
    assert ready(world) == {DEAD: 1, b"t": 0}
    assert await world.broker.redrive(DEAD) == 1


async def test_who_is_cancelled_in_between_loses_nothing(monkeypatch):
    monkeypatch.setattr(redrive, "MAX_PAGE_MESSAGES", 1)

    async with started_world() as world:
        await die(world, b"t", b"a", b"b")
        world.store.may_write.clear()
        task = asyncio.get_running_loop().create_task(world.broker.redrive(DEAD))
        await settle_down()
        task.cancel()
        world.store.may_write.set()
        await settle_down()
        assert ready(world) == {DEAD: 1, b"t": 1}


async def test_a_topic_made_under_the_name_of_one_that_is_gone_is_left_alone(monkeypatch, world):
    await die(world, b"t", b"a", b"b")

    async def sleep(seconds: float) -> None:
        await world.broker.delete_topic(DEAD)
        await world.publish(DEAD, b"another")

    monkeypatch.setattr("miniqueue.broker.consume.redrive.sleep", sleep)
    assert await world.broker.redrive(DEAD, per_second=1.0) == 1
    assert await world.drain(DEAD) == [b"another"]


async def test_what_has_no_origin_is_no_dead_letter_for_being_looked_at(world):
    await world.publish(b"t", b"stranger")
    world.broker.admin.replace(b"t", {"max_deliveries": 1})
    assert await world.broker.redrive(b"t") == 0
    assert ready(world) == {b"t": 1}


async def test_a_topic_with_room_for_some_gets_those_and_the_others_stay(world):
    await die(world, b"t", b"a", b"b", b"c", b"d", b"e")
    world.broker.admin.change(b"t", {"max_messages": 3})
    with pytest.raises(TopicFullError):
        await world.broker.redrive(DEAD)
    await world.commit()
    assert ready(world) == {DEAD: 2, b"t": 3}
    assert_sound(world.store)
    assert await world.drain(b"t") == [b"a", b"b", b"c"]
    assert await world.broker.redrive(DEAD) == 2


async def test_a_topic_with_room_for_payloads_but_not_for_their_headers_gets_fewer(world):
    await die(world, b"t", b"a", b"b", b"c", given=Attributes(headers=((b"trace", b"7f"),)))
    world.broker.admin.change(b"t", {"max_bytes": 20})
    with pytest.raises(TopicFullError):
        await world.broker.redrive(DEAD)
    await world.commit()
    assert ready(world) == {DEAD: 2, b"t": 1}


async def test_what_was_rejected_a_moment_ago_is_moved_too(world):
    await world.publish(b"t", b"a")
    got = []
    world.broker.leases.receive(b"t", ReceiveOptions(), got.append, got.append)
    receipt = got[0].prefix + b"%d" % got[0].leases[0][1].receipt
    assert world.broker.leases.reject(b"t", [receipt], b"broken") == [True]
    assert await world.broker.redrive(b"t.dlq") == 1


async def test_a_topic_deleted_while_its_messages_are_read_has_none_to_move(world):
    await die(world, b"t", b"a", b"b")
    await world.restart()
    task = asyncio.create_task(world.broker.redrive(DEAD))
    for _ in range(200):
        if world.broker.stats()[DEAD].leased:
            break
        await asyncio.sleep(0)
    deleting = world.broker.delete_topic(DEAD)
    assert await task == 0
    assert await deleting
    assert ready(world) == {b"t": 0}


async def test_all_go_to_the_target_that_is_named_wherever_they_came_from(world):
    given = Attributes(key=b"ada")
    await die(world, b"t", b"a", given=given)
    await die(world, b"u", b"b")
    await world.publish(DEAD, b"no dead letter")
    assert await world.broker.redrive(DEAD, target=b"other") == 3
    assert ready(world) == {DEAD: 0, b"other": 3, b"t": 0, b"u": 0}
    assert_sound(world.store)
    await world.restart()
    held = await world.holding(b"other")
    assert attributes.decode(held.leases[0].attributes[0]) == given
    held.consumer.close()
    assert await world.drain(b"other") == [b"a", b"b", b"no dead letter"]


@pytest.mark.parametrize("target", [DEAD, b"a/b"])
async def test_a_target_must_be_another_topic(target, world):
    await die(world, b"t", b"a")
    with pytest.raises(RequestError):
        await world.broker.redrive(DEAD, target=target)
    assert ready(world) == {DEAD: 1, b"t": 0}


async def test_a_topic_that_drops_what_is_oldest_gets_what_fits_and_keeps_what_it_has(world):
    await die(world, b"t", b"a", b"b", b"c")
    await world.broker.admin.change(b"t", {"max_messages": 3, "limit_policy": "drop-oldest"}).wait()
    await world.publish(b"t", b"1", b"2")
    report = await world.broker.redrive_report(DEAD)
    assert (report.moved, report.remaining, type(report.error)) == (1, 2, TopicFullError)
    await world.publish(b"u", b"with the next commit")
    assert (world.broker.stats()[b"t"].dropped, ready(world)) == (0, {DEAD: 2, b"t": 3, b"u": 1})
    assert await world.drain(b"t") == [b"1", b"2", b"a"]
    assert await world.drain(DEAD) == [b"b", b"c"]


async def test_a_redrive_says_what_was_moved_when_the_store_fails(monkeypatch):
    monkeypatch.setattr(redrive, "MAX_PAGE_MESSAGES", 1)

    async with started_world() as world:
        await die(world, b"t", b"a", b"b")
        world.store.fail_writes = {world.store.write_count + 2}
        report = await world.broker.redrive_report(DEAD)
        assert (report.moved, report.remaining, type(report.error)) == (1, None, OutcomeUnknownError)


async def test_a_dead_letter_behind_many_that_have_expired_is_moved(world):
    settings = {"expired": "dead-letter", "dead_letter_topic": "gone"}
    await world.broker.admin.create(DEAD, settings).wait()
    for number in range(600):
        world.broker.publish_with(DEAD, b"%d" % number, PublishOptions(ttl_seconds=10))
    await world.publish(DEAD, b"live")
    world.clock.advance(20)
    assert await world.broker.redrive(DEAD, target=b"t") == 1
    assert await world.drain(b"t") == [b"live"]


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_what_came_back_with_a_delay_that_is_over_is_moved_and_the_rest_stays(is_restarted, world):
    await world.publish_each(b"t", b"a", b"b", b"c")
    for delay_seconds in (5, 500, 5):
        holder = await world.holding(b"t")
        holder.consumer.dack(delay_seconds)
        holder.consumer.close()
    if is_restarted:
        await world.restart()
    world.clock.advance(60)
    world.broker.tick()
    assert await world.broker.redrive(b"t", limit=1, target=b"u") == 1
    assert await world.broker.redrive(b"t", target=b"u") == 1
    assert await world.drain(b"u") == [b"a", b"c"]
    assert world.broker.stats()[b"t"].delayed == 1


async def test_what_is_moved_is_moved_once_where_the_group_is_moved_meanwhile(world):
    await world.publish_each(b"t", b"a", b"b", b"c")
    await world.restart()
    world.store.may_scan.clear()
    moving = asyncio.create_task(world.broker.redrive(b"t", target=b"u"))
    await settle_down()
    seeking = asyncio.create_task(world.broker.groups.seek(b"t", b"default", Edge.EARLIEST))
    await settle_down()
    world.store.may_scan.set()
    assert await moving == 3
    await seeking
    assert await world.drain(b"u") == [b"a", b"b", b"c"]
    assert await world.drain(b"t") == []
