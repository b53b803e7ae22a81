"""Publishing with options: what stays with the message, what is refused, and that nothing is stored then."""

import pytest

from miniqueue.broker.limits import BrokerLimits
from miniqueue.core import attributes
from miniqueue.core.publish_options import NO_OPTIONS, PublishOptions
from miniqueue.errors import InvalidAttributesError, MiniqueueError, OutcomeUnknownError, TopicFullError
from tests.broker.support import run

DESCRIBED = PublishOptions(headers=((b"trace", b"7f"),), key=b"ada")


def test_a_message_gets_an_id_and_keeps_headers_and_key():
    async def body(world):
        await world.publish(b"t", b"first")
        accepted = world.broker.publish_with(b"t", b"x", DESCRIBED)
        assert (accepted.message_id, accepted.is_duplicate) == (b"0-1", False)
        await accepted.commit.wait()
        await world.restart()
        assert await world.drain(b"t") == [b"first", b"x"]

    run(body)


@pytest.mark.parametrize("restarts", [False, True])
def test_headers_and_key_are_delivered(restarts):
    async def body(world):
        await world.broker.publish_with(b"t", b"x", DESCRIBED).commit.wait()
        if restarts:
            await world.restart()
        held = await world.holding(b"t")
        (encoded,) = held.leases[0].attributes
        assert attributes.decode(encoded) == DESCRIBED.attributes(0)

    run(body)


def test_a_message_without_options_is_a_plain_one():
    async def body(world):
        await world.broker.publish_with(b"t", b"x", NO_OPTIONS).commit.wait()
        held = await world.holding(b"t")
        assert held.leases[0].attributes is None

    run(body)


@pytest.mark.parametrize(
    "options",
    [
        PublishOptions(headers=((b"n", b"v" * 70_000),)),
        PublishOptions(headers=tuple((b"%d" % n, b"v" * 100) for n in range(700))),
    ],
)
def test_what_is_too_long_is_refused_and_makes_no_topic(options):
    async def body(world):
        with pytest.raises(InvalidAttributesError):
            world.broker.publish_with(b"t", b"x", options)
        assert world.broker.topics() == []

    run(body)


def test_a_refusal_of_the_broker_holds_here_too():
    async def body(world):
        for name, payload, word in ((b"a/b", b"x", "BADTOPIC"), (b"t", b"x" * 11, "TOOBIG")):
            with pytest.raises(MiniqueueError) as caught:
                world.broker.publish_with(name, payload, DESCRIBED)
            assert caught.value.code == word
        await world.broker.stop()
        with pytest.raises(MiniqueueError) as caught:
            world.broker.publish_with(b"t", b"x", DESCRIBED)
        assert caught.value.code == "DRAINING"
        await world.start()
        assert world.broker.topics() == []

    run(body, max_message_bytes=10)


def test_a_fault_leaves_the_outcome_open():
    async def body(world):
        world.store.fail_writes = {1}
        accepted = world.broker.publish_with(b"t", b"x", DESCRIBED)
        with pytest.raises(OutcomeUnknownError):
            await accepted.commit.wait()

    run(body)


def test_what_fits_counts_the_attributes():
    async def body(world):
        extra = DESCRIBED.attributes(0).encode()
        with pytest.raises(TopicFullError) as caught:
            world.broker.publish(b"t", [b"x"] * 4, [extra] * 4)
        assert caught.value.fitting_count == 2
        assert world.broker.topics() == []
        await world.broker.publish(b"t", [b"x"] * 2, [extra] * 2).commit.wait()
        with pytest.raises(TopicFullError) as caught:
            world.broker.publish(b"t", [b""], [extra])
        assert caught.value.fitting_count == 0

    run(body, limits=BrokerLimits(max_topic_bytes=2 * len(b"x" + DESCRIBED.attributes(0).encode())))
