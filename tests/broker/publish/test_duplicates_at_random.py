"""Publishes with ids and keys, settles, faults and restarts in any order: what is a duplicate is never in doubt."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miniqueue.core.options.publish import PublishOptions
from miniqueue.errors import DedupMismatchError, LimitReachedError, OutcomeUnknownError, UnavailableError
from miniqueue.storage.format import dedup, keys
from miniqueue.tools.audit.store import Audit
from tests.broker.support import World, run
from tests.fakes import FakeConsumer, settle_down

KEYS = st.sampled_from([b"", b"k1", b"k2"])
IDS = st.sampled_from([b"", b"i1", b"i2", b"i1?digest=a", b"i1?digest=b"])
DELAYS = st.sampled_from([None, None, 3.0])


def with_options(dedup_id: bytes, unique_key: bytes, delay_seconds: float | None) -> PublishOptions:
    return PublishOptions(dedup_id=dedup_id, unique_key=unique_key, delay_seconds=delay_seconds)


STEP = st.one_of(
    st.tuples(st.just("publish"), st.builds(with_options, IDS, KEYS, DELAYS)),
    st.tuples(st.sampled_from(["ack", "nack", "back", "dack", "reject"]), st.integers(0, 5)),
    st.sampled_from([("take", 0), ("tick", 0), ("restart", 0), ("purge", 0), ("fail", 0), ("fail", 1)]),
)


class Run:
    """A topic, and what is known of it beside the broker: who published what, and what of that is gone."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.owners: dict[bytes, bytes] = {}  # payloads of messages that wait, by unique key
        self.ids: dict[bytes, tuple[bytes, int, bytes]] = {}  # id of the message, when it was committed, digest
        self.holders: list[FakeConsumer] = []
        self.count = 0

    async def step(self, act: str, argument: object) -> None:
        match act:
            case "publish":
                await self.publish(argument)
            case "take":
                consumer = self.world.consumer(b"t")
                consumer.consumer.request()
                await settle_down()
                self.holders.append(consumer)
            case "tick":
                self.world.clock.advance(50)
                self.world.broker.tick()
                await settle_down()
            case "restart":
                await self.world.commit()
                self.holders.clear()
                await self.world.restart()
            case "purge":
                if b"t" in self.world.broker.topics():
                    await self.world.broker.purge(b"t")
                held = {payload for holder in self.holders for payload in holder.payloads}
                self.owners = {key: payload for key, payload in self.owners.items() if payload in held}
            case "fail":
                await self.fail(is_applied=bool(argument))
            case _:
                self.settle(act, argument)

    async def publish(self, options: PublishOptions) -> None:
        """Publish, and compare the reply with what it must be."""
        self.count += 1
        payload = b"%d" % self.count
        now_ms = self.world.clock.now_ms()
        dedup_id, _, digest = options.dedup_id.partition(b"?digest=")
        known = self.ids.get(dedup_id)
        is_known = known is not None and now_ms - known[1] < 120_000
        is_taken = options.unique_key in self.owners
        publish = self.world.broker.publish_unique if options.unique_key else self.publish_plainly
        if is_known and digest and known[2] and digest != known[2]:
            with pytest.raises(DedupMismatchError):
                await publish(b"t", payload, options)
            return
        accepted = await publish(b"t", payload, options)
        await accepted.commit.wait()
        assert accepted.is_duplicate == (is_known or is_taken)
        if is_known:
            assert accepted.message_id == known[0]
        elif not is_taken:
            if options.unique_key:
                self.owners[options.unique_key] = payload
            if dedup_id:
                self.ids[dedup_id] = accepted.message_id, now_ms, digest

    async def publish_plainly(self, name: bytes, payload: bytes, options: PublishOptions):
        return self.world.broker.publish_with(name, payload, options)

    def settle(self, act: str, number: int) -> None:
        if not self.holders:
            return
        holder = self.holders.pop(number % len(self.holders))
        if not holder.leases:
            holder.consumer.close()
            return
        if act == "dack":
            holder.consumer.dack(1)
        elif act == "reject":
            self.world.broker.admin.replace(b"t", {"max_deliveries": 1})
            holder.consumer.nack()
            self.world.broker.admin.replace(b"t", {})
        else:
            getattr(holder.consumer, act)()
        if act in ("ack", "reject"):
            self.owners = {key: owner for key, owner in self.owners.items() if owner not in holder.payloads}

    async def fail(self, *, is_applied: bool) -> None:
        """Make the store fail at a publish, and read from the store whether it was done."""
        await self.world.commit()
        store = self.world.store
        store.fail_writes, store.applies_failed = {store.write_count + 1}, is_applied
        options = PublishOptions(dedup_id=b"f%d" % self.count, unique_key=b"f%d" % self.count)
        self.count += 1
        try:
            accepted = await self.world.broker.publish_unique(b"t", b"%d" % self.count, options)
            await accepted.commit.wait()
        except (OutcomeUnknownError, UnavailableError, LimitReachedError):
            self.holders = [holder for holder in self.holders if not holder.leases]  # who waits goes on waiting
        await settle_down()
        accepted = await self.world.broker.publish_unique(b"t", b"%d" % self.count, options)
        await accepted.commit.wait()
        assert accepted.is_duplicate == is_applied
        self.owners[options.unique_key] = b"%d" % self.count

    async def compare(self) -> None:
        """Compare what is stored with what is known; the audit says whether keys and messages agree."""
        await self.world.commit()
        await settle_down()
        pairs = self.world.store.pairs()
        found = {dedup.unique_key_and_message_id(key)[0] for key in pairs if key[0] == keys.Space.UNIQUE}
        assert found == self.owners.keys()
        audit = Audit()
        for key, value in sorted(pairs.items()):
            audit.take(key, value)
        audit.finish()
        assert [text for text in map(str, audit.problems.kept) if "unique key" in text or "dedup" in text] == []


@settings(max_examples=100, deadline=None)
@given(st.lists(STEP, max_size=30))
def test_what_is_a_duplicate_is_never_in_doubt(steps):
    async def body(world):
        topic = Run(world)
        for act, argument in steps:
            await topic.step(act, argument)
            await topic.compare()

    run(body)
