"""Commands on RESP connections: whatever comes, a connection answers in RESP, and ends in good order.

Documented: nothing leaves a connection; errors are replies. Others on the broker go on.
"""

import asyncio
from random import Random

import hiredis
from structlog.testing import capture_logs

from miniqueue.server.resp.server import RespServer
from miniqueue.storage.memory import MemoryStore
from tests.fakes import FakeTransport, ManualClock, broker_on, settle_down
from tests.fuzz.engine import Target, chance_of
from tests.fuzz.pieces import cut, payload, some
from tests.wire.test_resp_commands import bulks

MAX_MESSAGE_BYTES = 200
_TURNS = 20

_OPENINGS = tuple(
    opening.split()
    for opening in b"""
    PUBLISH t | MPUBLISH t | MPUBLISH t a b | SUBSCRIBE t | SUBSCRIBE t PREFETCH 3 |
    PUB t a KEY | PUB t a DELAY 1 HEADER h | PUB t a TTL 1 PRIORITY low DEDUP |
    SUBSCRIBE t PREFETCH | ACK | ACK 1 | ACK 1 2 | NACK | NACK 1 | BACK | BACK 1 | DACK | DACK 1 |
    DACK 5 1 | DACK 0.5 | TOPICS | TOPIC DELETE t | TOPIC DELETE | TOPIC | PING | INFO | HELLO 3 |
    HELLO 2 | HELLO 3 AUTH default x SETNAME me | HELLO | AUTH | AUTH x | AUTH default x |
    CLIENT SETNAME me | CLIENT LIST | CLIENT SETINFO LIB-NAME x | CLIENT | CLIENT GETNAME | COMMAND |
    COMMAND INFO PING | COMMAND DOCS | COMMAND COUNT | CONFIG GET * | CONFIG GET *o*t* | CONFIG |
    SELECT 0 | ECHO | RESET | QUIT | EVAL | MONITOR | DEBUG SLEEP 0 | MULTI | EXEC | DISCARD |
    RECEIVEANY TOPICS t u | RECEIVEANY COUNT 2 PATTERN * | SEARCH t HEADER a b HEADER c d HEADER e f |
    MESSAGES DELETE t CONTAINS a | MESSAGES FRONT t KEY k TASK | TASK LIST | EVENTS
    """.split(b"|")
)


def _make(chance: Random) -> bytes:
    make = chance.choice((_consumption, _mixture))
    return b"".join(bulks(*command) for command in make(chance))


def _consumption(chance: Random) -> list[list[bytes]]:
    """Return what a consumer sends that has something to consume."""
    published = [[b"PUBLISH", b"t", payload(chance)[: MAX_MESSAGE_BYTES + 1]] for _ in range(chance.randint(1, 5))]
    prefetch = chance.choice((None, None, 1, 3))
    settled = [_settle(chance, prefetch) for _ in range(chance.randint(1, 6))]
    subscribe = [b"SUBSCRIBE", b"t"] + ([b"PREFETCH", b"%d" % prefetch] if prefetch else [])
    return [*published, subscribe, *settled, *some(chance, _OPENINGS, 2)]


def _settle(chance: Random, prefetch: int | None) -> list[bytes]:
    command = list(chance.choice(([b"ACK"], [b"NACK"], [b"BACK"], [b"DACK", b"0"], [b"DACK", b"5"])))
    return command + [b"%d" % chance.randint(1, 5) for _ in range(chance.randint(1, prefetch) if prefetch else 0)]


def _mixture(chance: Random) -> list[list[bytes]]:
    """Return any commands, with more words or other ones at times."""
    commands = [list(chance.choice(_OPENINGS)) for _ in range(chance.randint(1, 8))]
    for command in commands:
        if chance.random() < 1 / 3:
            command.extend(some(chance, (payload(chance), b"t", b"1", b"0"), 2))
        if chance.random() < 1 / 8:
            command[chance.randrange(len(command))] = payload(chance)
    return commands


def _check(stream: bytes) -> None:
    with capture_logs():
        asyncio.run(_serve(stream))


async def _serve(stream: bytes) -> None:
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    clock = ManualClock()
    broker = broker_on(MemoryStore(), clock, max_message_bytes=MAX_MESSAGE_BYTES)
    await broker.start()
    server = RespServer(broker, {"port": "6379"})
    await _talk(server, cut(chance_of(stream), stream))
    clock.advance(seconds=10)
    broker.tick()
    await _turns()
    await _check_others(server)
    await broker.stop()
    assert not server.connections
    assert not faults, faults


async def _talk(server: RespServer, pieces: list[bytes]) -> None:
    """Send the pieces on a connection, and end it."""
    connection = server()
    transport = FakeTransport(connection)
    connection.connection_made(transport)
    for piece in pieces:
        if not transport.is_closed:
            connection.data_received(piece)
            await asyncio.sleep(0)
    await _turns()
    if not transport.is_closed:
        connection.eof_received()
        await _turns()
    transport.lose()
    _check_replies(transport.take())


async def _turns() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)


def _check_replies(sent: bytes) -> None:
    """All that was sent are whole replies."""
    reader = hiredis.Reader()
    reader.feed(sent + b"+the end\r\n")
    *_, last = iter(reader.gets, False)
    assert last == b"the end"


async def _check_others(server: RespServer) -> None:
    """Somebody else is served as if nothing had been."""
    connection = server()
    transport = FakeTransport(connection)
    connection.connection_made(transport)
    connection.data_received(bulks(b"PUBLISH", b"fresh", b"x") + bulks(b"SUBSCRIBE", b"fresh"))
    await settle_down()
    assert transport.take() == b"+OK\r\n$1\r\nx\r\n"
    transport.lose()


TARGET = Target(
    "resp_connections",
    _make,
    _check,
    tokens=tuple(sorted({word for opening in _OPENINGS for word in opening})),
    quick_inputs=200,
)
