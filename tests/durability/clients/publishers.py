"""Clients that publish until their connection ends, and log their requests and the replies."""

import base64
from collections import deque
from random import Random
from typing import NamedTuple

import hiredis
import orjson

from miniqueue_client import DisconnectedError, Http2Client, connect
from tests.durability.clients.events import Act
from tests.durability.clients.messages import payload_of
from tests.durability.clients.recorder import Recorder
from tests.durability.clients.resp import Resp
from tests.serving import NDJSON, Lines

#: Error words that say that nothing was published; every other refusal leaves it open.
REFUSALS = ("READONLY", "DRAINING", "FULL", "TOOBIG", "TRYAGAIN")


class Ports(NamedTuple):
    """Where a broker listens, and the certificate to trust."""

    resp: int
    https: int
    monitor: int
    ca: str


class _Asked(NamedTuple):
    op: int
    ids: tuple[int, ...]


async def publish_over_resp(ports: Ports, recorder: Recorder, topics: list[str], random: Random) -> None:
    """Publish runs of PUBLISH, and MPUBLISH, a few at a time."""
    connection = await Resp.connect(ports.resp)
    client = recorder.new_client("publisher")
    asked: deque[_Asked] = deque()
    try:
        while True:
            commands = [_command(recorder, client, random.choice(topics), random, asked) for _ in range(_few(random))]
            connection.send(*commands)
            while len(asked) > random.choice((0, 0, 8)):
                _note(recorder, asked[0], await connection.hear())
                asked.popleft()
    finally:
        connection.close()
        for operation in asked:
            recorder.unknown(operation.op)


def _few(random: Random) -> int:
    return random.choice((1, 1, 2, 5, 20))


def _command(recorder: Recorder, client: str, topic: str, random: Random, asked: deque[_Asked]) -> tuple[bytes, ...]:
    ids = recorder.new_ids(random.choice((1, 1, 1, 1, 1, 2, 7)))
    asked.append(_Asked(recorder.invoke(client, Act.PUBLISH, topic, ids), ids))
    word = b"PUBLISH" if len(ids) == 1 and random.random() < 0.8 else b"MPUBLISH"
    return (word, topic.encode(), *map(payload_of, ids))


def _note(recorder: Recorder, asked: _Asked, reply: object) -> None:
    if isinstance(reply, hiredis.ReplyError):
        (recorder.fail if is_refusal(reply) else recorder.unknown)(asked.op)
    elif isinstance(reply, list):
        recorder.ok(asked.op, tuple(_seq(id_.decode()) for id_ in reply))
    else:
        assert reply == b"OK", reply
        recorder.ok(asked.op)


def is_refusal(error: hiredis.ReplyError) -> bool:
    """Whether an error says that nothing was published."""
    return str(error).startswith(REFUSALS)


def _seq(message_id: str) -> int:
    return int(message_id.partition("-")[2])


async def publish_over_http(ports: Ports, recorder: Recorder, topics: list[str], random: Random) -> None:
    """Publish JSON lines on one request, a few at a time."""
    http = await connect("localhost", ports.https, cafile=ports.ca)
    asked: deque[_Asked] = deque()
    try:
        await _publish_lines(http, recorder, random.choice(topics), random, asked)
    except DisconnectedError as exc:
        raise ConnectionResetError(str(exc)) from exc
    finally:
        http.close()
        for operation in asked:
            recorder.unknown(operation.op)


async def _publish_lines(
    http: Http2Client, recorder: Recorder, topic: str, random: Random, asked: deque[_Asked]
) -> None:
    client = recorder.new_client("http-publisher")
    stream = await http._begin(b"POST", f"/publish/{topic}".encode(), NDJSON)
    lines = Lines(stream)
    while True:
        for id_ in recorder.new_ids(_few(random)):
            asked.append(_Asked(recorder.invoke(client, Act.PUBLISH, topic, (id_,)), (id_,)))
            stream.write(orjson.dumps({"msg": base64.b64encode(payload_of(id_)).decode()}) + b"\n")
        while asked:
            reply = await lines.hear()
            if reply is None:
                raise ConnectionResetError("the reply has ended")
            operation = asked.popleft()
            if "id" in reply:
                recorder.ok(operation.op, (_seq(str(reply["id"])),))
            else:
                recorder.unknown(operation.op)


async def publish_one(port: int, recorder: Recorder, topic: str) -> int:
    """Publish one message, which confirms all that was settled before; return its id."""
    (id_,) = recorder.new_ids(1)
    asked = _Asked(recorder.invoke(recorder.new_client("publisher"), Act.PUBLISH, topic, (id_,)), (id_,))
    try:
        await _publish_one(port, recorder, topic, asked)
    except ConnectionError:
        recorder.unknown(asked.op)
        raise
    return id_


async def _publish_one(port: int, recorder: Recorder, topic: str, asked: _Asked) -> None:
    connection = await Resp.connect(port)
    try:
        _note(recorder, asked, await connection.ask(b"PUBLISH", topic.encode(), payload_of(asked.ids[0])))
    finally:
        connection.close()
