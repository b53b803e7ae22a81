"""All clients at once, until the broker is gone; and one that reads a topic to its end."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from random import Random

from miniqueue_client import ConnectError
from tests.durability.clients.consumers import (
    consume_by_receiving,
    consume_one_at_a_time,
    consume_over_http,
    consume_several,
    marks_of,
)
from tests.durability.clients.events import Act, Drained
from tests.durability.clients.publishers import Ports, publish_one, publish_over_http, publish_over_resp
from tests.durability.clients.recorder import Recorder
from tests.durability.clients.resp import Resp

TOPICS = ("orders", "letters", "bills")

Client = Callable[[Ports, Recorder, list[str], Random], Awaitable[None]]

CLIENTS: tuple[Client, ...] = (
    publish_over_resp,
    publish_over_resp,
    publish_over_http,
    consume_one_at_a_time,
    consume_several,
    consume_by_receiving,
    consume_over_http,
)

#: Maximum time without a delivery from a topic that has messages; a machine can stall for a part of it.
PATIENCE_SECONDS = 60.0
#: Maximum number of messages that are leased at a time while a topic is read to its end.
DRAIN_PREFETCH = 100


async def run_clients(ports: Ports, recorder: Recorder, random: Random, clients: tuple[Client, ...] = CLIENTS) -> None:
    """Publish and consume until the broker is gone; raises what else goes wrong."""
    running = [client(ports, recorder, list(TOPICS), Random(random.random())) for client in clients]
    for outcome in await asyncio.gather(*running, return_exceptions=True):
        if not isinstance(outcome, ConnectionError | ConnectError):
            raise outcome or AssertionError("a client has ended by itself")


async def drain(ports: Ports, recorder: Recorder, topic: str) -> None:
    """Take and acknowledge everything in a topic that no other client uses; raises ConnectionError.

    A message published now comes after all that are in the log or due. Those with a delay are waited for.
    """
    last_id = await publish_one(ports.resp, recorder, topic)
    client = recorder.new_client("drain")
    connection = await Resp.connect(ports.resp)
    asked: list[int] = []
    try:
        connection.send((b"SUBSCRIBE", topic.encode(), b"PREFETCH", b"%d" % DRAIN_PREFETCH))
        await _take_until(connection, recorder, client, topic, last_id, asked)
        recorder.log(Drained(topic, left=await _take_the_rest(connection, ports, recorder, client, topic, asked)))
    finally:
        for op in asked:
            recorder.unknown(op)
        connection.close()


async def _take_until(
    connection: Resp, recorder: Recorder, client: str, topic: str, last_id: int, asked: list[int]
) -> None:
    try:
        while await _take_one(connection, recorder, client, topic, asked) != last_id:
            pass
    except TimeoutError:
        return  # the message that must be there is not: the checker will say so


async def _take_the_rest(
    connection: Resp, ports: Ports, recorder: Recorder, client: str, topic: str, asked: list[int]
) -> int:
    """Take what comes until the broker says that there is nothing left; return how many it says there are."""
    while (left := await count_messages(ports.monitor, topic)) or asked:
        try:
            await _take_one(connection, recorder, client, topic, asked)
        except TimeoutError:
            return left
    return 0


async def _take_one(connection: Resp, recorder: Recorder, client: str, topic: str, asked: list[int]) -> int | None:
    """Take one reply or delivery, and acknowledge it; return the id if it was a message."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        reply = await connection.hear()
    if not isinstance(reply, list):
        assert reply == b"OK", reply
        recorder.ok(asked.pop(0))
        return None
    receipt, payload, marks = reply
    id_ = recorder.deliver(client, topic, payload, marks_of(marks))
    if id_ is not None:
        asked.append(recorder.invoke(client, Act.ACK, topic, (id_,)))
    connection.send((b"ACK", receipt))
    return id_


async def count_messages(port: int, topic: str) -> int:
    """Return how many messages a topic has that are not acknowledged, as the monitoring port says."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"GET /stats HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
    finally:
        writer.close()
    if not answer:
        raise ConnectionResetError("closed by the broker")
    try:
        topics = json.loads(answer.partition(b"\r\n\r\n")[2])["topics"]
    except json.JSONDecodeError as exc:
        raise ConnectionResetError("closed by the broker in the middle of its answer") from exc
    counts = topics.get(topic, {})
    return sum(counts.get(state, 0) for state in ("ready", "leased", "delayed"))
