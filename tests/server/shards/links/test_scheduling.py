"""One schedule of a name in all shards, whoever sets and deletes it at once, and whatever ends in between."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import hiredis
import pytest

from miniqueue.broker.delays.schedules import TICK_HEADER
from miniqueue.core.message import attributes
from miniqueue.core.message.parts import part_for, part_name
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.settings.placing import Placing
from miniqueue.core.settings.schedule import Schedule
from miniqueue.core.settings.settings import TopicSettings
from miniqueue.core.settings.spreading import settings_of_part
from miniqueue.errors.requests import OutcomeUnknownError, ShardAwayError
from miniqueue.server.asgi.replies import status_of_code
from miniqueue.server.shards.links.peers import Peers
from miniqueue.server.shards.links.scheduling import CREATED, REPLACED, Home, Steps, words_of
from miniqueue.wire.resp_parser import encode_command
from tests.fakes import FakeTransport, FaultyStore, ManualClock, broker_on, settle_down
from tests.server.shards.http.conftest import fleet
from tests.server.shards.http.fleet import COUNT, PLACING, TOPICS
from tests.server.shards.http.tunnels import until
from tests.server.shards.resp.conftest import connect

__all__ = ["connect", "fleet"]

NAME = b"report"
#: More steps than any order has.
MOST_STEPS = 8
HOURLY = [Schedule(topic.encode(), topic.encode(), every_ms=3_600_000) for topic in TOPICS]


class Homeless:
    """Shards without links, whose home can end at each of its steps, or fail to reach a shard."""

    def __init__(self, brokers, stores, clock) -> None:
        self.brokers, self.stores, self.clock = brokers, stores, clock
        self.shards = [Steps(broker, Peers(Placing(number, COUNT), [])) for number, broker in enumerate(brokers)]
        self.fault = ""
        self.steps_before_fault = MOST_STEPS
        self.home = self.new_home()

    def new_home(self) -> Home:
        return Home(Placing(Placing(0, COUNT).shard_of(NAME), COUNT), self._step)

    async def _step(self, shard: int, command: list[bytes]) -> bytes:
        self.steps_before_fault -= 1
        if self.steps_before_fault:
            return await self.shards[shard].take(command)
        if self.fault == "away":
            raise ShardAwayError("away")
        if self.fault in ("taken, and the home ends", "taken, and not answered"):
            await self.shards[shard].take(command)
        if self.fault in ("not taken, and not answered", "taken, and not answered"):
            raise OutcomeUnknownError("unknown")
        await asyncio.Event().wait()  # until the home ends
        raise AssertionError

    async def order(self, *words: bytes) -> bytes:
        """Return the reply to an order; b"" if the home has ended."""
        return await self.obey([words[0], NAME, b"", *words[1:]])

    async def obey(self, command: list[bytes]) -> bytes:
        task = asyncio.create_task(self.home.obey(command))
        await settle_down()
        if task.done():
            return task.result()
        task.cancel()
        self.home = self.new_home()
        return b""

    def held(self) -> list[int]:
        """Return the shards that have the schedule."""
        return [number for number, broker in enumerate(self.brokers) if NAME in broker.scheduler.names]

    async def start_again(self, number: int) -> None:
        """Stop a shard, and start another one on its store."""
        before = self.brokers[number]
        await before.stop()
        self.brokers[number] = broker_on(self.stores[number], self.clock)
        self.brokers[number].place(Placing(number, COUNT))
        await self.brokers[number].start()
        self.shards[number] = Steps(self.brokers[number], Peers(Placing(number, COUNT), []))

    async def spread(self, number: int, settings: TopicSettings) -> None:
        """Create a spread topic in a shard, or change its settings, with the parts that the shard has."""
        admin = self.brokers[number].admin
        await admin.assume(SPREAD, settings).wait()
        for part in (part_name(SPREAD, each) for each in range(settings.spread)):
            if PLACING.shard_of(part) == number:
                await admin.assume(part, settings_of_part(settings)).wait()

    async def tick(self, seconds: float) -> None:
        self.clock.advance(seconds)
        for broker in self.brokers:
            broker.tick()
        await settle_down()

    async def ticks(self, part: bytes) -> list[int]:
        """Return the ticks whose messages are in a part, in their order."""
        messages = await self.brokers[PLACING.shard_of(part)].inspect.peek(part, count=100)
        headers = [dict(attributes.decode(message.stored.attributes).headers) for message in messages]
        return [int(each[TICK_HEADER]) for each in headers]


@asynccontextmanager
async def homeless() -> AsyncIterator[Homeless]:
    brokers, stores, clock = [], [FaultyStore() for _ in range(COUNT)], ManualClock()
    for number in range(COUNT):
        brokers.append(broker_on(stores[number], clock))
        brokers[-1].place(Placing(number, COUNT))
        await brokers[-1].start()
    try:
        yield Homeless(brokers, stores, clock)
    finally:
        for broker in brokers:
            await broker.stop()


FAULTS = [
    "away",
    "not taken, and the home ends",
    "taken, and the home ends",
    "not taken, and not answered",
    "taken, and not answered",
]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("before", [[], [0], [1]], ids=["new", "in shard 0", "in shard 1"])
@pytest.mark.parametrize("target", [0, 1, 2])
async def test_a_schedule_whose_setting_is_interrupted_at_any_step_is_there_once(fault, before, target):
    for steps in range(1, MOST_STEPS):
        async with homeless() as shards:
            for shard in before:
                assert await shards.order(b"SET", *words_of(HOURLY[shard])) == CREATED
            shards.fault, shards.steps_before_fault = fault, steps
            reply = await shards.order(b"SET", *words_of(HOURLY[target]))
            assert len(shards.held()) >= len(before)  # at no time is there none
            was_hit = shards.steps_before_fault <= 0
            shards.steps_before_fault = MOST_STEPS * MOST_STEPS
            await shards.home.look()
            assert len(shards.held()) == 1 or (was_hit and not before and not shards.held())
            if reply in (CREATED, REPLACED):
                assert shards.held() == [target]
            assert await shards.order(b"SET", *words_of(HOURLY[2])) in (CREATED, REPLACED)
            assert shards.held() == [2]
        if not was_hit:
            assert reply == (REPLACED if before else CREATED)
            return
    raise AssertionError("there were more steps than expected")


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_deletion_that_is_interrupted_at_any_step_deletes_the_schedule_or_leaves_one(fault):
    for steps in range(1, MOST_STEPS):
        async with homeless() as shards:
            assert await shards.order(b"SET", *words_of(HOURLY[1])) == CREATED
            shards.fault, shards.steps_before_fault = fault, steps
            reply = await shards.order(b"DELETE")
            was_hit = shards.steps_before_fault <= 0
            shards.steps_before_fault = MOST_STEPS * MOST_STEPS
            await shards.home.look()
            assert shards.held() in ([], [1])
            if reply == b"+OK\r\n":
                assert shards.held() == []
            if reply.startswith(b"-TRYAGAIN"):
                assert shards.held() == [1]
        if not was_hit:
            assert reply == b"+OK\r\n"
            return
    raise AssertionError("there were more steps than expected")


# --- a schedule of a spread topic that gets more parts --------------------------------------------------------

SPREAD = TOPICS[0].encode()
COUNTS = (2, 4, 7)
#: The settings of the topic at first, and after each growth.
FEW, MORE, MOST = (
    TopicSettings(spread=count, spread_before=tuple((before, 1) for before in COUNTS[:number]))
    for number, count in enumerate(COUNTS)
)


def parts_of(key: bytes) -> list[bytes]:
    """Return the part of a key by each number of parts."""
    return [part_name(SPREAD, part_for(key, count)) for count in COUNTS]


#: A key whose part is in another shard after each growth; the shard that homes ask first has it at first.
KEY = next(
    key for key in (b"%d" % number for number in range(1000)) if [*map(PLACING.shard_of, parts_of(key))] == [0, 2, 1]
)
OLD_PART, NEW_PART, LAST_PART = parts_of(KEY)
OLD, NEW, LAST = map(PLACING.shard_of, (OLD_PART, NEW_PART, LAST_PART))
SECONDLY = Schedule(OLD_PART, b"x", every_ms=1000, options=PublishOptions(key=KEY))


@asynccontextmanager
async def grown() -> AsyncIterator[Homeless]:
    """Yield shards with a schedule that has published twice in the part of its key, which is elsewhere since."""
    async with homeless() as shards:
        for number in range(COUNT):
            await shards.spread(number, FEW)
        assert await shards.order(b"SET", *words_of(SECONDLY)) == CREATED
        await shards.tick(1.5)
        for number in (NEW, OLD, LAST):
            await shards.spread(number, MORE)
            await shards.tick(0.5)
        yield shards


@pytest.mark.parametrize("ends", [OLD, NEW, None], ids=["the old shard ends", "the new shard ends", "no shard ends"])
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_schedule_that_moves_to_a_new_part_has_one_message_for_each_tick(fault, ends):
    for steps in range(1, MOST_STEPS):
        async with grown() as shards:
            start_ms = shards.clock.now_ms() - 3000
            shards.fault, shards.steps_before_fault = fault, steps
            await shards.obey([b"PLACE", NAME])
            was_hit = shards.steps_before_fault <= 0
            shards.steps_before_fault = MOST_STEPS * MOST_STEPS
            await shards.tick(1)
            if ends is not None:
                await shards.start_again(ends)
            await shards.tick(0.5)
            await shards.home.look()
            await shards.tick(1)
            if OLD in shards.held():
                assert shards.held() == [OLD]
                assert await shards.obey([b"PLACE", NAME]) == b"+OK\r\n"
            assert shards.held() == [NEW]
            await shards.tick(1)
            ticks = [*await shards.ticks(OLD_PART), *await shards.ticks(NEW_PART)]
            assert ticks == [start_ms + 1000 * number for number in range(1, 7)]
        if not was_hit:
            return
    raise AssertionError("there were more steps than expected")


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_schedule_whose_move_is_interrupted_by_another_growth_has_one_message_for_each_tick(fault):
    for steps in range(1, MOST_STEPS):
        async with grown() as shards:
            start_ms = shards.clock.now_ms() - 3000
            shards.fault, shards.steps_before_fault = fault, steps
            await shards.obey([b"PLACE", NAME])
            was_hit = shards.steps_before_fault <= 0
            shards.steps_before_fault = MOST_STEPS * MOST_STEPS
            await shards.tick(1.5)
            for number in (LAST, OLD, NEW):
                await shards.spread(number, MOST)
            await shards.tick(1)
            shards.home = shards.new_home()
            assert await shards.obey([b"PLACE", NAME]) == b"+OK\r\n"
            assert shards.held() == [LAST]
            await shards.tick(1)
            ticks = [tick for part in (OLD_PART, NEW_PART, LAST_PART) for tick in await shards.ticks(part)]
            assert ticks == [start_ms + 1000 * number for number in range(1, 7)]
        if not was_hit:
            return
    raise AssertionError("there were more steps than expected")


async def test_anew_home_finds_what_one_before_it_has_left_in_two_shards():
    async with homeless() as shards:
        for shard in (0, 2):
            await shards.shards[shard].take([b"PUT", NAME, b"", *words_of(HOURLY[shard])])
        tending = asyncio.create_task(shards.home.tend())
        await settle_down()
        assert shards.held() == [0]
        tending.cancel()
        await asyncio.wait([tending])


async def test_steps_of_a_link_that_a_home_has_replaced_are_not_late():
    async with homeless() as shards:
        steps, step = shards.shards[1], encode_command([b"PUT", NAME, b"", *words_of(HOURLY[1])])
        first = steps.answering("0")
        transport = FakeTransport(first)
        first.connection_made(transport)
        first.data_received(step)
        second = steps.answering("0")
        await settle_down()
        assert (shards.held(), transport.written) == ([], b"")
        second.connection_made(answers := FakeTransport(second))
        second.data_received(step)
        await settle_down()
        assert (shards.held(), answers.written) == ([1], CREATED)


async def test_clients_that_set_a_schedule_in_different_shards_at_once_leave_one(fleet, connect):
    clients = [connect(door) for door in range(COUNT)]
    for _ in range(10):
        setting = [
            client.ask(b"SCHEDULE", b"SET", NAME, b"EVERY", b"1h", topic.encode(), b"x")
            for client, topic in zip(clients, TOPICS, strict=True)
        ]
        assert await asyncio.gather(*setting) == [b"+OK\r\n"] * COUNT
        assert sum(member.broker.scheduler.count for member in fleet.members) == 1
    deleting = [client.ask(b"SCHEDULE", b"DELETE", NAME) for client in clients]
    deleted = sorted(await asyncio.gather(*deleting))
    assert [reply.split()[0] for reply in deleted] == [b"+OK", b"-NOSCHEDULE", b"-NOSCHEDULE"]


async def test_errors_of_the_shard_with_the_topic_are_those_of_both_protocols(fleet, connect):
    client = connect(0)
    refused = await client.ask(b"SCHEDULE", b"SET", NAME, b"CRON", b"x", TOPICS[2].encode(), b"x")
    over_http = await fleet.ask("PUT", f"/schedules/{NAME.decode()}", orjson_of(TOPICS[2], cron="x"))
    reader = hiredis.Reader()
    reader.feed(refused)
    assert str(reader.gets()) == f"{over_http.code} {over_http.json['error']}"
    assert over_http.status == 400
    statuses = {"LIMIT": 507, "FULL": 507, "READONLY": 503, "TOOBIG": 413, "BADTOPIC": 400, "NOSCHEDULE": 404}
    assert {code: status_of_code(code) for code in statuses} == statuses
    assert status_of_code("NOSUCH") == 500


def orjson_of(topic: str, **members: str) -> bytes:
    pairs = ",".join(f'"{name}":"{value}"' for name, value in {"topic": topic, "text": "x", **members}.items())
    return f"{{{pairs}}}".encode()


# --- what looks at a schedule that moves ----------------------------------------------------------------------


@pytest.fixture
async def moving(fleet, connect, monkeypatch):
    """Yield a function that lets a schedule go on, which moves to another shard, and is in both."""
    go_on, take = asyncio.Event(), Steps.take

    async def take_late(self: Steps, command: list[bytes]) -> bytes:
        if command[0] == b"DROP":
            await go_on.wait()
        return await take(self, command)

    setter = connect(1)
    words = b"SCHEDULE", b"SET", NAME, b"EVERY", b"3600"
    assert await setter.ask(*words, TOPICS[0].encode(), b"x") == b"+OK\r\n"
    monkeypatch.setattr(Steps, "take", take_late)
    setter.tell((*words, TOPICS[1].encode(), b"y"))
    await until(lambda: sum(NAME in member.broker.scheduler.names for member in fleet.members) == 2)
    return go_on.set


@pytest.mark.parametrize("word", [b"GET", b"FIRE"])
async def test_a_schedule_that_moves_is_waited_for(fleet, connect, moving, word):
    client = connect(2)
    client.tell((b"SCHEDULE", word, NAME))
    await settle_down()
    assert client.transport.written == b""
    moving()
    [reply] = await client.hear()
    assert not reply.startswith(b"-")
    lengths = [await client.ask(b"LEN", topic.encode()) for topic in TOPICS[:2]]
    assert lengths == [b":0\r\n", b":1\r\n" if word == b"FIRE" else b":0\r\n"]


@pytest.mark.parametrize(("method", "below"), [("GET", ""), ("POST", "/fire")])
async def test_a_schedule_that_moves_is_waited_for_over_http(fleet, moving, method, below):
    asking = asyncio.create_task(fleet.ask(method, f"/schedules/{NAME.decode()}{below}", door=2))
    await settle_down()
    assert not asking.done()
    moving()
    assert (await asking).status == 200


async def test_a_schedule_that_is_nowhere_is_not_found_and_one_that_may_be_in_a_shard_away_is_asked_for_later(
    fleet, connect
):
    client = connect(0)
    for word in (b"GET", b"FIRE"):
        assert (await client.ask(b"SCHEDULE", word, NAME)).startswith(b"-NOSCHEDULE")
    assert (await fleet.ask("GET", "/schedules/report")).code == "NOSCHEDULE"
    away = next(shard for shard in range(COUNT) if shard != Placing(0, COUNT).shard_of(NAME))
    fleet.lose(away)
    for word in (b"GET", b"FIRE"):
        assert (await client.ask(b"SCHEDULE", word, NAME)).startswith(b"-TRYAGAIN")
    assert (await fleet.ask("POST", "/schedules/report/fire")).code == "TRYAGAIN"
    fleet.find()
