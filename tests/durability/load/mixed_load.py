"""A load of many kinds that leaves nothing behind: each cycle acknowledges what it publishes, or deletes its topic.

    resp    pipelined and atomic publishes of 10 B to 200 kB, a prefetch, some NACK, BACK and DACK
    http    single publishes and a stream, on a new connection each time
    lines   many messages on one request, deleted unread
    rude    clients that leave in the middle of a command, of a stream, of TLS, and that hold a message or do not read

After any number of cycles there are as many topics, messages and connections as before, so whatever grows is a leak.
"""

import asyncio
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random

from hiredis import pack_command

from miniqueue_client import connect
from tests.durability.clients.publishers import Ports
from tests.durability.clients.resp import Resp

MESSAGES = 40
PREFETCH = 16
MAX_PAYLOAD_BYTES = 200_000
SETTLES = (b"NACK", b"BACK", b"DACK 0.05")

#: One cycle; arguments: where the broker is, the topic, and what decides.
Cycle = Callable[[Ports, bytes, Random], Awaitable[Counter[str]]]


async def over_resp(ports: Ports, topic: bytes, random: Random) -> Counter[str]:
    """Publish, and take back, on one connection each."""
    publisher, consumer = await Resp.connect(ports.resp), await Resp.connect(ports.resp)
    try:
        payloads = [random.randbytes(_size(random)) for _ in range(MESSAGES)]
        half = MESSAGES // 2
        publisher.send((b"MPUBLISH", topic, *payloads[:half]), *((b"PUBLISH", topic, each) for each in payloads[half:]))
        for _ in range(MESSAGES - half + 1):
            await publisher.hear()
        consumer.send((b"SUBSCRIBE", topic, b"PREFETCH", b"%d" % PREFETCH))
        return Counter(published=MESSAGES, acknowledged=await _consume(consumer, random))
    finally:
        publisher.close()
        consumer.close()


def _size(random: Random) -> int:
    return random.choice((10, 100, 1000, 10_000, MAX_PAYLOAD_BYTES))


async def _consume(consumer: Resp, random: Random) -> int:
    """Acknowledge everything, some of it only after it has come back.

    Every reply is waited for: who closes a connection with something unread in it resets it, and what he had sent
    may be lost.
    """
    acknowledged = unanswered = 0
    while acknowledged < MESSAGES or unanswered:
        said = await consumer.hear()
        if not isinstance(said, list):
            assert said == b"OK", said
            unanswered -= 1
            continue
        is_returned = random.random() < 0.1
        consumer.send((*(random.choice(SETTLES).split() if is_returned else (b"ACK",)), said[0]))
        acknowledged += not is_returned
        unanswered += 1
    return acknowledged


async def over_http(ports: Ports, topic: bytes, random: Random) -> Counter[str]:
    """Publish, and take back, on one connection that is new."""
    count = MESSAGES // 4
    async with await connect("localhost", ports.https, cafile=ports.ca) as client:
        for _ in range(count):
            await client.publish(topic, random.randbytes(_size(random)))
        async with client.subscribe(topic) as subscription:
            for _ in range(count):
                await anext(subscription)
                subscription.ack()
    return Counter(published=count, acknowledged=count)


async def lines(ports: Ports, topic: bytes, random: Random) -> Counter[str]:
    """Publish many on one request, and delete the topic."""
    async with await connect("localhost", ports.https, cafile=ports.ca) as client:
        async for _ in client.publish_lines(topic, [random.randbytes(100)] * MESSAGES):
            pass
        await client.delete_topic(topic)
    return Counter(deleted=MESSAGES)


async def rude(ports: Ports, topic: bytes, random: Random) -> Counter[str]:
    """Leave in every way but the right one, and delete what that has left."""
    first = await Resp.connect(ports.resp)
    for _ in range(3):
        await first.ask(b"PUBLISH", topic, bytes(MAX_PAYLOAD_BYTES))
    for words in (
        b"*3\r\n$7\r\nPUBLISH\r\n$",
        pack_command((b"SUBSCRIBE", topic)),
        pack_command((b"SUBSCRIBE", topic, b"PREFETCH", b"100")),
        b"PING\r\n" * 5000,
    ):
        await _say_and_leave(ports.resp, words, is_abrupt=random.random() < 0.5)
    await _say_and_leave(ports.https, random.randbytes(100), is_abrupt=False)
    await _leave_streams(ports, topic)
    await first.ask(b"TOPIC", b"DELETE", topic)
    first.close()
    return Counter(rude=1)


async def _say_and_leave(port: int, words: bytes, *, is_abrupt: bool) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(words)
    await asyncio.sleep(0.01)  # so that the broker begins with it
    if is_abrupt:
        writer.transport.abort()
    writer.close()


async def _leave_streams(ports: Ports, topic: bytes) -> None:
    """Leave HTTP/2 with a message in hand."""
    client = await connect("localhost", ports.https, cafile=ports.ca)
    async with client.subscribe(topic) as subscription:
        await anext(subscription)
        client.close()
    context = ssl.create_default_context(cafile=ports.ca)
    _, writer = await asyncio.open_connection("localhost", ports.https, ssl=context)
    writer.write(b"POST /publish/%b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nx" % topic)
    await writer.drain()
    writer.transport.abort()


CYCLES: dict[bytes, Cycle] = {
    b"resp-1": over_resp,
    b"resp-2": over_resp,
    b"http": over_http,
    b"lines": lines,
    b"rude": rude,
}


async def run(ports: Ports, goes_on: Callable[[], bool], seed: int) -> Counter[str]:
    """Repeat every kind of cycle, all at the same time; return what was counted."""
    counts = await asyncio.gather(
        *(_repeat(cycle, ports, topic, Random(f"{seed} {topic!r}"), goes_on) for topic, cycle in CYCLES.items())
    )
    return sum(counts, Counter())


async def _repeat(
    cycle: Cycle, ports: Ports, topic: bytes, random: Random, goes_on: Callable[[], bool]
) -> Counter[str]:
    counts: Counter[str] = Counter()
    while goes_on():
        async with asyncio.timeout(60):  # a cycle takes well under a second; one that hangs is a finding
            counts += await cycle(ports, topic, random)
        counts["cycles"] += 1
    return counts
