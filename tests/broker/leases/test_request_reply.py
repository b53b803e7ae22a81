"""Requests and replies: who asked gets what the consumer replied, or hears why not; nothing is settled twice."""

import asyncio

import pytest

from miniqueue.broker.leases import request_reply
from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.core.message import attributes
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.core.options.publish import NO_OPTIONS
from miniqueue.errors import (
    DrainingError,
    InvalidTopicError,
    LimitReachedError,
    NothingOutstandingError,
    OutcomeUnknownError,
    PayloadTooLargeError,
    ShareLimitError,
    UnknownReceiptError,
)
from miniqueue.errors.requests import InvalidOptionError, NoReplyError, NoRequestError, RequesterGoneError
from tests.broker.support import started_world, world_with
from tests.fakes import START_MS, settle_down

NOBODY = b"0123456789abcdef-1"


class Requester:
    """Somebody who asked something, and what was heard."""

    def __init__(self, world, payload=b"ask", options=NO_OPTIONS, timeout_seconds=60.0, topic=b"t") -> None:
        self.heard = []
        self._requests = world.broker.requests
        self.request = self._requests.request(
            topic, payload, options, timeout_seconds, self.heard.append, self.heard.append
        )

    def leave(self) -> None:
        self._requests.give_up(self.request)


async def received(world, topic=b"t", count=1):
    """Return the receipts of what is received, and the attributes of the first message."""
    await settle_down()
    got = []
    world.broker.leases.receive(topic, ReceiveOptions(max_count=count), got.append, got.append)
    await settle_down()
    leases = [lease for _, lease in got[0].leases]
    receipts = [got[0].prefix + b"%d" % (lease.receipt + n) for lease in leases for n in range(lease.count)]
    given = leases[0].attributes[0] if leases and leases[0].attributes else b""
    return receipts, attributes.decode(given)


def stats(world, topic=b"t"):
    return world.broker.stats()[topic]


async def test_a_message_has_expired_when_its_requester_stops_waiting(world):
    """For a millisecond, a requester whose time had elapsed could receive its own message."""
    loop, delays = asyncio.get_running_loop(), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "call_later", lambda seconds, *_: delays.append(seconds))
        Requester(world, timeout_seconds=0.2)
    _, given = await received(world)
    assert given.expires_at_ms == START_MS + 200
    assert any(0.202 < seconds < 0.21 for seconds in delays)


async def test_a_reply_goes_to_who_asked_and_acknowledges_the_message(world):
    one, two = Requester(world, b"1"), Requester(world, b"2")
    receipts, _ = await received(world, count=2)
    assert (await world.broker.inspect.stats(b"t"))["requests"] == 2
    world.broker.requests.reply(b"t", receipts[1], b"two")
    assert (await world.broker.inspect.totals())["requests"] == 1
    world.broker.requests.reply(b"t", receipts[0], b"")
    assert (one.heard, two.heard) == ([b""], [b"two"])
    assert (stats(world).acknowledged, stats(world).leased, world.broker.requests.waiting_count) == (2, 0, 0)
    await world.restart()
    assert await world.drain(b"t") == []


async def test_a_request_expires_with_the_wait_unless_it_says_otherwise(world):
    Requester(world, timeout_seconds=1.5)
    _, given = await received(world)
    assert given.expires_at_ms == START_MS + 1500
    assert given.reply_to
    Requester(world, options=NO_OPTIONS._replace(ttl_seconds=7.0, key=b"k", headers=((b"a", b"b"),)), topic=b"u")
    _, given = await received(world, b"u")
    assert (given.expires_at_ms, given.key, given.headers) == (START_MS + 7000, b"k", ((b"a", b"b"),))


async def test_who_is_not_answered_in_time_hears_so_and_a_reply_after_it_settles_the_message(world):
    requester = Requester(world, timeout_seconds=0.001)
    receipts, _ = await received(world)
    while not requester.heard:
        await settle_down()
    assert [type(error) for error in requester.heard] == [NoReplyError]
    with pytest.raises(RequesterGoneError):
        world.broker.requests.reply(b"t", receipts[0], b"late")
    assert stats(world).acknowledged == 1
    assert len(requester.heard) == 1


async def test_who_leaves_waits_no_longer(world):
    requester = Requester(world)
    receipts, _ = await received(world)
    requester.leave()
    requester.leave()
    assert [type(error) for error in requester.heard] == [NoReplyError]
    assert world.broker.requests.waiting_count == 0
    with pytest.raises(RequesterGoneError):
        world.broker.requests.reply(b"t", receipts[0], b"late")


async def test_a_message_that_asks_nothing_stays_leased(world):
    await world.publish(b"t", b"a")
    receipts, _ = await received(world)
    with pytest.raises(NoRequestError):
        world.broker.requests.reply(b"t", receipts[0], b"x")
    assert stats(world).leased == 1
    assert world.broker.leases.ack(b"t", receipts) == [True]


async def test_a_receipt_that_is_none_settles_nothing(world):
    requester = Requester(world)
    receipts, _ = await received(world)
    for name, receipt in ((b"t", NOBODY), (b"t", b""), (b"u", receipts[0]), (b"t", receipts[0] + b"0")):
        with pytest.raises(NothingOutstandingError):
            world.broker.requests.reply(name, receipt, b"x")
    with pytest.raises(InvalidTopicError):
        world.broker.requests.reply(b"a/b", receipts[0], b"x")
    world.broker.requests.reply(b"t", receipts[0], b"x")
    with pytest.raises(NothingOutstandingError):
        world.broker.requests.reply(b"t", receipts[0], b"y")
    assert requester.heard == [b"x"]


@world_with(max_message_bytes=10)
async def test_a_reply_that_is_too_large_leaves_everything_as_it_is(world):
    requester = Requester(world)
    receipts, _ = await received(world)
    with pytest.raises(PayloadTooLargeError):
        world.broker.requests.reply(b"t", receipts[0], b"x" * 11)
    world.broker.requests.reply(b"t", receipts[0], b"x" * 10)
    assert requester.heard == [b"x" * 10]


async def test_a_consumer_that_fails_leaves_the_request_to_the_next_one(world):
    requester = Requester(world)
    receipts, _ = await received(world)
    world.broker.leases.nack(b"t", receipts)
    receipts, given = await received(world)
    assert given.reply_to
    world.broker.requests.reply(b"t", receipts[0], b"done")
    assert requester.heard == [b"done"]


@pytest.mark.parametrize("prefetch", [1, 2])
async def test_a_stream_replies_too(prefetch, world):
    requester = Requester(world)
    await settle_down()
    leases = []
    consumer = world.broker.consumer(b"t", leases.extend, leases.append, prefetch)
    consumer.request()
    receipt = None if prefetch == 1 else leases[0].receipt
    error = NothingOutstandingError if prefetch == 1 else UnknownReceiptError
    if prefetch > 1:
        with pytest.raises(UnknownReceiptError):
            world.broker.requests.reply_from_stream(consumer, receipt + 1, b"x")
    world.broker.requests.reply_from_stream(consumer, receipt, b"done")
    assert requester.heard == [b"done"]
    with pytest.raises(error):
        world.broker.requests.reply_from_stream(consumer, receipt, b"again")
    consumer.close()
    assert stats(world).acknowledged == 1


@pytest.mark.parametrize(
    "options", [{"delay_seconds": 1.0}, {"at_ms": START_MS}, {"dedup_id": b"1"}, {"unique_key": b"1"}]
)
async def test_options_that_make_no_sense_of_a_request_are_refused(options, world):
    with pytest.raises(InvalidOptionError):
        Requester(world, options=NO_OPTIONS._replace(**options))
    assert world.broker.topics() == []


async def test_so_many_wait_at_a_time(monkeypatch):
    monkeypatch.setattr(request_reply, "MAX_WAITING", 2)

    async with started_world() as world:
        first = Requester(world)
        Requester(world)
        with pytest.raises(LimitReachedError):
            Requester(world)
        first.leave()
        Requester(world)
        await settle_down()
        assert stats(world).published == 3


async def test_what_is_not_published_is_not_waited_for(world):
    with pytest.raises(InvalidTopicError):
        Requester(world, topic=b"a/b")
    assert world.broker.requests.waiting_count == 0


async def test_a_commit_that_fails_is_told_to_who_asked(world):
    await world.publish(b"t", b"a")
    world.store.fail_writes = {2}
    requester = Requester(world)
    await settle_down()
    assert [type(error) for error in requester.heard] == [OutcomeUnknownError]
    assert world.broker.requests.waiting_count == 0


async def test_after_a_fault_of_the_store_the_request_is_delivered_again_and_answered(world):
    requester = Requester(world)
    receipts, _ = await received(world)
    world.store.fail_writes = {world.store.write_count + 1}
    with pytest.raises(OutcomeUnknownError):
        await world.publish(b"u", b"x")
    await settle_down()
    with pytest.raises(NothingOutstandingError):
        world.broker.requests.reply(b"t", receipts[0], b"lost lease")
    receipts, _ = await received(world)
    world.broker.requests.reply(b"t", receipts[0], b"done")
    assert requester.heard == [b"done"]


async def test_after_a_restart_nobody_waits_and_names_are_others(world):
    Requester(world)
    await settle_down()
    await world.restart()
    requester = Requester(world, b"new")
    receipts, old = await received(world, count=2)
    with pytest.raises(RequesterGoneError):
        world.broker.requests.reply(b"t", receipts[0], b"late")
    assert requester.heard == []
    world.broker.requests.reply(b"t", receipts[1], b"in time")
    assert requester.heard == [b"in time"]
    assert old.reply_to.partition(b"-")[2] == b"1"


async def test_who_waits_when_the_broker_stops_hears_that(world):
    requester = Requester(world)
    await settle_down()
    await world.broker.stop()
    requester.leave()
    assert [type(error) for error in requester.heard] == [DrainingError]
    with pytest.raises(DrainingError):
        Requester(world)
    await world.start()


async def test_a_dead_letter_asks_nothing(world):
    Requester(world)
    receipts, _ = await received(world)
    world.broker.leases.reject(b"t", receipts, b"broken")
    await world.commit()
    _, given = await received(world, b"t.dlq")
    assert given.origin is not None
    assert given.reply_to == b""


class Actor:
    """A client as a user."""

    account = None

    def __init__(self, user: str) -> None:
        self.user = user

    def __bytes__(self) -> bytes:
        return b""


async def test_a_user_has_three_quarters_of_the_waiting_requests_and_another_has_the_rest(monkeypatch):
    monkeypatch.setattr(request_reply, "MAX_WAITING", 4)
    async with started_world(limits=BrokerLimits(has_users=True)) as world:
        requests = world.broker.requests

        def ask(user):
            token = CURRENT_ACTOR.set(Actor(user))
            try:
                return requests.request(b"t", b"x", NO_OPTIONS, 60, lambda _: None, lambda _: None)
            finally:
                CURRENT_ACTOR.reset(token)

        waiting = [ask("ada") for _ in range(3)]
        with pytest.raises(
            ShareLimitError, match="the waiting requests of user ada are as many as one user may have, 3 "
        ):
            ask("ada")
        other = ask("bob")
        waiting.pop().give_up()
        waiting.append(ask("ada"))
        assert (await world.broker.usage("ada"))[0]["requests"] == {"used": 3, "limit": 3}
        for request in (*waiting, other):
            request.give_up()
        assert (await world.broker.usage("ada"))[0]["requests"] == {"used": 0, "limit": 3}
