"""Streams of spread topics over HTTP: one stream for the client, whatever its parts do."""

import asyncio
from base64 import b64decode

import orjson
import pytest

from miniqueue.core.message.parts import part_name
from tests.server.shards.http.fleet import COUNT, Fleet
from tests.server.shards.http.test_spread import PARTS, TOPIC, spread
from tests.server.shards.http.tunnels import Client, scope_of, until


@pytest.fixture
async def fleet(fleet: Fleet) -> Fleet:
    await spread(fleet)
    return fleet


class Stream:
    """A client that subscribes at a door."""

    def __init__(self, fleet: Fleet, query: str = "", door: int = 0) -> None:
        self.client = Client()
        self._app = fleet.members[door].door
        scope = scope_of("POST", f"/subscribe/{TOPIC}", query=query.encode())
        self.running = asyncio.create_task(self._app(scope, self.client.receive, self.client.send))
        self._seen = 0

    def say(self, *commands: str, is_last: bool = False) -> None:
        self.client.upload(b"".join(map(orjson.dumps, commands)), is_last=is_last)

    async def hear(self, count: int = 1) -> list:
        """Return the next lines."""
        await until(lambda: self.client.body.count(b"\n") >= self._seen + count)
        lines = self.client.body.splitlines()[self._seen : self._seen + count]
        self._seen += count
        return [orjson.loads(line) for line in lines]

    @property
    def unheard_count(self) -> int:
        return self.client.body.count(b"\n") - self._seen


async def publish(fleet: Fleet, count: int) -> list[bytes]:
    """Publish messages, one to each part in turn; return their payloads."""
    payloads = [b"%d" % number for number in range(count)]
    for payload in payloads:
        await fleet.ask("POST", f"/publish/{TOPIC}", payload)
    return payloads


def counted(fleet: Fleet, name: str) -> int:
    """Return the sum of a count of all cursors of all parts."""
    count = 0
    for number in range(PARTS):
        part = part_name(TOPIC.encode(), number)
        topic = fleet.broker_with(part.decode())._engine.topics.by_name.get(part)
        if topic is not None:
            count += sum(getattr(cursor, name) for group in topic.groups.values() for cursor in group.cursors)
    return count


def payloads_of(lines: list) -> list[bytes]:
    return [b64decode(line.get("msg", "")) for line in lines]


async def test_messages_of_all_parts_are_delivered_and_settled(fleet):
    stream = Stream(fleet, "prefetch=100", door=2)
    stream.say("INIT")
    payloads = await publish(fleet, 4 * PARTS)
    lines = await stream.hear(len(payloads))
    assert sorted(payloads_of(lines)) == sorted(payloads)

    receipts = [line["receipt"] for line in lines]
    stream.say(f"BACK {receipts[0]}", f"DACK 60 {receipts[1]}", f"NACK {receipts[2]} DELAY 60 REASON so it is")
    stream.say("ACK " + " ".join(receipts[3:]))
    [again] = await stream.hear()
    assert payloads_of([again]) == payloads_of(lines[:1])
    await until(lambda: counted(fleet, "acked_count") == len(receipts) - 3)
    stream.say(f"ACK {again['receipt']}", is_last=True)
    await stream.running
    assert stream.client.is_whole
    assert stream.unheard_count == 0
    assert counted(fleet, "leased_count") == 0
    assert counted(fleet, "acked_count") == len(receipts) - 2


async def test_a_prefetch_is_divided_among_the_parts(fleet):
    await publish(fleet, 6 * PARTS)
    stream = Stream(fleet, "prefetch=13")
    stream.say("INIT")
    lines = await stream.hear(13)
    assert counted(fleet, "leased_count") == 13
    stream.say("ACK " + " ".join(line["receipt"] for line in lines))
    await stream.hear(13)
    assert counted(fleet, "leased_count") == 13
    stream.client.leave()
    await stream.running
    await until(lambda: counted(fleet, "leased_count") == 0)


async def test_a_client_that_wants_fewer_than_there_are_parts_has_no_more(fleet):
    payloads = await publish(fleet, 3 * PARTS)
    stream = Stream(fleet, "prefetch=3")
    stream.say("INIT")
    held = await stream.hear(3)
    received = payloads_of(held)
    while len(received) < len(payloads):
        stream.say(f"ACK {held.pop(0)['receipt']}")
        held += await stream.hear()
        received.append(payloads_of(held)[-1])
    assert sorted(received) == sorted(payloads)
    assert stream.unheard_count == 0


async def test_a_stream_without_receipts_has_one_message_at_a_time(fleet):
    payloads = await publish(fleet, 2 * PARTS)
    stream = Stream(fleet, door=1)
    stream.say("INIT", "INIT")
    lines = await stream.hear(2)
    assert [line["code"] for line in lines if "code" in line] == ["OUTSTANDING"]
    received = payloads_of([line for line in lines if "code" not in line])
    for _ in range(len(payloads) - 1):
        stream.say("ACK and more")
        received += payloads_of(await stream.hear())
    assert sorted(received) == sorted(payloads)
    stream.say("DACK", "DACK soon", "DANCE", "NACK DELAY never", "REPLY x")
    assert [line["code"] for line in await stream.hear(5)] == [
        "BADDELAY",
        "BADDELAY",
        "ERR",
        "BADDELAY",
        "NOREQUEST",
    ]
    stream.say("NACK", is_last=False)
    [again] = await stream.hear()
    assert payloads_of([again]) == received[-1:]
    stream.say("ACK", "ACK")
    assert await stream.hear() == [{"error": "no message is outstanding", "code": "NOLEASE"}]
    await publish(fleet, 1)
    assert payloads_of(await stream.hear()) == [b"0"]


async def test_lines_are_those_of_any_topic(fleet):
    await fleet.ask("POST", f"/publish/{TOPIC}", b"")
    stream = Stream(fleet)
    stream.say("ACK")
    assert [line.get("code") for line in await stream.hear(2)] == ["NOLEASE", None]
    stream.say("BACK")
    assert await stream.hear() == [{}]
    stream.say("ACK")
    await fleet.ask("POST", f"/publish/{TOPIC}?key=k", b"x")
    assert await stream.hear() == [{"msg": "eA==", "key": "k"}]


async def test_unknown_receipts_of_several_parts_are_counted_together(fleet):
    await publish(fleet, 2 * PARTS)
    stream = Stream(fleet, "prefetch=100")
    stream.say("INIT")
    receipts = [line["receipt"] for line in await stream.hear(2 * PARTS)]
    stream.say("ACK " + " ".join([*receipts, *receipts[:7]]))
    [error] = await stream.hear()
    assert error["code"] == "NOLEASE"
    assert error["error"].startswith("7 of 17 receipts")
    stream.say("ACK", "ACK x", "INIT")
    assert sorted(line["code"] for line in await stream.hear(3)) == ["NOLEASE", "NOLEASE", "OUTSTANDING"]


async def test_a_stream_answers_requests(fleet):
    stream, plain = Stream(fleet, "prefetch=10", door=1), Stream(fleet, door=2)
    stream.say("INIT")
    for number in range(PARTS):
        asking = asyncio.create_task(fleet.ask("POST", f"/request/{TOPIC}", b"%d" % number))
        [line] = await stream.hear()
        stream.say(f"REPLY {line['receipt']} re: {number}")
        assert (await asking).body == b"re: %d" % number
    stream.client.leave()
    await stream.running
    plain.say("INIT")
    asking = asyncio.create_task(fleet.ask("POST", f"/request/{TOPIC}", b"plain"))
    await plain.hear()
    plain.say("REPLY yes")
    assert (await asking).body == b"yes"


async def test_a_stream_creates_its_group_in_all_parts_before_it_begins(fleet):
    payloads = await publish(fleet, 2 * PARTS)
    stream = Stream(fleet, "prefetch=100&group=audit", door=2)
    await stream.client.wait_for(1)
    await fleet.ask("POST", f"/topics/{TOPIC}/receive?count=100&autoack=true")
    stream.say("INIT")
    assert sorted(payloads_of(await stream.hear(2 * PARTS))) == sorted(payloads)
    stream.client.leave()
    await stream.running


async def test_a_stream_that_is_refused_gets_the_error(fleet):
    refused = await fleet.ask("POST", f"/subscribe/{TOPIC}?member=")
    assert (refused.status, refused.code) == (400, "BADMEMBER")
    wrong = Stream(fleet, "prefetch=5")
    wrong.say("INIT")
    wrong.client.upload(b"nonsense")
    [error] = await wrong.hear()
    await wrong.running
    assert (error["code"], wrong.client.is_whole) == ("BADLINE", True)


async def test_a_stream_ends_with_the_stream_of_a_part(fleet):
    await publish(fleet, PARTS)
    stopped, broken = Stream(fleet, "prefetch=10"), Stream(fleet, "prefetch=10&group=g")
    for stream in (stopped, broken):
        stream.say("INIT")
        await stream.hear(PARTS)
    fleet.members[1].http.drain()
    await stopped.running
    assert stopped.client.is_whole
    await until(lambda: counted(fleet, "leased_count") == 0)
    fleet.lose(2)
    refused = await fleet.ask("POST", f"/subscribe/{TOPIC}")
    assert (refused.status, refused.code) == (503, "TRYAGAIN")


async def test_a_part_carries_out_what_the_client_has_sent_before_the_end_while_others_end(fleet):
    for _ in range(20):
        await fleet.ask("POST", f"/publish/{TOPIC}?key=k", b"x")
    stream = Stream(fleet, "prefetch=100")
    stream.say("INIT")
    receipts = [line["receipt"] for line in await stream.hear(20)]
    stream.say(*[f"ACK {receipt}" for receipt in 2 * receipts], is_last=True)
    await stream.running
    assert stream.client.is_whole
    assert counted(fleet, "acked_count") == stream.unheard_count == len(receipts)


@pytest.mark.parametrize(("method", "body"), [("PATCH", b'{"spread":8}'), ("DELETE", b"")], ids=["grows", "is deleted"])
@pytest.mark.parametrize("door", range(COUNT))
async def test_a_stream_ends_when_the_topic_gets_other_parts(fleet, method, body, door):
    await publish(fleet, PARTS)
    stream = Stream(fleet, "prefetch=100", door=door)
    stream.say("INIT")
    [line, *_] = await stream.hear(PARTS)
    stream.say(f"ACK {line['receipt']}")
    assert (await fleet.ask(method, f"/topics/{TOPIC}", body)).status == 200
    await stream.running
    assert stream.client.is_whole
    assert stream.unheard_count == 0
    assert counted(fleet, "leased_count") == 0
    if method == "PATCH":
        again = Stream(fleet, "prefetch=100", door=door)
        again.say("INIT", is_last=True)
        assert len(await again.hear(PARTS - 1)) == PARTS - 1
        await again.running


async def test_other_settings_do_not_end_a_stream(fleet):
    stream = Stream(fleet, "prefetch=100")
    stream.say("INIT")
    await stream.client.wait_for(1)
    assert (await fleet.ask("PATCH", f"/topics/{TOPIC}", b'{"max_messages":99}')).status == 200
    [payload] = await publish(fleet, 1)
    assert payloads_of(await stream.hear()) == [payload]
    stream.client.leave()
    await stream.running


async def test_the_stream_of_a_client_is_not_whole_if_a_shard_is_lost(fleet):
    stream = Stream(fleet, "prefetch=10")
    stream.say("INIT")
    await publish(fleet, PARTS)
    await stream.hear(PARTS)
    fleet.lose(2)
    await stream.running
    assert not stream.client.is_whole
    await until(lambda: counted(fleet, "leased_count") == 0)
