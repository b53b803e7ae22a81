"""Acts on one message by its id: delete, to the front, due, redrive; wherever it waits, and what refuses them."""

import asyncio
import contextlib
import random
import tracemalloc

import pytest

from miniqueue.broker.acts.orders import MessageAct, Order
from miniqueue.broker.inspect.peeked import State
from miniqueue.core.message.ids import parse_any_id
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.core.options.filter import Filter
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.settings.fields import Side
from miniqueue.errors import LimitReachedError, MessageStateError, RequestError, TopicFullError
from miniqueue.errors.requests import PausedError, UnknownGroupError, UnknownMessageError, UnknownTopicError
from tests.broker.inspect.test_peek import scatter
from tests.fakes import START_MS, settle_down
from tests.tools.test_audit_of_retention import problems_of

DELETE, FRONT, REDRIVE, DUE = map(Order, (MessageAct.DELETE, MessageAct.FRONT, MessageAct.REDRIVE, MessageAct.DUE))


async def act(world, order, message_id, topic=b"t", group=None):
    return await world.broker.by_id.act(topic, parse_any_id(message_id.encode()), order, group)


async def listed(world, state=State.READY, topic=b"t"):
    return [seen.stored.payload for seen in await world.broker.inspect.peek(topic, state, 1000)]


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("number", [0, 1, 3, 4, 5, 6, 8, 10, 11, 12, 13, 14, 15])
async def test_a_message_is_deleted_wherever_it_waits(number, is_restarted, world):
    await scatter(world)
    if is_restarted:
        await world.restart()
    payload = b"%d" % number
    left = [each for each in await listed(world) + await listed(world, State.DELAYED) if each != payload]
    assert await act(world, DELETE, f"0-{number}") == b"0-%d" % number
    assert await listed(world) + await listed(world, State.DELAYED) == left
    assert (await world.broker.inspect.stats(b"t"))["dropped"] == 1
    with pytest.raises(UnknownMessageError):
        await act(world, DELETE, f"0-{number}")
    await world.restart()
    assert problems_of(world.store._values) == []
    world.clock.advance(100)
    world.broker.tick()
    assert sorted(await world.drain(b"t")) == sorted({*left, b"7"})


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("number", [0, 1, 3, 4, 5, 6, 8, 10, 11, 13, 15])
async def test_a_message_is_moved_to_the_front_and_counts_no_return(number, is_restarted, world):
    holders = await scatter(world)
    holders[7].consumer.ack()
    if is_restarted:
        await world.restart()
    payload = b"%d" % number
    before = await world.broker.inspect.find(b"t", (0, number))
    rest = [each for each in await listed(world) if each != payload]
    await act(world, FRONT, f"0-{number}")
    after = await world.broker.inspect.find(b"t", (0, number))
    assert (after.stored.counts, after.state) == (before.stored.counts, State.READY)
    await world.restart()
    assert await listed(world) == [payload, *rest]
    assert problems_of(world.store._values) == []
    assert await world.drain(b"t") == [payload, *rest]


async def test_the_last_to_be_moved_is_the_first(world):
    await world.publish(b"t", *[b"%d" % n for n in range(5)])
    for number in (3, 1, 4):
        await act(world, FRONT, f"0-{number}")
    assert await world.drain(b"t") == [b"4", b"1", b"3", b"0", b"2"]


async def test_a_waiting_consumer_gets_what_is_moved(world):
    await world.publish(b"t", b"a")
    holder = await world.holding(b"t")
    holder.consumer.dack(60)
    waiting = world.consumer(b"t")
    waiting.consumer.request()
    await settle_down()
    await act(world, FRONT, "0-0")
    assert waiting.payloads == [b"a"]


@pytest.mark.parametrize("order", [DELETE, FRONT])
async def test_a_leased_message_is_left_to_its_consumer(order, world):
    await world.publish(b"t", b"a")
    holder = await world.holding(b"t")
    with pytest.raises(MessageStateError, match="leased"):
        await act(world, order, "0-0")
    holder.consumer.ack()
    with pytest.raises(UnknownMessageError):
        await act(world, order, "0-0")


@pytest.mark.parametrize("iterations", range(20))
async def test_a_chunk_that_is_settled_meanwhile_stays_settled(iterations, world):
    """It was opened again, and remembered as partly settled, until a restart."""
    await world.publish_each(b"t", b"held", b"a", b"b")
    await world.holding(b"t")
    consumer = world.consumer(b"t")
    acting = asyncio.create_task(act(world, FRONT, "0-1"))
    for _ in range(iterations):
        await asyncio.sleep(0)
    consumer.consumer.request()
    assert consumer.payloads == [b"a"]
    consumer.consumer.ack()
    with contextlib.suppress(UnknownMessageError):
        await acting
    consumer.consumer.close()
    assert world.broker._engine.topics.by_name[b"t"].default.cursors[0].settled_bits == {}
    assert await world.drain(b"t") == [b"b"]


async def test_each_group_has_a_message_of_its_own(world):
    await world.publish(b"t", b"a", b"b")
    await world.broker.groups.create(b"t", b"g")
    await act(world, DELETE, "0-0", group=b"g")
    await act(world, FRONT, "0-1")
    assert await listed(world) == [b"b", b"a"]
    assert [seen.stored.seq for seen in await world.broker.inspect.peek(b"t", group=b"g")] == [1]
    await act(world, DELETE, "0-1")
    assert await world.broker.inspect.peek(b"t", group=b"g") == []
    assert await listed(world) == [b"a"]


@pytest.mark.parametrize("iterations", range(8))
async def test_a_message_is_deleted_in_all_groups_while_one_is_deleted(iterations, world):
    await world.publish(b"t", b"a", b"b")
    await world.broker.groups.create(b"t", b"g")
    acting = asyncio.create_task(act(world, DELETE, "0-0"))
    for _ in range(iterations):
        await asyncio.sleep(0)
    await world.broker.groups.delete(b"t", b"g")
    assert await acting == b"0-0"
    assert await world.drain(b"t") == [b"b"]


async def test_a_long_message_that_many_groups_have_is_deleted_in_little_memory(world):
    """All groups were asked first, and each answer had the message; no account paid for them."""
    await world.publish(b"t", b"x" * (1 << 20))
    for number in range(20):
        await world.broker.groups.create(b"t", b"g%d" % number)
    await settle_down()
    tracemalloc.start()
    try:
        await act(world, DELETE, "0-0")
        assert tracemalloc.get_traced_memory()[1] < 15 << 20  # all of them: more than 20 MiB
    finally:
        tracemalloc.stop()
    assert await world.broker.inspect.peek(b"t", group=b"g19") == []


async def test_nothing_is_deleted_in_any_group_while_one_has_leased_it(world):
    await world.publish(b"t", b"a")
    await world.broker.groups.create(b"t", b"g")
    await world.holding(b"t")
    with pytest.raises(MessageStateError):
        await act(world, DELETE, "0-0")
    assert len(await world.broker.inspect.peek(b"t", group=b"g")) == 1


async def test_a_delayed_return_is_due_now_or_later(world):
    await world.publish(b"t", b"a")
    (await world.holding(b"t")).consumer.dack(60)
    later_ms = START_MS + 7_000
    await act(world, Order(MessageAct.DUE, later_ms), "0-0")
    (seen,) = await world.broker.inspect.peek(b"t", State.DELAYED)
    assert (seen.due_at_ms, seen.stored.counts.dacks) == (later_ms, 1)
    await act(world, DUE, "0-0")
    assert await world.drain(b"t") == [b"a"]


async def test_a_delayed_publish_is_due_now_or_later(world):
    options = PublishOptions(delay_seconds=60, unique_key=b"k")
    accepted = await world.broker.publish_unique(b"t", b"a", options)
    await accepted.commit.wait()
    later = await act(world, Order(MessageAct.DUE, START_MS + 7_000), accepted.message_id.decode())
    assert later == b"0-%d-1" % (START_MS + 7_000)
    await world.restart()
    assert (await world.broker.publish_unique(b"t", b"b", options)).message_id == later
    world.clock.advance(6.9)
    world.broker.tick()
    await settle_down()
    assert await listed(world) == []
    await act(world, DUE, later.decode())
    await settle_down()
    assert await world.drain(b"t") == [b"a"]
    assert not (await world.broker.publish_unique(b"t", b"b", options)).is_duplicate
    await world.commit()
    assert problems_of(world.store._values) == []


async def test_a_delayed_publish_can_be_deleted_and_not_be_moved_to_the_front(world):
    message_id = world.broker.publish_with(b"t", b"a", PublishOptions(delay_seconds=60)).message_id.decode()
    with pytest.raises(MessageStateError, match="not published"):
        await act(world, FRONT, message_id)
    await act(world, DELETE, message_id)
    with pytest.raises(UnknownMessageError):
        await act(world, DELETE, message_id)


async def dead(world, *payloads):
    """Publish messages, and have them rejected."""
    await world.publish(b"t", *payloads)
    received = []
    world.broker.leases.receive(b"t", ReceiveOptions(max_count=len(payloads)), received.append, received.append)
    await settle_down()
    receipts = [
        received[0].prefix + b"%d" % receipt
        for _, lease in received[0].leases
        for receipt in range(lease.receipt, lease.receipt + lease.count)
    ]
    world.broker.leases.reject(b"t", receipts, b"broken")
    await world.commit()


async def test_one_dead_letter_is_redriven(world):
    await dead(world, b"a", b"b", b"c")
    await act(world, REDRIVE, "0-1", b"t.dlq")
    assert await listed(world) == [b"b"]
    await act(world, Order(MessageAct.REDRIVE, target=b"other"), "0-2", b"t.dlq")
    await world.restart()
    assert await world.drain(b"other") == [b"c"]
    assert await world.drain(b"t.dlq") == [b"a"]
    assert await world.drain(b"t") == [b"b"]


@pytest.mark.parametrize("iterations", range(20))
async def test_a_dead_letter_that_a_consumer_takes_meanwhile_is_leased_or_was_moved(iterations, world):
    """It used to be said that the group that it came from does not exist."""
    await dead(world, b"a")
    acting = asyncio.create_task(act(world, REDRIVE, "0-0", b"t.dlq"))
    for _ in range(iterations):
        await asyncio.sleep(0)
    consumer = world.consumer(b"t.dlq")
    consumer.consumer.request()
    try:
        await acting
    except MessageStateError as exc:
        assert str(exc).startswith("the message is leased")  # noqa: PT017 - it may be moved before
    consumer.consumer.close()
    assert [*await world.drain(b"t"), *await world.drain(b"t.dlq")] == [b"a"]


async def test_what_cannot_be_redriven_is_refused_and_stays(world):
    await dead(world, b"a", b"b")
    await world.publish(b"t.dlq", b"no dead letter")
    with pytest.raises(MessageStateError, match="no dead letter"):
        await act(world, REDRIVE, "0-2", b"t.dlq")
    with pytest.raises(RequestError):
        await act(world, Order(MessageAct.REDRIVE, target=b"t.dlq"), "0-0", b"t.dlq")
    await world.broker.admin.change(b"t", {"max_messages": 1}).wait()
    await act(world, REDRIVE, "0-0", b"t.dlq")
    with pytest.raises(TopicFullError):
        await act(world, REDRIVE, "0-1", b"t.dlq")
    await world.broker.admin.pause(b"t.dlq", Side.OUT, None).wait()
    with pytest.raises(PausedError):
        await act(world, REDRIVE, "0-1", b"t.dlq")
    assert len(await world.broker.inspect.peek(b"t.dlq")) == 2


async def test_a_dead_letter_whose_group_is_gone_stays(world):
    await world.publish(b"t", b"a")
    await world.broker.groups.create(b"t", b"g")
    received = []
    world.broker.leases.receive(b"t", ReceiveOptions(group=b"g"), received.append, received.append)
    await settle_down()
    world.broker.leases.reject(b"t", [received[0].prefix + b"%d" % received[0].leases[0][1].receipt], b"broken")
    await world.commit()
    await world.broker.groups.delete(b"t", b"g")
    with pytest.raises(MessageStateError, match="group"):
        await act(world, REDRIVE, "0-0", b"t.dlq")
    await act(world, Order(MessageAct.REDRIVE, target=b"t"), "0-0", b"t.dlq")


@pytest.mark.parametrize(
    ("message_id", "order", "error"),
    [("0-9", DELETE, UnknownMessageError), ("5-0", FRONT, UnknownMessageError), ("0-0", DUE, MessageStateError)],
)
async def test_what_there_is_not_is_refused(message_id, order, error, world):
    await world.publish(b"t", b"a")
    with pytest.raises(error):
        await act(world, order, message_id)
    with pytest.raises(UnknownTopicError):
        await act(world, order, message_id, b"other")
    with pytest.raises(UnknownGroupError):
        await act(world, order, message_id, group=b"nothing")


async def test_holes_in_a_log_are_limited(world, monkeypatch):
    monkeypatch.setattr("miniqueue.broker.acts.holes.MAX_HOLES", 2)
    for number in range(7):
        await world.publish(b"t", b"%d" % number, b"")
    for number in (4, 8):
        await act(world, DELETE, f"0-{number}")
    with pytest.raises(LimitReachedError):
        await act(world, DELETE, "0-12")
    assert len(await world.drain(b"t")) == 12


SETTINGS = [
    {},
    {"partitions": 3},
    {"ordered": True},
    {"fair": True},
    {"key_max_concurrency": 1},
    {"retention": "forever"},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("seed", range(3))
async def test_no_message_is_lost_or_doubled_whatever_is_done_to_it(seed, settings, world):
    """Publish, take, settle, delete, move, restart, in any order: what is left is what is delivered in the end."""
    rng, left, holders = random.Random(seed), set(), []
    await world.broker.admin.create(b"t", settings).wait()
    for step in range(150):
        match rng.choice(
            ("publish", "publish", "take", "settle", "act", "act", "act", "restart" if step % 5 == 0 else "act")
        ):
            case "publish":
                payloads = [b"%d-%d" % (step, n) for n in range(rng.choice((1, 1, 2, 9)))]
                keys = [b"" if rng.random() < 0.5 else b"k%d" % rng.randrange(3) for _ in payloads]
                options = [PublishOptions(key=key) for key in keys]
                commits = [
                    world.broker.publish_with(b"t", *each).commit for each in zip(payloads, options, strict=True)
                ]
                left |= set(payloads)
                await commits[-1].wait()
            case "take":
                holder = world.consumer(b"t")
                holder.consumer.request()
                await settle_down()
                holders.append(holder) if holder.leases else holder.consumer.close()
            case "settle" if holders:
                holder = holders.pop(rng.randrange(len(holders)))
                way = rng.choice((holder.consumer.ack, holder.consumer.nack, holder.consumer.back, None))
                if way == holder.consumer.ack:
                    left.discard(holder.payloads[0])
                way() if way is not None else holder.consumer.dack(rng.choice((0, 5, 500)))
                holder.consumer.close()
            case "act":
                found = await world.broker.inspect.search(b"t", Filter(), count=1000)
                if found.messages:
                    chosen = rng.choice(found.messages)
                    order = rng.choice((DELETE, FRONT, DUE if chosen.state is State.DELAYED else FRONT))
                    await world.broker.by_id.act(b"t", chosen.id, order)
                    left -= {chosen.stored.payload} if order is DELETE else set()
            case "restart":
                holders.clear()
                await world.restart()
                assert problems_of(world.store._values) == []
        world.clock.advance(0.5)
        world.broker.tick()
    for holder in holders:
        holder.consumer.close()
    await world.restart()
    world.clock.advance(1000)
    world.broker.tick()
    delivered = await world.drain(b"t")
    assert sorted(delivered) == sorted(left)
    assert (await world.broker.inspect.stats(b"t"))["depth"] == 0
