"""Acts that are done together: what they do, what they answer, and which of them is refused."""

import pytest

from miniqueue.broker.inspect.peeked import State
from miniqueue.broker.transactions.acts import Executed, Publish, PublishBatch, PublishWith, Refused, Settle, Way
from miniqueue.broker.transactions.joining import joined
from miniqueue.core.message.attributes import decode
from miniqueue.core.options.batch import NO_BATCH_OPTIONS
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.options.settle import NackOptions
from miniqueue.errors import (
    InvalidAttributesError,
    LimitReachedError,
    NothingOutstandingError,
    PayloadTooLargeError,
    RequestError,
    TopicFullError,
)
from miniqueue.errors.requests import SchemaError
from tests.broker.leases.test_leases import take

A, T = b"a", b"t"


def keyed(payload: bytes, key: bytes, **options: object) -> PublishWith:
    return PublishWith(A, payload, PublishOptions(key=key, **options))


def with_header(value: bytes) -> PublishWith:
    return PublishWith(A, b"x", PublishOptions(headers=((b"name", value),)))


def ack(*receipts: bytes, topic: bytes = T) -> Settle:
    return Settle(topic, receipts, Way.ACK)


async def executed(world, *acts) -> Executed:
    result = await world.broker.transactions.execute(acts)
    assert isinstance(result, Executed), result
    await result.commit.wait()
    return result


async def refused(world, *acts) -> Refused:
    result = await world.broker.transactions.execute(acts)
    assert isinstance(result, Refused), result
    return result


def counts(*acts) -> list[int]:
    return [len(join.acts) for join in joined(acts)]


def test_what_is_joined():
    one, two, other = Publish(A, [b"1"]), Publish(A, [b"2"]), Publish(T, [b"x"])
    assert counts(one, two, other, one) == [2, 1, 1]
    assert counts(keyed(b"1", b"k"), with_header(b"v"), keyed(b"2", b"k", ttl_seconds=5.0)) == [3]
    assert counts(keyed(b"1", b"k"), keyed(b"2", b"k", dedup_id=b"d"), keyed(b"3", b"k")) == [1, 1, 1]
    assert counts(one, keyed(b"1", b"k"), PublishBatch(A, [b"x"], b"", NO_BATCH_OPTIONS)) == [1, 1, 1]
    assert counts(ack(b"1"), ack(b"2", b"3"), ack(b"4", topic=A)) == [2, 1]
    assert counts(ack(b"1"), Settle(T, [b"2"], Way.BACK), Settle(T, [b"3"], Way.BACK)) == [1, 2]
    assert counts(Settle(T, [b"1"], Way.DACK, 1.0), Settle(T, [b"2"], Way.DACK, 2.0)) == [1, 1]
    late = NackOptions(5.0)
    assert counts(Settle(T, [b"1"], Way.NACK, nack=late), Settle(T, [b"2"], Way.NACK, nack=late)) == [2]


async def test_messages_returned_to_the_front_are_not_joined_since_the_last_becomes_the_first(world):
    await world.publish(T, b"1", b"2", b"3")
    await executed(world, *(Settle(T, [receipt], Way.NACK) for receipt in take(world, 2).receipts))
    assert await world.drain(T) == [b"2", b"1", b"3"]


async def test_each_publish_has_its_own_ids(world):
    result = await executed(world, Publish(A, [b"1", b"2"]), Publish(A, [b"3"]), Publish(T, [b"4"]))
    assert [(outcome.partition, outcome.first_seq) for outcome in result.outcomes] == [(0, 0), (0, 2), (0, 0)]
    assert [outcome.size_bytes for outcome in result.outcomes] == [2, 1, 1]
    assert await world.drain(A) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("partitions", [1, 3])
async def test_messages_with_keys_have_the_ids_and_attributes_that_they_have_alone(world, partitions):
    acts = [keyed(b"%d" % number, b"k%d" % (number % 4)) for number in range(8)]
    acts[3:3] = [with_header(b"v"), keyed(b"late", b"k1", ttl_seconds=60.0)]
    for name in (A, b"alone"):
        await world.broker.admin.create(name, {"partitions": partitions}).wait()
    result = await executed(world, *acts)
    alone = [(await executed(world, act._replace(topic=b"alone"))).outcomes[0] for act in acts]
    if partitions == 1:
        assert [accepted.message_id for accepted in result.outcomes] == [each.message_id for each in alone]
    assert len({accepted.message_id for accepted in result.outcomes}) == len(acts)
    by_id = {message.message_id: message.stored for message in await world.broker.inspect.peek(A, State.READY, 100)}
    for accepted, act in zip(result.outcomes, acts, strict=True):
        stored = by_id[accepted.message_id]
        attributes = decode(stored.attributes)
        assert (stored.payload, attributes.key) == (act.payload, act.options.key)
        assert attributes.headers == act.options.headers
        assert bool(attributes.expires_at_ms) is (act.options.ttl_seconds is not None)


async def test_settles_that_are_joined(world):
    await world.publish(T, *(b"%d" % number for number in range(6)))
    receipts = take(world, 6).receipts
    result = await executed(world, *(ack(receipt) for receipt in receipts[:4:-1]), ack(*receipts[:3]))
    assert result.outcomes == [None, None]
    result = await executed(world, *(Settle(T, [receipt], Way.BACK) for receipt in receipts[3:5]))
    assert result.outcomes == [None, None]
    await world.commit()
    assert await world.drain(T) == [b"3", b"4"]


# --- which act is refused -------------------------------------------------------------------------------------


async def test_the_act_whose_receipt_is_unknown(world):
    await world.publish(T, b"1", b"2", b"3")
    first, second, third = take(world, 3).receipts
    result = await refused(world, Publish(A, [b"x"]), ack(first), ack(second, b"unknown"), ack(third))
    assert (result.act, result.message, type(result.error)) == (2, 0, NothingOutstandingError)


async def test_the_act_that_names_a_receipt_again(world):
    await world.publish(T, b"1", b"2", b"3")
    first, second, third = take(world, 3).receipts
    for acts in ([ack(first), ack(second), ack(third, first)], [ack(first), Publish(A, [b"x"]), ack(first)]):
        result = await refused(world, *acts)
        assert (result.act, result.message) == (2, 0)
        assert type(result.error) is RequestError


async def test_the_message_that_is_too_large(world):
    large = b"x" * (world.broker.max_message_bytes + 1)
    result = await refused(world, Publish(A, [b"1"]), Publish(A, [b"2", large]))
    assert (result.act, result.message, type(result.error)) == (1, 1, PayloadTooLargeError)
    result = await refused(world, keyed(b"1", b"k"), keyed(large, b"k"))
    assert (result.act, result.message, type(result.error)) == (1, 0, PayloadTooLargeError)


async def test_the_message_whose_headers_are_too_long(world):
    result = await refused(world, keyed(b"1", b"k"), with_header(b"short"), with_header(b"v" * (1 << 20)))
    assert (result.act, result.message, type(result.error)) == (2, 0, InvalidAttributesError)


async def test_the_message_that_does_not_fit_the_schema(world):
    await world.broker.admin.create(A, {"schema": {"type": "number"}}).wait()
    result = await refused(world, keyed(b"1", b"k"), keyed(b"x", b"k"))
    assert (result.act, result.message, str(result.error)) == (1, 0, "/: not JSON")
    result = await refused(world, Publish(A, [b"1"]), Publish(A, [b"2", b"x"]))
    assert (result.act, result.message, str(result.error)) == (1, 1, "message 2 of 2: /: not JSON")
    assert type(result.error) is SchemaError


async def test_the_message_for_which_a_topic_has_no_room(world):
    await world.broker.admin.create(A, {"max_messages": 2}).wait()
    result = await refused(world, Publish(A, [b"1"]), Publish(A, [b"2", b"3"]))
    assert (result.act, result.message, type(result.error)) == (1, 1, TopicFullError)
    result = await refused(world, *[keyed(b"x", b"k")] * 3)
    assert (result.act, result.message, type(result.error)) == (2, 0, TopicFullError)


async def test_the_act_that_is_too_much_work(world):
    for acts in (
        [Publish(b"t%d" % number, [b"x"]) for number in range(500)],
        [keyed(b"x", b"k", dedup_id=b"%d" % number) for number in range(500)],
        [keyed(b"x", b"k") for _ in range(1000)],
        [ack(b"r%d" % number) for number in range(1000)],
    ):
        result = await refused(world, *acts)
        assert type(result.error).__base__ is LimitReachedError
        assert 50 < result.act < len(acts)
        assert str(result.error) == "too much work for one commit; send several transactions"
    assert world.broker.topics() == []


async def test_receipts_of_too_many_leases_are_not_all_looked_up(world):
    await world.publish_each(T, *[b"x"] * 600)
    receipts = [take(world).receipts[0] for _ in range(600)]
    result = await refused(world, ack(*receipts))
    assert type(result.error).__base__ is LimitReachedError
    await executed(world, ack(*receipts[:300]))


async def test_too_many_messages_for_one_topic(world):
    with pytest.raises(LimitReachedError, match="too many messages and receipts in a transaction: 10001; at most"):
        world.broker.transactions.execute_now([Publish(A, [b"x"] * 10_001)])
    assert world.broker.topics() == []
