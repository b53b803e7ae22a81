"""The carrier: everything arrives, a topic that refuses delays no others, and a shard that fails is asked again."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from miniqueue.broker.inbox.inbox import Taken
from miniqueue.broker.runtime.notices import parse_kinds
from miniqueue.core.log.transfer import Parcel
from miniqueue.errors.requests import ShardAwayError
from miniqueue.server.shards.links.answering import Answering
from miniqueue.server.shards.transfers.arriving import arriving
from miniqueue.server.shards.transfers.carrier import FAILED_SECONDS, REFUSED_SECONDS, Carrier
from miniqueue.server.shards.transfers.sending import (
    decode_parcel,
    decode_taken,
    encode_parcel,
    encode_taken,
)
from tests.broker.runtime.test_notices import Ear
from tests.broker.transfers.shards import HERE, THERE, Shards
from tests.fakes import FakeTransport, settle_down


class Sleeper:
    """A clock whose sleepers wake when it is advanced."""

    def __init__(self) -> None:
        self.now = 0.0
        self.sleeping: list[tuple[float, asyncio.Future[None]]] = []

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        waiting = asyncio.get_running_loop().create_future()
        self.sleeping.append((self.now + seconds, waiting))
        await waiting

    async def advance(self, seconds: float) -> None:
        self.now += seconds
        due = [waiting for until, waiting in self.sleeping if until <= self.now and not waiting.done()]
        for waiting in due:
            waiting.set_result(None)
        await settle_down()


@asynccontextmanager
async def carrying(shards, send, sleeper):
    carrier = Carrier(shards.both[0].broker.outbox, send, sleeper.monotonic, sleeper.sleep)
    task = asyncio.create_task(carrier.run([1]))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def redrive(shards: Shards, *payloads: bytes, target: bytes = THERE) -> None:
    here = shards.both[0]
    await here.publish(HERE, *payloads)
    assert await here.broker.redrive(HERE, target=target) == len(payloads)
    await settle_down()


async def test_everything_is_carried_as_soon_as_it_is_durable():
    async with Shards() as shards:
        there = shards.both[1]
        async with carrying(shards, lambda _, parcel: there.broker.inbox.take(0, parcel), Sleeper()):
            await redrive(shards, b"a", b"b")
            assert await there.drain(THERE) == [b"a", b"b"]
            assert len(shards.both[0].broker.outbox) == 0


async def test_a_topic_that_refuses_is_tried_again_and_does_not_delay_others():
    async with Shards() as shards:
        there, sleeper, other = shards.both[1], Sleeper(), THERE + b".dlq"
        outbox = shards.both[0].broker.outbox
        await there.broker.admin.create(THERE, {"max_messages": 1}).wait()
        async with carrying(shards, lambda _, parcel: there.broker.inbox.take(0, parcel), sleeper):
            await redrive(shards, b"a", b"b")
            await redrive(shards, b"c", target=other)
            assert await there.drain(other) == [b"c"]
            assert list(outbox.refusals) == [THERE]
            assert outbox.reason == f"{THERE.decode()}: {outbox.refusals[THERE]}"
            assert await there.drain(THERE) == [b"a"]
            await there.commit()
            await sleeper.advance(REFUSED_SECONDS)
            assert await there.drain(THERE) == [b"b"]
            await redrive(shards, b"d")
            assert (outbox.refusals, outbox.reason) == ({}, "")


async def test_a_parcel_is_sent_again_after_a_failure():
    async with Shards() as shards:
        there, sleeper, failures = shards.both[1], Sleeper(), [False, True]

        async def send(_shard: int, parcel: Parcel) -> Taken:
            taken = await there.broker.inbox.take(0, parcel)  # which the source does not hear the first time
            if failures.pop():
                raise ShardAwayError("gone")
            return taken

        async with carrying(shards, send, sleeper):
            await redrive(shards, b"a")
            assert len(shards.both[0].broker.outbox) == 1
            assert shards.both[0].broker.outbox.reason == "gone"
            await sleeper.advance(FAILED_SECONDS)
            assert len(shards.both[0].broker.outbox) == 0
            assert shards.both[0].broker.outbox.reason == ""
            assert await there.drain(THERE) == [b"a"]


async def test_a_refusal_is_an_event_once():
    async with Shards() as shards:
        here, there = shards.both
        ear = Ear(here, parse_kinds([b"transfer-refused"]))
        await there.broker.admin.create(THERE, {"max_messages": 1}).wait()
        sleeper = Sleeper()
        async with carrying(shards, lambda _, parcel: there.broker.inbox.take(0, parcel), sleeper):
            for payloads in ((b"a", b"b"), (b"c",)):
                await redrive(shards, *payloads)
                await sleeper.advance(REFUSED_SECONDS)
            reason = here.broker.outbox.refusals[THERE]
            assert await ear.take() == [("transfer-refused", THERE, {"count": 1, "reason": reason})]
            assert await there.drain(THERE) == [b"a"]
            await there.commit()
            await sleeper.advance(REFUSED_SECONDS)
            assert await there.drain(THERE) == [b"b"]
            await there.commit()
            await sleeper.advance(REFUSED_SECONDS)
            assert await there.drain(THERE) == [b"c"]
            await redrive(shards, b"d", b"e")
            assert len(await ear.take()) == 1


@pytest.mark.parametrize("held", [[], [3], [3, 5]])
def test_parcels_and_what_became_of_them_are_the_same_after_the_link(held):
    parcel = Parcel(held, [(7, b"\r\n$1"), (9, b"")])
    words = encode_parcel(parcel)
    assert words.startswith(b"*6\r\n$6\r\nPARCEL\r\n")
    assert decode_parcel([b",".join(b"%d" % n for n in held), b"7", b"\r\n$1", b"9", b""]) == parcel
    taken = Taken([7], {"tür".encode(): "the topic is full"})
    content = encode_taken(taken)
    assert decode_taken(b"$%d\r\n%b\r\n" % (len(content), content)) == taken
    with pytest.raises(ShardAwayError, match="READONLY"):
        decode_taken(b"-READONLY the store has failed\r\n")


async def test_parcels_are_answered_in_order_and_a_refusal_of_the_broker_as_an_error():
    async with Shards() as shards:
        here, there = shards.both
        await here.publish(HERE, b"a")
        await here.broker.redrive(HERE, target=THERE)
        parcel = encode_parcel(here.broker.outbox.parcel(1))
        protocol = Answering(arriving(there.broker.inbox, 0))
        transport = FakeTransport(protocol)
        protocol.connection_made(transport)
        for at in range(0, len(parcel), 50):
            protocol.data_received(parcel[at : at + 50])
        protocol.data_received(b"*2\r\n$4\r\nPING\r\n$5\r\nnonce\r\n")
        await settle_down()
        assert transport.written.endswith(b'"refused":{}}\r\n$5\r\nnonce\r\n')
        there.broker.admin.rest()
        protocol.data_received(parcel)
        await settle_down()
        assert b"-DRAINING" in transport.written


async def test_a_parcel_is_not_answered_after_the_other_process_has_ended():
    async with Shards() as shards:
        here, there = shards.both
        await here.publish(HERE, b"a")
        await here.broker.redrive(HERE, target=THERE)
        protocol = Answering(arriving(there.broker.inbox, 0))
        transport = FakeTransport(protocol)
        protocol.connection_made(transport)
        protocol.data_received(encode_parcel(here.broker.outbox.parcel(1)))
        await asyncio.sleep(0)  # it is taken, and not durable yet
        protocol.connection_lost(None)
        await settle_down()
        assert transport.written == b""
        assert await there.drain(THERE) == [b"a"]
