"""What the hot paths may cost, in bytecode instructions for each message: a guard against getting slower unawares.

A path that costs more than its budget and 10 % has lost something: win it back, or raise the budget in a commit that
says what was bought. One that costs much less has a budget that guards nothing: lower it.
"""

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from random import Random
from struct import pack

import pytest

from miniqueue.broker.commit import disk_watch, journal
from miniqueue.broker.inspect import rates
from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.core.options.publish import PublishOptions
from miniqueue.server.http.app import HttpApp
from miniqueue.server.resp.server import RespServer
from miniqueue.server.security.authentication import Authenticator
from miniqueue.wire.json_lines import PublishDecoder, encode_ids
from tests.broker.steady_loop import SteadyLoop
from tests.broker.support import World, run
from tests.budget.counting import counting
from tests.fakes import FakeTransport, settle_down
from tests.server.access import sign_in_for, token_of

SLACK = 0.10
MAY_BE_BELOW = 0.20

#: Instructions for each message, CPython 3.11: other versions compile to others.
BUDGETS = {
    "publish, one in a read": 1705,
    "publish, one in a read of each of 50": 690,
    "publish, 32 in a read": 60,
    "publish, 1000 in a read": 1.9,
    "publish, 32 with keys in a read": 138,
    "a transaction of 32, in a read": 74.5,
    "a batch of 32": 75.1,
    "a batch of 1000": 5.4,
    "a batch of 1000 with keys": 7.3,
    "a batch of 1000, half of them with keys": 80,
    "a batch of 1000 with keys, to 8 partitions": 159,
    "a batch of 1000 in one word": 4.9,
    "a batch of 1000 in one word, with keys": 5.9,
    "publish, one in a read, with users": 1700,
    "publish, 1000 in a read, with users": 1.9,
    "stream, acknowledged one by one": 993,
    "stream, returned to the front": 1185,
    "stream with a prefetch of 100, acknowledged together": 19.5,
    "stream with a prefetch of 100, returned to the front together": 1218,
    "stream with a prefetch of 100, failed together and delayed": 284,
    "received 100 at a time, acknowledged together": 43.4,
    "received by key, in order, 20 at a time": 2262,
    "JSON lines, 1000 in a read": 1.8,
    "HTTP publish, one at a time": 1660,
    "HTTP publish, 32 at a time": 597,
}

#: What each message costs more where the topic is traced.
TRACE_BUDGETS = {
    "publish, one in a read": 97,
    "publish, 32 in a read": 3.0,
    "publish, 1000 in a read": 0.1,
    "stream, acknowledged one by one": 94,
    "stream, returned to the front": 86,
    "stream with a prefetch of 100, acknowledged together": 0.95,
    "received 100 at a time, acknowledged together": 1.6,
}

#: Words behind a message of a PUBEACH: how many they are, and its options.
KEYED = b"2", b"KEY", b"k*"

pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the budgets are for CPython 3.11")


def command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


class Connection:
    """A RESP connection to a broker in memory."""

    def __init__(self, world, sign_in: Authenticator | None = None) -> None:
        self._protocol = RespServer(world.broker, {}, sign_in)()
        self.transport = FakeTransport(self._protocol)
        self._protocol.connection_made(self.transport)

    def receive(self, data: bytes) -> None:
        self._protocol.data_received(data)

    async def send(self, data: bytes) -> bytes:
        self.receive(data)
        await settle_down()
        return self.transport.take()


def measured(
    body: Callable[[World], Awaitable[float]], *, is_traced: bool = False, limits: BrokerLimits | None = None
) -> float:
    """Run `body` with a broker in memory, in which the topic t may be traced; return what it returns."""
    costs: list[float] = []

    async def keep(world: World) -> None:
        if is_traced:
            await world.broker.admin.create(b"t", {"trace": True}).wait()
        costs.append(await body(world))

    run(keep, limits=limits, loop=SteadyLoop)
    return costs[0]


def cost_of_publishing(messages: int, rounds: int, *, as_user: bool = False) -> float:
    async def body(world):
        connection = Connection(world, sign_in_for() if as_user else None)
        if as_user:
            assert await connection.send(command(b"AUTH", token_of("publisher-of-all"))) == b"+OK\r\n"
        read = command(b"PUBLISH", b"t", b"x" * 10) * messages
        await connection.send(read)  # makes the topic
        with counting() as counter:
            for _ in range(rounds):
                assert await connection.send(read) == b"+OK\r\n" * messages
        return counter.count / (messages * rounds)

    return measured(body)


def cost_of_publishing_with_keys(messages: int = 32, rounds: int = 20) -> float:
    async def body(world):
        connection = Connection(world)
        read = b"".join(command(b"PUB", b"t", b"x" * 10, b"KEY", b"k%d" % number) for number in range(messages))
        await connection.send(read)  # makes the topic
        with counting() as counter:
            for _ in range(rounds):
                assert (await connection.send(read)).count(b"\r\n0-") == messages
        return counter.count / (messages * rounds)

    return measured(body)


def cost_of_transactions(messages: int = 32, rounds: int = 20) -> float:
    async def body(world):
        connection = Connection(world)
        publishes = command(b"PUBLISH", b"t", b"x" * 10) * messages
        read = command(b"MULTI") + publishes + command(b"EXEC")
        await connection.send(read)  # makes the topic
        with counting() as counter:
            for _ in range(rounds):
                assert (await connection.send(read)).endswith(b"*32\r\n" + b"+OK\r\n" * messages)
        return counter.count / (messages * rounds)

    return measured(body)


def cost_of_publishing_together(messages: int = 32, rounds: int = 20) -> float:
    async def body(world):
        connection = Connection(world)
        read = command(b"MPUBLISH", b"t", *[b"x" * 10] * messages)
        await connection.send(read)  # makes the topic
        with counting() as counter:
            for _ in range(rounds):
                assert (await connection.send(read)).startswith(b"*%d\r\n" % messages)
        return counter.count / (messages * rounds)

    return measured(body)


def cost_of_publishing_by_many(connections: int = 50, rounds: int = 5) -> float:
    """Publish one message of each client for each commit, to a topic that is within its limits."""

    async def body(world):
        clients = [Connection(world) for _ in range(connections)]
        read = command(b"PUBLISH", b"t", b"x" * 10)
        await publish_with_each(clients, read)  # makes the topic
        await publish_with_each(clients, read)
        with counting() as counter:
            for _ in range(rounds):
                await publish_with_each(clients, read)
        return counter.count / (connections * rounds)

    return measured(body, limits=BrokerLimits(max_topic_messages=10**8, max_topic_bytes=1 << 33))


async def publish_with_each(clients: list[Connection], read: bytes) -> None:
    for client in clients:
        client.receive(read)
    await settle_down()
    assert {client.transport.take() for client in clients} == {b"+OK\r\n"}


def cost_of_batches(word: bytes, *each: Sequence[bytes], rounds: int = 5, partitions: int = 1) -> float:
    """Send one of these commands after each message, by turns; a star becomes the number of the message."""
    messages = 1000

    async def body(world):
        await world.broker.admin.create(b"t", {"partitions": partitions}).wait()
        connection = Connection(world)
        words = [
            option.replace(b"*", b"%d" % number)
            for number in range(messages)
            for option in (b"x" * 10, *each[number % len(each)])
        ]
        batches = [command(word, b"t", b"%d" % number, *words) for number in range(rounds)]
        with counting() as counter:
            for batch in batches:
                assert (await connection.send(batch)).endswith(b"\r\n:0\r\n")
        return counter.count / (messages * rounds)

    return measured(body)


def cost_of_packed_batches(key: bytes = b"", messages: int = 1000, rounds: int = 10) -> float:
    async def body(world):
        connection = Connection(world)
        await world.publish(b"t", b"x")
        columns = [[b"x" * 10] * messages, *([[key % number for number in range(messages)]] if key else [])]
        words = [word for column in columns for word in (pack(f"<{messages}I", *map(len, column)), b"".join(column))]
        batches = [command(b"PUBPACKED", b"t", b"%d" % number, *words) for number in range(rounds)]
        with counting() as counter:
            for batch in batches:
                assert (await connection.send(batch)).endswith(b"\r\n:0\r\n")
        return counter.count / (messages * rounds)

    return measured(body)


def cost_of_settling(word: bytes, rounds: int = 100) -> float:
    async def body(world):
        connection = Connection(world)
        await world.publish(b"t", *[b"x" * 10] * (rounds + 1))
        await connection.send(command(b"SUBSCRIBE", b"t"))
        with counting() as counter:
            for _ in range(rounds):
                assert (await connection.send(command(word))).startswith(b"+OK\r\n$10\r\n")
        return counter.count / rounds

    return measured(body)


def cost_of_settling_together(
    word: bytes = b"ACK", prefetch: int = 100, rounds: int = 10, retry_delays: Sequence[float] = ()
) -> float:
    """Settle all that is held, and be given as many again: the same ones, where they come back to the front."""

    async def body(world):
        connection = Connection(world)
        await world.publish(b"t", *[b"x" * 10] * (prefetch * (rounds + 1)))
        await world.broker.admin.change(b"t", {"retry_delays": retry_delays}).wait()
        await connection.send(command(b"SUBSCRIBE", b"t", b"PREFETCH", b"%d" % prefetch))
        with counting() as counter:
            for number in range(rounds):
                receipts = [b"%d" % (number * prefetch + n + 1) for n in range(prefetch)]
                assert (await connection.send(command(word, *receipts))).count(b"*3\r\n") == prefetch
        return counter.count / (prefetch * rounds)

    return measured(body)


def cost_of_receiving(count: int = 100, rounds: int = 10) -> float:
    async def body(world):
        connection = Connection(world)
        await world.publish(b"t", *[b"x" * 10] * (count * rounds))
        with counting() as counter:
            for _ in range(rounds):
                await receive_and_acknowledge(connection, count)
        return counter.count / (count * rounds)

    return measured(body)


def cost_of_receiving_by_key(count: int = 20, rounds: int = 50) -> float:
    """Where keys are in order, and each message is of one of many: what is handed out together is in short runs."""
    random = Random(1)

    async def body(world):
        await world.broker.admin.create(b"t", {"ordered": True}).wait()
        for _ in range(2 * count * rounds):
            world.broker.publish_with(b"t", b"x" * 10, PublishOptions(key=b"%d" % random.randrange(count * rounds)))
        await world.commit()
        connection = Connection(world)
        await receive_and_acknowledge(connection, count)  # looks at all that is there
        with counting() as counter:
            for _ in range(rounds):
                await receive_and_acknowledge(connection, count)
        return counter.count / (count * rounds)

    return measured(body)


async def receive_and_acknowledge(connection: Connection, count: int) -> None:
    received = await connection.send(command(b"RECEIVE", b"t", b"COUNT", b"%d" % count))
    receipts = re.findall(rb"[0-9a-f]{16}-[0-9]+", received)
    assert (await connection.send(command(b"ACK", b"t", *receipts))).count(b"+OK\r\n") == count


def cost_of_json_lines(lines: int = 1000, rounds: int = 10) -> float:
    async def body(world):
        decoder = PublishDecoder(world.broker.max_message_bytes)
        await world.publish(b"t", b"x")
        with counting() as counter:
            for _ in range(rounds):
                (payloads,) = decoder.feed(b'"xxxxxxxxxx"\n' * lines)
                published = world.broker.publish(b"t", payloads)
                await published.commit.wait()
                encode_ids(published.partition, published.first_seq, len(payloads))
        return counter.count / (lines * rounds)

    return measured(body)


def cost_of_http_publishing(requests: int, rounds: int) -> float:
    """Below the application nothing is counted here: that does `test_http2_cost`."""
    headers = [(b"host", b"localhost"), (b"content-length", b"10"), (b"user-agent", b"client")]
    scope = {"type": "http", "method": "POST", "path": "/publish/t", "raw_path": b"/publish/t", "query_string": b""}

    async def receive():
        return {"type": "http.request", "body": b"x" * 10, "more_body": False}

    async def body(world):
        app = HttpApp(world.broker)
        sent = []

        async def send(message):
            sent.append(message)

        async def publish():
            await app({**scope, "headers": headers}, receive, send)

        await publish()  # makes the topic
        with counting() as counter:
            for _ in range(rounds):
                await asyncio.gather(*(publish() for _ in range(requests)))
        assert [message["status"] for message in sent[::2]] == [201] * (requests * rounds + 1)
        return counter.count / (requests * rounds)

    return measured(body)


PATHS = {
    "publish, one in a read": lambda: cost_of_publishing(1, 100),
    "publish, one in a read of each of 50": cost_of_publishing_by_many,
    "publish, 32 in a read": lambda: cost_of_publishing(32, 20),
    "publish, 1000 in a read": lambda: cost_of_publishing(1000, 5),
    "publish, 32 with keys in a read": cost_of_publishing_with_keys,
    "a transaction of 32, in a read": cost_of_transactions,
    "a batch of 32": cost_of_publishing_together,
    "a batch of 1000": lambda: cost_of_batches(b"PUBBATCH", ()),
    "a batch of 1000 with keys": lambda: cost_of_batches(b"PUBEACH", KEYED),
    "a batch of 1000, half of them with keys": lambda: cost_of_batches(b"PUBEACH", KEYED, [b"0"]),
    "a batch of 1000 with keys, to 8 partitions": lambda: cost_of_batches(b"PUBEACH", KEYED, partitions=8),
    "a batch of 1000 in one word": cost_of_packed_batches,
    "a batch of 1000 in one word, with keys": lambda: cost_of_packed_batches(b"k%03d"),
    "publish, one in a read, with users": lambda: cost_of_publishing(1, 100, as_user=True),
    "publish, 1000 in a read, with users": lambda: cost_of_publishing(1000, 5, as_user=True),
    "stream, acknowledged one by one": lambda: cost_of_settling(b"ACK"),
    "stream, returned to the front": lambda: cost_of_settling(b"NACK"),
    "stream with a prefetch of 100, acknowledged together": cost_of_settling_together,
    "stream with a prefetch of 100, returned to the front together": lambda: cost_of_settling_together(b"NACK"),
    "stream with a prefetch of 100, failed together and delayed": lambda: cost_of_settling_together(
        b"NACK", retry_delays=[60]
    ),
    "received 100 at a time, acknowledged together": cost_of_receiving,
    "received by key, in order, 20 at a time": cost_of_receiving_by_key,
    "JSON lines, 1000 in a read": cost_of_json_lines,
    "HTTP publish, one at a time": lambda: cost_of_http_publishing(1, 100),
    "HTTP publish, 32 at a time": lambda: cost_of_http_publishing(32, 20),
}


@pytest.fixture(autouse=True)
def no_commit_by_the_clock(monkeypatch):
    """Settles are committed within some milliseconds: when that falls would depend on the machine."""
    monkeypatch.setattr(journal, "SETTLE_DELAY_SECONDS", 3600)


@pytest.fixture(autouse=True)
def no_hand_out_timed(monkeypatch):
    """Some hand-outs a second are timed, however many there are: too few to count."""
    monkeypatch.setattr(rates, "SAMPLES", 0)


@pytest.fixture(autouse=True)
def no_looks_by_the_clock(monkeypatch):
    """Some things are looked at a few times a second: how often while something is counted depends on the machine."""

    async def never(_watch):
        pass

    monkeypatch.setattr(disk_watch, "LOOK_SECONDS", 3600)
    monkeypatch.setattr(rates.RateMeter, "run", never)


@pytest.mark.slow
@pytest.mark.parametrize("path", BUDGETS)
def test_the_cost_is_within_its_budget(path):
    cost, budget = PATHS[path](), BUDGETS[path]
    assert cost <= budget * (1 + SLACK), f"{cost:.1f} instructions for each message, the budget is {budget}"
    assert cost >= budget * (1 - MAY_BE_BELOW), (
        f"{cost:.1f} instructions for each message: lower the budget of {budget}"
    )


@pytest.mark.slow
@pytest.mark.parametrize("path", TRACE_BUDGETS)
def test_the_cost_of_traces_is_within_its_budget(path, monkeypatch):
    plain, budget = PATHS[path](), TRACE_BUDGETS[path]
    monkeypatch.setattr(sys.modules[__name__], "measured", partial(measured, is_traced=True))
    cost = PATHS[path]() - plain
    assert cost <= budget * (1 + SLACK), f"{cost:.2f} instructions more for each message, the budget is {budget}"
    assert cost >= budget * (1 - MAY_BE_BELOW), f"{cost:.2f} more for each message: lower the budget of {budget}"


def test_a_transaction_costs_no_more_than_a_batch():
    assert cost_of_transactions(32) <= cost_of_publishing_together(32)


def test_the_same_work_costs_the_same_each_time():
    assert cost_of_publishing(32, 3) == cost_of_publishing(32, 3)


def test_code_outside_the_package_costs_nothing():
    with counting() as counter:
        sum(n * n for n in range(1000))
    assert counter.count == 0
