"""Transactions: all acts are one commit, or nothing was done."""

import asyncio
import sys
from collections.abc import Sequence

import pytest

from miniqueue.broker import Broker
from miniqueue.broker.engine import schemas
from miniqueue.broker.leases.leases import Found, Leases
from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.broker.runtime.accounts import Purpose
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.broker.transactions import transactions
from miniqueue.broker.transactions.acts import (
    Act,
    Executed,
    Publish,
    PublishBatch,
    PublishWith,
    Refused,
    Settle,
    Way,
)
from miniqueue.core.message.lanes import Priority
from miniqueue.core.options.batch import NO_BATCH_OPTIONS
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.settings.defaults import TopicDefaults
from miniqueue.core.settings.fields import Side
from miniqueue.core.settings.quotas import Quotas
from miniqueue.errors import (
    DedupMismatchError,
    DrainingError,
    FullError,
    InternalError,
    InvalidDelayError,
    InvalidTopicError,
    LimitReachedError,
    MiniqueueError,
    NothingOutstandingError,
    OutcomeUnknownError,
    PayloadTooLargeError,
    RateLimitError,
    ReadOnlyError,
    RequestError,
    ShareLimitError,
    StorageError,
    TopicFullError,
)
from miniqueue.errors.requests import NoValidatorError, PausedError, SchemaError
from miniqueue.server.resp.commands.session import Actor
from tests.broker.leases.test_leases import take
from tests.broker.support import World, world_with
from tests.fakes import settle_down

A, B, T = b"a", b"b", b"t"


async def executed(broker: Broker, *acts: Act) -> Executed:
    """Carry out a transaction, which succeeds; it is durable on return."""
    result = await broker.transactions.execute(acts)
    assert isinstance(result, Executed), result
    await result.commit.wait()
    return result


async def refused(broker: Broker, *acts: Act) -> Refused:
    result = await broker.transactions.execute(acts)
    assert isinstance(result, Refused), result
    return result


def ack(receipts: Sequence[bytes], topic: bytes = T) -> Settle:
    return Settle(topic, receipts, Way.ACK)


def dedup(payload: bytes, dedup_id: bytes, topic: bytes = A) -> PublishWith:
    return PublishWith(topic, payload, PublishOptions(dedup_id=dedup_id))


def unique(payload: bytes, key: bytes, topic: bytes = A) -> PublishWith:
    return PublishWith(topic, payload, PublishOptions(unique_key=key))


async def pairs(world: World) -> dict[bytes, bytes]:
    """Return all that is stored, when nothing is left to be written."""
    await world.commit()
    await settle_down()
    return world.store.pairs()


# --- all of it ------------------------------------------------------------------------------------------------


async def test_publishes_and_settles_of_several_topics_are_one_write(world):
    await world.publish(T, b"in")
    receipts = take(world).receipts
    await world.commit()
    writes_before = len(world.store.batches)
    result = await executed(
        world.broker,
        Publish(A, [b"one", b"two"]),
        ack(receipts),
        PublishWith(B, b"three", PublishOptions(key=b"k")),
        PublishBatch(A, [b"four"], b"id", NO_BATCH_OPTIONS),
    )
    assert len(world.store.batches) == writes_before + 1
    assert [outcome is None for outcome in result.outcomes] == [False, True, False, False]
    await world.restart()
    assert await world.drain(A) == [b"one", b"two", b"four"]
    assert await world.drain(B) == [b"three"]
    assert await world.drain(T) == []


async def test_a_transaction_of_settles_alone_is_durable_when_it_is_answered(world):
    await world.publish(T, b"one", b"two")
    await executed(world.broker, ack(take(world, 2).receipts))
    world.store = await world.store.as_of(len(world.store.batches))
    await world.restart()
    assert await world.drain(T) == []


async def test_one_settle_with_sync_puts_the_whole_transaction_on_the_disk(world):
    await world.publish(T, b"one", b"two")
    first, second = take(world, 2).receipts
    synced = world.store.sync_count
    await executed(world.broker, Publish(A, [b"x"]), ack([first]))
    assert world.store.sync_count == synced
    await executed(world.broker, Publish(A, [b"y"]), ack([second])._replace(is_synced=True))
    assert world.store.sync_count == synced + 1


async def test_nothing_is_delivered_before_the_commit(world):
    consumer = world.consumer(A)
    consumer.consumer.request()
    world.store.may_write.clear()
    result = await world.broker.transactions.execute([Publish(A, [b"one"]), Publish(B, [b"two"])])
    await settle_down()
    assert consumer.leases == []
    assert not result.commit.is_done
    world.store.may_write.set()
    await settle_down()
    assert consumer.leases[0].payloads == [b"one"]


async def test_what_follows_from_a_settle_before_its_commit_is_never_durable_without_it(world):
    await world.publish(T, b"in")
    receipts = take(world).receipts
    await world.commit()
    stored_count = len(world.store.batches)
    world.store.may_write.clear()
    failed = await world.broker.transactions.execute([Publish(A, [b"failure"]), Settle(T, receipts, Way.NACK)])
    await settle_down()
    again = take(world)
    assert (again.payloads, failed.commit.is_done) == ([b"in"], False)
    done = await world.broker.transactions.execute([Publish(B, [b"result"]), ack(again.receipts)])
    world.store.may_write.set()
    await done.commit.wait()
    assert len(world.store.batches) == stored_count + 2
    after_crashes = []
    for count in range(stored_count, stored_count + 3):
        after_crash = World()
        after_crash.store = await world.store.as_of(count)
        await after_crash.start()
        after_crashes.append([await after_crash.drain(name) for name in (A, B, T)])
        await after_crash.broker.stop()
    assert after_crashes == [
        [[], [], [b"in"]],
        [[b"failure"], [], [b"in"]],
        [[b"failure"], [b"result"], []],
    ]


@pytest.mark.parametrize("way", Way)
async def test_each_way_to_settle(world, way):
    await world.publish(T, b"x")
    receipts = take(world).receipts
    await executed(world.broker, Publish(A, [b"y"]), Settle(T, receipts, way, seconds=10.0, reason=b"bad"))
    alone = World()
    await alone.start()
    try:
        await alone.publish(T, b"x")
        await alone.publish(A, b"y")
        receipts = take(alone).receipts
        values = {Way.DACK: (10.0,), Way.REJECT: (b"bad",), Way.EXTEND: (10.0,)}.get(way, ())
        assert getattr(alone.broker.leases, way.value)(T, receipts, *values) == [True]
        await alone.commit()
        assert world.broker.stats() == alone.broker.stats()
    finally:
        await alone.broker.stop()


async def test_acts_are_done_in_their_order(world):
    await executed(world.broker, unique(b"old", b"k"))
    receipts = take(world, topic=A).receipts
    result = await executed(world.broker, ack(receipts, A), unique(b"new", b"k"))
    assert not result.outcomes[1].is_duplicate
    assert await world.drain(A) == [b"new"]


async def test_a_unique_key_whose_message_is_not_settled_is_a_duplicate(world):
    first = await executed(world.broker, unique(b"old", b"k"))
    await world.restart()
    second = await executed(world.broker, Publish(A, [b"x"]), unique(b"new", b"k"))
    assert second.outcomes[1].is_duplicate
    assert second.outcomes[1].message_id == first.outcomes[0].message_id
    assert await world.drain(A) == [b"old", b"x"]


async def test_unique_keys_of_a_topic_that_the_transaction_creates(world):
    await executed(world.broker, unique(b"one", b"k"), unique(b"two", b"l"), unique(b"three", b"k", B))
    assert await world.drain(A) == [b"one", b"two"]
    assert await world.drain(B) == [b"three"]


async def test_a_dedup_id_of_before_adds_nothing_and_the_rest_is_done(world):
    await executed(world.broker, dedup(b"one", b"id"))
    result = await executed(world.broker, dedup(b"one", b"id"), Publish(A, [b"two"]))
    assert result.outcomes[0].is_duplicate
    assert await world.drain(A) == [b"one", b"two"]


async def test_only_duplicates_are_answered_after_what_was_before_them(world):
    world.store.may_write.clear()
    first = await world.broker.transactions.execute([dedup(b"one", b"id")])
    await settle_down()
    second = await world.broker.transactions.execute([dedup(b"one", b"id")])
    await settle_down()
    assert not second.commit.is_done
    world.store.may_write.set()
    await second.commit.wait()
    assert first.commit.is_done


async def test_delays_priorities_and_lanes(world):
    await executed(
        world.broker,
        PublishWith(A, b"low", PublishOptions(priority=Priority.LOW)),
        PublishWith(A, b"late", PublishOptions(delay_seconds=10)),
        PublishWith(A, b"high", PublishOptions(priority=Priority.HIGH)),
    )
    assert await world.drain(A) == [b"high", b"low"]
    assert world.broker.stats()[A].delayed == 1


async def test_rejected_messages_are_dead_letters_of_the_same_commit(world):
    await world.broker.admin.create(T, {"dead_letter_topic": "dead"}).wait()
    await world.publish(T, b"bad")
    receipts = take(world).receipts
    await executed(world.broker, Settle(T, receipts, Way.REJECT, reason=b"bad"), Publish(A, [b"x"]))
    world.store = await world.store.as_of(len(world.store.batches))
    await world.restart()
    assert await world.drain(b"dead") == [b"bad"]
    assert await world.drain(T) == []


async def test_the_oldest_messages_give_way_in_the_same_commit(world):
    await world.broker.admin.create(T, {"max_messages": 2, "limit_policy": "drop-oldest"}).wait()
    await world.publish(T, b"1", b"2")
    writes_before = len(world.store.batches)
    await executed(world.broker, Publish(T, [b"3"]), Publish(A, [b"x"]), Publish(T, [b"4"]))
    assert len(world.store.batches) == writes_before + 1
    assert await world.drain(T) == [b"3", b"4"]


# --- or nothing -----------------------------------------------------------------------------------------------


async def test_a_receipt_that_is_not_leased_refuses_all(world):
    await world.publish(T, b"in")
    receipts = take(world).receipts
    world.broker.leases.ack(T, receipts)
    before = await pairs(world)
    result = await refused(world.broker, Publish(A, [b"x"]), ack(receipts), Publish(B, [b"y"]))
    assert (result.act, type(result.error)) == (1, NothingOutstandingError)
    assert await pairs(world) == before
    assert world.broker.topics() == [T]


async def with_settings(world: World, topic: bytes = T, **settings: object) -> None:
    await world.broker.admin.create(topic, settings).wait()


def too_large(world: World) -> list[Act]:
    return [Publish(A, [b"x"]), Publish(B, [b"x", b"x" * (world.broker.max_message_bytes + 1)])]


#: Acts that are impossible, at which place and message, and why; T has at most two messages, and holds one.
IMPOSSIBLE: list[tuple[list[Act], int, int, type[MiniqueueError]]] = [
    ([Publish(A, [b"x"]), Publish(T, [b"1", b"2"])], 1, 1, TopicFullError),
    ([Publish(T, [b"1"]), Publish(A, [b"x"]), Publish(T, [b"2"])], 2, 0, TopicFullError),
    ([Publish(T, [b"1"]), PublishWith(T, b"2", PublishOptions(key=b"k"))], 1, 0, TopicFullError),
    ([Publish(A, [b"x"]), Publish(b"no name", [b"x"])], 1, 0, InvalidTopicError),
    ([Publish(A, [b"x"]), ack([b"never-1"])], 1, 0, NothingOutstandingError),
    ([Publish(A, [b"x"]), ack([b"never-1"], b"nowhere")], 1, 0, NothingOutstandingError),
    ([dedup(b"1", b"id"), Publish(A, [b"x"]), dedup(b"2", b"id")], 2, 0, RequestError),
    ([dedup(b"1", b"id?digest=1"), dedup(b"2", b"id?digest=2")], 1, 0, RequestError),
    ([unique(b"1", b"k"), unique(b"2", b"k")], 1, 0, RequestError),
    ([dedup(b"1", b"known?digest=2", T)], 0, 0, DedupMismatchError),
    ([Publish(A, [b"x"]), Publish(b"closed", [b"x"])], 1, 0, PausedError),
    ([Publish(A, [b"x"]), Publish(b"narrow", [b"xxx", b"xxxx"])], 1, 1, PayloadTooLargeError),
    ([Publish(A, [b"x"]), Publish(b"formed", [b"{}", b"{}", b"5"])], 1, 2, SchemaError),
    ([PublishBatch(b"formed", [b"{}", b"5"], b"", NO_BATCH_OPTIONS)], 0, 1, SchemaError),
    ([PublishWith(b"formed", b"5", PublishOptions(delay_seconds=5))], 0, 0, SchemaError),
]


@pytest.mark.parametrize(("acts", "place", "message", "error"), IMPOSSIBLE)
async def test_what_is_impossible_is_named_and_nothing_is_done(world, acts, place, message, error):
    await with_settings(world, max_messages=2)
    await with_settings(world, b"closed")
    await with_settings(world, b"narrow", max_message_bytes=3)
    await with_settings(world, b"formed", schema={"type": "object"})
    await world.broker.admin.pause(b"closed", Side.IN).wait()
    await executed(world.broker, dedup(b"0", b"known?digest=1", T))
    before, topics = await pairs(world), world.broker.topics()
    result = await refused(world.broker, *acts)
    assert (result.act, result.message, type(result.error)) == (place, message, error)
    assert result.error.__traceback__ is None
    assert await pairs(world) == before
    assert world.broker.topics() == topics
    await executed(world.broker, Publish(T, [b"1"]))  # the room is still there
    assert (await refused(world.broker, Publish(T, [b"2"]))).act == 0


@pytest.mark.parametrize(
    ("payloads", "message", "error"),
    [([b"x", b"xxxx"], 1, PayloadTooLargeError), ([b"1", b"2", b"3"], 2, TopicFullError)],
)
async def test_a_new_topic_accepts_what_its_defaults_let_it(world, payloads, message, error):
    world.broker.set_defaults(TopicDefaults({"a": {"max_messages": 2, "max_message_bytes": 3}}))
    result = await refused(world.broker, Publish(B, [b"x"]), Publish(A, payloads))
    assert (result.act, result.message, type(result.error)) == (1, message, error)
    assert world.broker.topics() == []
    await executed(world.broker, Publish(A, [b"1"]), Publish(A, [b"2"]))
    assert await world.drain(A) == [b"1", b"2"]


async def test_a_new_topic_has_the_schema_of_its_defaults(world):
    world.broker.set_defaults(TopicDefaults({"a": {"schema": {"type": "number"}}}))
    result = await refused(world.broker, Publish(B, [b"x"]), Publish(A, [b"1", b"x"]))
    assert (result.act, result.message, str(result.error)) == (1, 1, "message 2 of 2: /: not JSON")
    assert str(result.error_of_message()) == "/: not JSON"
    assert world.broker.topics() == []
    await executed(world.broker, Publish(A, [b"1"]), Publish(B, [b"x"]))
    assert await world.drain(A) == [b"1"]


async def test_the_schemas_of_all_topics_are_checked_within_one_bound(world, monkeypatch):
    for name in (A, B):
        await with_settings(world, name, schema={"type": "number"})
    monkeypatch.setattr(schemas, "MAX_WORK", 600)
    for acts in ([Publish(A, [b"5" * 30]), Publish(B, [b"5" * 30])], [Publish(A, [b"5" * 30])] * 2):
        result = await refused(world.broker, *acts)
        assert (result.act, result.message, type(result.error)) == (1, 0, SchemaError)
    await executed(world.broker, Publish(A, [b"5" * 30]), Publish(B, [b"5" * 20]))


async def test_a_transaction_needs_the_validator_only_for_topics_with_a_schema(world, monkeypatch):
    await with_settings(world, A, schema={"type": "number"})
    await world.restart()
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    result = await refused(world.broker, Publish(B, [b"x"]), Publish(A, [b"1"]))
    assert (result.act, type(result.error)) == (1, NoValidatorError)
    await executed(world.broker, Publish(B, [b"x"]))


async def test_a_payload_over_the_limit_of_the_broker(world):
    result = await refused(world.broker, *too_large(world))
    assert (result.act, result.message, type(result.error)) == (1, 1, PayloadTooLargeError)


async def test_a_receipt_counts_once(world):
    await world.publish(T, b"1", b"2")
    first, second = take(world, 2).receipts
    for acts in ([ack([first, first])], [ack([first]), Settle(T, [second, first], Way.NACK)]):
        result = await refused(world.broker, *acts)
        assert (result.act, type(result.error)) == (len(acts) - 1, RequestError)
    await executed(world.broker, ack([first]), Settle(T, [second], Way.NACK))


@pytest.mark.parametrize(
    ("settle", "error"),
    [
        (Settle(T, [b"r"], Way.DACK, seconds=-1.0), InvalidDelayError),
        (Settle(T, [b"r"], Way.EXTEND, seconds=0.0), InvalidDelayError),
        (Settle(T, [b"r"], Way.REJECT, reason=b"x" * 1025), RequestError),
        (Settle(b"no name", [b"r"], Way.ACK), InvalidTopicError),
    ],
)
async def test_invalid_settles(world, settle, error):
    result = await refused(world.broker, Publish(A, [b"x"]), settle)
    assert (result.act, type(result.error)) == (1, error)
    assert world.broker.topics() == []


@world_with(limits=BrokerLimits(max_topics=2, max_partitions=8, max_dedup_ids=2))
@pytest.mark.parametrize(
    ("acts", "place"),
    [
        ([Publish(topic, [b"x"]) for topic in (A, B, b"c")], 2),
        ([PublishWith(A, b"%d" % n, PublishOptions(dedup_id=b"%d" % n)) for n in range(3)], 2),
    ],
)
async def test_limits_of_the_broker_are_those_of_all_acts_together(world, acts, place):
    result = await refused(world.broker, *acts)
    assert (result.act, type(result.error)) == (place, LimitReachedError)
    assert world.broker.topics() == []
    await executed(world.broker, *acts[:2])


@world_with(limits=BrokerLimits(max_partitions=3))
async def test_lanes_and_new_topics_count_as_partitions(world):
    low, high = PublishOptions(priority=Priority.LOW), PublishOptions(priority=Priority.HIGH)
    await world.publish(T, b"x")
    acts = [PublishWith(T, b"x", low), PublishWith(A, b"x", high)]
    assert type((await refused(world.broker, *acts)).error) is LimitReachedError
    await executed(world.broker, PublishWith(T, b"x", low), PublishWith(T, b"x", high))


@world_with(limits=BrokerLimits(max_partitions=3))
async def test_a_dead_letter_topic_that_an_act_makes_does_not_take_the_place_of_a_lane(world):
    """The act after it failed, although all had been checked: the broker dropped its memory."""
    await with_settings(world, max_deliveries=1)
    await world.publish(T, b"bad")
    await world.publish(A, b"x")
    receipts = take(world).receipts
    high = PublishWith(A, b"high", PublishOptions(priority=Priority.HIGH))
    await executed(world.broker, Settle(T, receipts, Way.NACK), high)
    assert world.broker.topics() == [A, T, b"t.dlq"]
    assert await world.drain(A) == [b"high", b"x"]


@world_with(limits=BrokerLimits(max_topic_messages=2))
async def test_new_topics_have_the_limits_of_the_broker(world):
    result = await refused(world.broker, Publish(A, [b"1"]), Publish(A, [b"2", b"3"]))
    assert (result.act, result.message, type(result.error)) == (1, 1, TopicFullError)
    await executed(world.broker, Publish(A, [b"1"]), Publish(A, [b"2"]))
    assert type((await refused(world.broker, Publish(A, [b"3"]))).error) is TopicFullError


@world_with(limits=BrokerLimits(max_topics=4, has_users=True))
async def test_quotas_of_users(world):
    broker = world.broker
    broker.set_quotas({"ann": Quotas(max_topics=1, max_bytes=10, max_messages_per_second=1)})
    CURRENT_ACTOR.set(Actor("ann", 1, b"ann"))
    assert type((await refused(broker, Publish(A, [b"x"]), Publish(B, [b"x"]))).error) is ShareLimitError
    assert type((await refused(broker, Publish(A, [b"x"]), Publish(A, [b"x" * 10]))).error) is ShareLimitError
    await executed(broker, Publish(A, [b"x"]))  # no token was spent
    result = await refused(broker, ack([b"r"]), Publish(A, [b"y"]))
    assert (result.act, type(result.error)) == (0, NothingOutstandingError)
    result = await refused(broker, Publish(A, [b"y"]))
    assert (result.act, type(result.error)) == (0, RateLimitError)


@world_with(limits=BrokerLimits(max_memory_bytes=1 << 20))
async def test_memory_is_checked_before_the_first_act_only(world, monkeypatch):
    """A topic that is created may use up the memory; the acts after it are done all the same."""
    account = world.broker.memory.connect("here")
    account.set_limit(1, "-max-memory")
    CURRENT_ACTOR.set(Actor("here", 1, account=account))
    done = world.broker._publisher.publish

    def charging(*act: object) -> object:
        account.add(Purpose.INPUT, 10)
        return done(*act)

    monkeypatch.setattr(world.broker._publisher, "publish", charging)
    low = PublishOptions(priority=Priority.LOW)
    await executed(world.broker, Publish(A, [b"1"]), Publish(A, [b"2"]), PublishWith(A, b"3", low))
    result = await refused(world.broker, Publish(A, [b"4"]))
    assert (result.act, type(result.error)) == (0, LimitReachedError.__subclasses__()[0])
    account.add(Purpose.INPUT, -account.used_bytes)


async def test_too_many_acts_or_messages(world):
    acts = [Publish(b"t%d" % n, [b"x"]) for n in range(transactions.MAX_ACTS + 1)]
    with pytest.raises(LimitReachedError, match="too many acts in a transaction: 1001; at most 1000"):
        await world.broker.transactions.execute(acts)
    many = Publish(A, [b"x"] * transactions.MAX_ITEMS)
    with pytest.raises(LimitReachedError, match="too many messages and receipts in a transaction: 10001"):
        await world.broker.transactions.execute([many, ack([b"r"])])
    await executed(world.broker, many)


async def test_too_many_unique_keys_are_not_looked_up(world):
    await world.publish(A, b"x")
    reads_before = world.store.scan_count
    acts = [unique(b"x", b"%d" % n) for n in range(transactions.MAX_ACTS + 1)]
    with pytest.raises(LimitReachedError, match="too many acts"):
        await world.broker.transactions.execute(acts)
    assert world.store.scan_count == reads_before


# --- when nothing can be done ---------------------------------------------------------------------------------


async def test_a_commit_that_fails_leaves_the_outcome_unknown_of_all_or_nothing(world):
    await world.publish(T, b"in")
    receipts = take(world).receipts
    await world.commit()
    world.store.fail_writes = {world.store.write_count + 1}
    result = await world.broker.transactions.execute([Publish(A, [b"x"]), ack(receipts)])
    with pytest.raises(OutcomeUnknownError):
        await result.commit.wait()
    with pytest.raises(ReadOnlyError):
        await world.broker.transactions.execute([ack(receipts)])
    await settle_down()
    assert await world.drain(T) == [b"in"]
    assert await world.drain(A) == []


async def test_a_broker_that_stops_refuses_publishes_and_takes_settles_as_long_as_it_can(world):
    await world.publish(T, b"1", b"2")
    first, second = take(world, 2).receipts
    world.broker.admin.rest()
    result = await refused(world.broker, ack([first]), Publish(A, [b"x"]))
    assert (result.act, type(result.error)) == (1, DrainingError)
    await executed(world.broker, ack([first]))
    world.broker._engine.journal.admission.drain()
    with pytest.raises(DrainingError):
        await world.broker.transactions.execute([ack([second])])


async def test_a_full_disk(world):
    await world.publish(T, b"1")
    receipts = take(world).receipts
    world.broker._engine.journal.admission.set_full(True)
    result = await refused(world.broker, ack(receipts), Publish(A, [b"x"]))
    assert (result.act, type(result.error)) == (1, FullError)
    await executed(world.broker, ack(receipts))


async def test_a_unique_key_that_cannot_be_looked_up(world):
    await executed(world.broker, unique(b"old", b"k"))
    await world.restart()
    world.store.fail_scans = {world.store.scan_count + 1}
    with pytest.raises(StorageError):
        await world.broker.transactions.execute([Publish(B, [b"x"]), unique(b"new", b"k")])
    assert world.broker.topics() == [A]


async def test_a_unique_key_is_not_published_twice_by_two_transactions_at_once(world):
    await executed(world.broker, Publish(A, [b"x"]))
    await world.restart()

    results = await asyncio.gather(
        *(world.broker.transactions.execute([unique(b"%d" % n, b"k"), Publish(B, [b"%d" % n])]) for n in range(3))
    )
    assert sorted(result.outcomes[0].is_duplicate for result in results) == [False, True, True]
    await world.commit()
    assert len(await world.drain(A)) == 2


@world_with(limits=BrokerLimits(max_uncommitted_bytes=10))
async def test_a_transaction_waits_for_room_as_a_publish_does(world):

    world.store.may_write.clear()
    world.broker.publish(T, [b"x" * 20])
    waiting = asyncio.ensure_future(world.broker.transactions.execute([Publish(A, [b"x"])]))
    await settle_down()
    assert not waiting.done()
    world.store.may_write.set()
    await (await waiting).commit.wait()


# --- a bug ----------------------------------------------------------------------------------------------------


async def test_an_act_that_fails_after_the_check_leaves_nothing_behind(world, monkeypatch):
    await world.publish(T, b"in", b"other")
    receipts = take(world).receipts
    await world.commit()
    before = world.store.pairs()
    consumer = world.consumer(A)
    consumer.consumer.request()
    with monkeypatch.context() as patch:
        patch.setattr(Leases, "nack", fail)
        with pytest.raises(InternalError, match="nothing of it was done"):
            await world.broker.transactions.execute([Publish(A, [b"x"]), Settle(T, receipts, Way.NACK)])
    with pytest.raises(ReadOnlyError):
        world.broker.publish(B, [b"x"])
    await settle_down()
    assert consumer.leases == []
    assert {key: world.store.pairs()[key] for key in before} == before
    assert world.broker.topics() == [T]
    consumer.consumer.close()
    assert await world.drain(T) == [b"in", b"other"]  # the lease ended with what was in memory
    await world.publish(A, b"y")
    await world.restart()
    assert await world.drain(A) == [b"y"]


async def test_what_others_have_in_a_commit_in_progress_is_unknown_to_them_after_a_bug(world, monkeypatch):
    world.store.may_write.clear()
    begun = world.broker.publish(B, [b"begun"]).commit
    await settle_down()
    later = world.broker.publish(B, [b"later"]).commit
    with monkeypatch.context() as patch:
        patch.setattr(Leases, "ack", fail)
        patch.setattr(Leases, "find", lambda *_: Found([True], 1, 0))
        with pytest.raises(InternalError):
            await world.broker.transactions.execute([Publish(A, [b"x"]), ack([b"r"])])
    with pytest.raises(OutcomeUnknownError):
        await begun.wait()
    with pytest.raises(ReadOnlyError):
        await later.wait()
    world.store.may_write.set()
    await settle_down()
    assert await world.drain(B) == [b"begun"]
    assert world.broker.topics() == [B]


async def test_a_settle_that_does_not_find_its_message_after_the_check_is_a_bug(world, monkeypatch):
    monkeypatch.setattr(Leases, "find", lambda *_: Found([True], 1, 0))
    with pytest.raises(InternalError):
        await world.broker.transactions.execute([Publish(A, [b"x"]), ack([b"r"])])
    await settle_down()
    assert world.broker.topics() == []


def fail(*_: object) -> None:
    raise ZeroDivisionError
