"""Whatever happens to a topic that drops what is oldest, its counts are the truth, and nothing held is dropped.

The truth is read from the store, message by message; what clients hold is kept beside it.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.core.settings.fields import LimitPolicy
from miniqueue.errors import TopicFullError
from miniqueue.storage.format import keys, values
from tests.broker.support import World, run
from tests.fakes import FakeConsumer, settle_down

MAX_MESSAGES, MAX_BYTES = 6, 30
STEP = st.one_of(
    st.tuples(st.just("publish"), st.lists(st.integers(0, 12), min_size=1, max_size=4)),
    st.tuples(st.sampled_from(["take", "ack", "nack", "back", "dack", "leave"]), st.integers(0, 3)),
    st.sampled_from([("tick", 0), ("commit", 0), ("restart", 0), ("evict", 0)]),
)


class Run:
    """A topic with its consumers, and what is known of its messages beside the broker."""

    def __init__(self, world: World, policy: LimitPolicy) -> None:
        self.world = world
        self.policy = policy
        self.published: list[bytes] = []
        self.acked: set[bytes] = set()
        self.holders: list[FakeConsumer] = []

    async def step(self, act: str, argument: object) -> None:
        match act:
            case "publish":
                self.publish(argument)
            case "take":
                consumer = self.world.consumer(b"t")
                consumer.consumer.request()
                await settle_down()
                self.holders.append(consumer)
            case "tick":
                self.world.clock.advance(2)
                self.world.broker.tick()
            case "commit":
                await self.world.commit()
            case "evict":
                for topic in self.world.broker._engine.topics.by_name.values():
                    topic.evict()
            case "restart":
                await self.world.commit()
                self.holders.clear()
                await self.world.restart()
            case _:
                self.settle(act, argument)

    def publish(self, sizes: list[int]) -> None:
        payloads = [(b"%03d" % (len(self.published) + i))[:3] + bytes(size) for i, size in enumerate(sizes)]
        try:
            self.world.broker.publish(b"t", payloads)
        except TopicFullError:
            return
        self.published += payloads

    def settle(self, act: str, number: int) -> None:
        if not self.holders:
            return
        holder = self.holders.pop(number % len(self.holders))
        if act == "leave" or not holder.leases:
            holder.consumer.close()
        elif act == "dack":
            holder.consumer.dack(1)
        else:
            getattr(holder.consumer, act)()
            if act == "ack":
                self.acked |= set(holder.payloads)

    async def compare(self) -> None:
        await self.world.commit()
        await settle_down()
        stored, held = stored_messages(self.world.store.pairs()), self.held()
        assert set(held) <= set(stored), "what is held was dropped"
        assert not self.acked & set(stored)
        assert len(stored) == len(set(stored))
        stats = self.world.broker.stats().get(b"t")
        if stats is None:
            return
        assert stats.ready + stats.leased + stats.delayed == len(stored)
        assert stats.size_bytes == sum(map(len, stored))
        assert stats.published == len(self.published)
        assert stats.published == stats.acknowledged + stats.dropped + stats.moved + len(stored)
        assert stats.acknowledged == len(self.acked)
        if self.policy is not LimitPolicy.DROP_OLDEST:
            assert stats.dropped == 0
        self.check_dead_letters(stats.moved)
        assert len(stored) <= max(MAX_MESSAGES, len(held) + MAX_MESSAGES)
        if not held and not (
            self.policy is LimitPolicy.DEAD_LETTER and stats.moved
        ):  # otherwise the dead letters may be full
            assert len(stored) <= MAX_MESSAGES
            assert stats.size_bytes <= MAX_BYTES

    def check_dead_letters(self, moved_count: int) -> None:
        """Whatever was given up for want of room is a dead letter, and was not acknowledged."""
        stats = self.world.broker.stats().get(b"t.dlq")
        if self.policy is not LimitPolicy.DEAD_LETTER or stats is None:
            assert moved_count == 0
        else:
            assert stats.ready == stats.published == moved_count
            assert stats.ready <= MAX_MESSAGES

    def held(self) -> list[bytes]:
        return [payload for holder in self.holders for payload in holder.payloads]


def stored_messages(pairs: dict[bytes, bytes]) -> list[bytes]:
    """Return every message of topic 1 that a store holds and that is not settled."""
    messages = []
    for key, value in pairs.items():
        parts = keys.parse(key)
        if parts.topic_id != 1:
            continue
        if parts.space is keys.Space.RECORD:
            messages.append(values.decode_record(value).payload)
        elif parts.space is keys.Space.CHUNK:
            bitmap = pairs.get(keys.bitmap(1, 0, 0, parts.order))
            bits = 0 if bitmap is None else values.decode_bitmap(bitmap)
            payloads = values.decode_chunk(parts.order, value).payloads
            messages += [payload for i, payload in enumerate(payloads) if not bits >> i & 1]
    return messages


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(LimitPolicy), st.lists(STEP, max_size=40))
def test_counts_are_the_truth_and_what_is_held_stays(policy, steps):
    async def body(world):
        topic = Run(world, policy)
        for act, argument in [("publish", [1, 2, 3]), *steps]:
            await topic.step(act, argument)
            await topic.compare()
        await topic.step("restart", 0)
        await topic.compare()

    limits = BrokerLimits(max_topic_messages=MAX_MESSAGES, max_topic_bytes=MAX_BYTES, policy=policy)
    run(body, limits=limits)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 8), min_size=1, max_size=30), st.integers(0, 5))
def test_what_is_left_is_the_newest_in_order(sizes, restart_every):
    async def body(world):
        payloads = [b"%03d" % n + bytes(size) for n, size in enumerate(sizes)]
        for n, payload in enumerate(payloads):
            await world.publish(b"t", payload)
            if restart_every and n % restart_every == 0:
                await world.restart()
        left = await world.drain(b"t")
        assert left == payloads[len(payloads) - len(left) :]
        one_more = payloads[len(payloads) - len(left) - 1 :]
        assert left == payloads or len(one_more) > MAX_MESSAGES or sum(map(len, one_more)) > MAX_BYTES

    run(
        body,
        limits=BrokerLimits(max_topic_messages=MAX_MESSAGES, max_topic_bytes=MAX_BYTES, policy=LimitPolicy.DROP_OLDEST),
    )
