"""Receive, settle, extend and wait, in any order, against a model of each message: where it is, and its counts."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.broker.leases.test_leases import Asked
from tests.broker.support import World, run
from tests.fakes import settle_down

T = b"t"
SECONDS = st.sampled_from([0.5, 1.0, 3.0, 5.0])
PICKS = st.lists(st.integers(-1, 7), min_size=1, max_size=5)
STEP = st.one_of(
    st.tuples(st.just("publish"), st.integers(1, 5), st.none()),
    st.tuples(st.just("receive"), st.integers(1, 6), SECONDS),
    st.tuples(st.sampled_from(["ack", "nack", "back", "dack", "reject", "extend"]), PICKS, SECONDS),
    st.tuples(st.just("wait"), st.none(), SECONDS),
    st.tuples(st.sampled_from(["restart", "delete"]), st.none(), st.none()),
)


class Run:
    """A topic, every receipt there ever was, and what must be true of each message."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.published_count = 0
        self.counts: dict[bytes, Counter[str]] = {}  # messages that still exist
        self.leased: dict[bytes, tuple[bytes, float]] = {}  # receipt: the message, and the end of its lease
        self.delayed: dict[bytes, float] = {}
        self.receipts: list[bytes] = []

    async def step(self, act, what, seconds) -> None:
        match act:
            case "publish":
                await self.publish(what)
            case "receive":
                await self.receive(what, seconds)
            case "wait":
                self.wait(seconds)
            case "restart":
                await self.world.commit()
                await self.world.restart()
                self.leased.clear()
            case "delete":
                await self.world.broker.delete_topic(T)
                self.counts, self.leased, self.delayed = {}, {}, {}
            case _:
                self.settle(act, what, seconds)
        self.compare()

    async def publish(self, count: int) -> None:
        payloads = [b"%d" % (self.published_count + n) for n in range(count)]
        self.published_count += count
        await self.world.publish(T, *payloads)
        self.counts |= {payload: Counter() for payload in payloads}

    async def receive(self, count: int, seconds: float) -> None:
        asked = Asked(self.world, max_count=count, lease_seconds=seconds, wait_seconds=60.0)
        await settle_down()
        asked.receiving.give_up()
        held = {message for message, _ in self.leased.values()}
        for lease in asked.leases:
            for payload in lease.payloads:
                assert payload not in held
                assert Counter({name: n for name, n in lease.counts._asdict().items() if n}) == self.counts[payload]
                assert self.delayed.pop(payload, 0) <= self.now
        assert set(asked.receipts).isdisjoint(self.receipts)
        self.receipts += asked.receipts
        self.leased |= {
            receipt: (payload, self.now + seconds)
            for receipt, payload in zip(asked.receipts, asked.payloads, strict=True)
        }

    @property
    def now(self) -> float:
        return self.world.clock.monotonic()

    def wait(self, seconds: float) -> None:
        self.world.clock.advance(seconds)
        self.world.broker.tick()
        for receipt, (message, deadline) in list(self.leased.items()):
            if deadline <= self.now:
                del self.leased[receipt]
                self.counts[message]["timeouts"] += 1

    def settle(self, act: str, picks: list[int], seconds: float) -> None:
        names = [self.receipts[-1 - pick] if 0 <= pick < len(self.receipts) else b"what" for pick in picks]
        expected = []
        for name in names:
            expected.append(name in self.leased)
            if name in self.leased:
                self.settle_one(act, name, seconds)
        arguments = {"dack": [seconds], "extend": [seconds], "reject": [b"broken"]}.get(act, [])
        if act == "extend":  # does not use a receipt up
            expected = [name in self.leased for name in names]
        assert getattr(self.world.broker.leases, act)(T, names, *arguments) == expected

    def settle_one(self, act: str, receipt: bytes, seconds: float) -> None:
        message, _ = self.leased[receipt]
        if act == "extend":
            self.leased[receipt] = message, self.now + seconds
            return
        del self.leased[receipt]
        if act in ("ack", "reject"):
            del self.counts[message]
        else:
            self.counts[message][f"{act}s"] += 1
        if act == "dack":
            self.delayed[message] = self.now + seconds

    def compare(self) -> None:
        stats = self.world.broker.stats().get(T)
        seen = (stats.leased, stats.ready + stats.leased + stats.delayed) if stats else (0, 0)
        assert seen == (len(self.leased), len(self.counts))


@settings(max_examples=60, deadline=None)
@given(st.lists(STEP, max_size=30))
def test_every_message_is_where_it_should_be_with_its_counts(steps):
    async def body(world):
        one = Run(world)
        await one.publish(5)
        for step in steps:
            await one.step(*step)

    run(body)
