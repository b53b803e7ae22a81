"""Crowds of clients that all want much at once: `python -m tests.durability.hostile.crowds [NAME...]`.

Each crowd meets a broker of its own, without users, under `-max-memory 256MiB`. Prints how much memory of its own the
broker had at most: while the crowd was there, and when all had left at once. What clients send is made once, and what
they get is not parsed.
"""

import asyncio
import base64
import json
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from hiredis import pack_command
from hyperframe.frame import DataFrame, SettingsFrame, WindowUpdateFrame

from tests.acceptance.process import FREE_PORTS, BrokerProcess, Trust
from tests.durability.clients.resp import Resp
from tests.durability.hostile.victim import MIB, SPARE_BYTES
from tests.durability.load.measuring import own_bytes
from tests.server.hypercorn.raw_http2 import RawHttp2, connect_raw

CLIENTS = 200
#: How many of them share a connection over HTTP/2: few enough that the limit of a connection is not the first.
STREAMS = 20
MAX_MEMORY_BYTES = 256 * MIB
LARGE, SMALL = bytes(MIB - 1024), bytes(1024)
TOPIC, DEAD = b"crowded", b"dead"
WINDOW_BYTES = (1 << 31) - 1
#: How much is published in one pipeline, how long its replies may take, and in how much of a body one frame fits.
PIPELINE_BYTES, PATIENCE_SECONDS, FRAME_BYTES = 8 * MIB, 3.0, 16_000
#: How long a crowd is looked at, and how long what it has left.
STAY_SECONDS, LEFT_SECONDS = 6.0, 5.0
SAMPLE_SECONDS = 0.003

HEAD = "| crowd | while it is there | when all have left |\n|---|---|---|"


class Target(NamedTuple):
    """A broker that a crowd meets."""

    process: BrokerProcess
    ca: str


#: Returns what makes each client leave.
Crowd = Callable[[Target], Awaitable[list[Callable[[], None]]]]


class Client(asyncio.Protocol):
    """A client that discards what it reads, or reads nothing."""

    def __init__(self, *, reads: bool) -> None:
        self._reads = reads

    def connection_made(self, transport) -> None:
        self.transport = transport
        if not self._reads:
            transport.pause_reading()

    def leave(self) -> None:
        if not self.transport.is_closing():
            self.transport.abort()


async def over_resp(
    target: Target, *commands: tuple[bytes, ...], count: int = CLIENTS, reads: bool = True
) -> list[Client]:
    """Connect clients that send these commands."""
    loop, clients, sent = asyncio.get_running_loop(), list[Client](), b"".join(map(pack_command, commands))
    for _ in range(count):
        _, client = await loop.create_connection(partial(Client, reads=reads), "127.0.0.1", target.process.resp_port)
        client.transport.write(sent)
        clients.append(client)
    return clients


async def over_http2(
    target: Target, path: bytes, body: bytes, *, method: str = "POST", reads: bool = True, count: int = CLIENTS
) -> list[Callable[[], None]]:
    """Begin requests with these first bytes of a body; the windows are as large as can be, or closed."""
    leaving: list[Callable[[], None]] = []
    for _ in range(0, count, STREAMS):
        client = RawHttp2(await connect_raw(target.process.https_port, target.ca))
        client.begin({SettingsFrame.INITIAL_WINDOW_SIZE: WINDOW_BYTES if reads else 0})
        client.send(WindowUpdateFrame(0, window_increment=WINDOW_BYTES - (1 << 16)))
        client.peer.data_received = lambda data: None  # type: ignore[method-assign] # it would keep all
        for stream_id in range(1, 2 * STREAMS, 2):
            client.send(client.post(stream_id, path=path.decode(), method=method))
            for start in range(0, len(body), FRAME_BYTES):
                client.send(DataFrame(stream_id, data=body[start : start + FRAME_BYTES]))
        leaving.append(client.peer.transport.abort)
    return leaving


async def publish(target: Target, payload: bytes, count: int, *words: bytes) -> None:
    """Publish messages, as long as the broker accepts them."""
    command = (b"PUB", TOPIC, payload, *words) if words else (b"PUBLISH", TOPIC, payload)
    at_once = min(1000, PIPELINE_BYTES // len(payload))
    client = await Resp.connect(target.process.resp_port)
    with suppress(ConnectionError, TimeoutError):  # the memory is used up
        for start in range(0, count, at_once):
            some = min(at_once, count - start)
            client.send(*[command] * some)
            async with asyncio.timeout(PATIENCE_SECONDS):
                for _ in range(some):
                    await client.hear()
    client.close()


async def ask(target: Target, *command: bytes) -> None:
    client = await Resp.connect(target.process.resp_port)
    reply = await client.ask(*command)
    assert not isinstance(reply, Exception), reply
    client.close()


def _resp(*commands: tuple[bytes, ...], payload: bytes, reads: bool = True, waits: bool = False) -> Crowd:
    """Clients that send commands, beside a backlog, or before it is published."""
    count = 400 if payload is LARGE else 300_000

    async def crowd(target: Target) -> list[Callable[[], None]]:
        if not waits:
            await publish(target, payload, count)
        clients = await over_resp(target, *commands, reads=reads)
        if waits:
            await publish(target, payload, count)
        await asyncio.sleep(STAY_SECONDS)
        return [client.leave for client in clients]

    return crowd


def _http2(path: bytes, body: bytes = b"", *, method: str = "POST", reads: bool = True, waits: bool = False) -> Crowd:
    """The same over HTTP/2, with messages of 1 MiB."""

    async def crowd(target: Target) -> list[Callable[[], None]]:
        if not waits:
            await publish(target, LARGE, 400)
        leaving = await over_http2(target, path, body, method=method, reads=reads)
        if waits:
            await publish(target, LARGE, 400)
        await asyncio.sleep(STAY_SECONDS)
        return leaving

    return crowd


def _settling(command: bytes, *settings: bytes, then: tuple[bytes, ...] = ()) -> Crowd:
    """Streams that all settle at once; and then others, that send a command."""

    async def crowd(target: Target) -> list[Callable[[], None]]:
        await ask(target, b"TOPIC", b"CREATE", TOPIC, *settings)
        await publish(target, LARGE, 400)
        clients = await over_resp(target, (b"SUBSCRIBE", TOPIC))
        await asyncio.sleep(STAY_SECONDS)
        for client in clients:
            client.transport.write(pack_command((command,)))
        await asyncio.sleep(STAY_SECONDS)
        if then:
            for client in clients:
                client.leave()
            await asyncio.sleep(LEFT_SECONDS)
            clients = await over_resp(target, then)
            await asyncio.sleep(STAY_SECONDS)
        return [client.leave for client in clients]

    return crowd


async def _delayed(target: Target) -> list[Callable[[], None]]:
    due_at = time.time() + 25
    await publish(target, LARGE, 400, b"AT", b"%d" % (due_at * 1000))
    clients = await over_resp(target, PREFETCH)
    await asyncio.sleep(max(0.0, due_at - time.time()) + STAY_SECONDS)
    return [client.leave for client in clients]


async def _expired(target: Target) -> list[Callable[[], None]]:
    await ask(target, b"TOPIC", b"CREATE", TOPIC, b"expired", b"dead-letter", b"ttl_seconds", b"20", *TO_DEAD)
    await publish(target, LARGE, 300)
    await asyncio.sleep(20 + STAY_SECONDS)
    return []


async def _groups(target: Target) -> list[Callable[[], None]]:
    await ask(target, b"TOPIC", b"CREATE", TOPIC, b"retention_seconds", b"1000")
    await publish(target, LARGE, 60)
    groups = [b"g%d" % number for number in range(CLIENTS)]
    for group in groups:
        await ask(target, b"GROUP", b"CREATE", TOPIC, group, b"FROM", b"earliest")
    clients: list[Client] = []
    for group in groups:
        clients += await over_resp(target, (b"SUBSCRIBE", TOPIC, b"GROUP", group, b"PREFETCH", b"4"), count=1)
    await asyncio.sleep(STAY_SECONDS)
    return [client.leave for client in clients]


async def _transactions(target: Target) -> list[Callable[[], None]]:
    clients = await over_resp(target, (b"MULTI",), *[(b"PUBLISH", TOPIC, LARGE)] * 8, count=100)
    await asyncio.sleep(STAY_SECONDS)
    for client in clients:
        client.transport.write(pack_command((b"EXEC",)))
    await asyncio.sleep(STAY_SECONDS)
    return [client.leave for client in clients]


async def _http_transactions(target: Target) -> list[Callable[[], None]]:
    line = json.dumps({"publish": TOPIC.decode(), "msg": base64.b64encode(LARGE).decode()}).encode() + b"\n"
    leaving = await over_http2(target, b"/transactions", line, count=100)
    await asyncio.sleep(STAY_SECONDS)
    return leaving


async def _events(target: Target) -> list[Callable[[], None]]:
    clients = await over_resp(target, (b"EVENTS",), count=100, reads=False)
    leaving = await over_http2(target, b"/events", b"", method="GET", count=100, reads=False)
    client = await Resp.connect(target.process.resp_port)
    for number in range(6000):
        await client.ask(b"PUBLISH", b"topic-%05d" % number, b"")
    client.close()
    return [*[client.leave for client in clients], *leaving]


INIT = b'"INIT"\n'
PREFETCH = (b"SUBSCRIBE", TOPIC, b"PREFETCH", b"1000")
RECEIVE = (b"RECEIVE", TOPIC, b"COUNT", b"1000")
RECEIVE_ANY = (b"RECEIVEANY", b"COUNT", b"1000", b"WAIT", b"30", b"TOPICS", TOPIC)
READ = (b"READ", TOPIC, b"0", b"0", b"COUNT", b"4", b"BYTES", b"4194304")
TO_DEAD = (b"dead_letter_topic", DEAD)
CROWDS: Mapping[str, Crowd] = MappingProxyType(
    {
        "HTTP/2 streams": _http2(b"/subscribe/crowded", INIT),
        "HTTP/2 streams that do not read": _http2(b"/subscribe/crowded", INIT, reads=False),
        "HTTP/2 streams that wait": _http2(b"/subscribe/crowded", INIT, waits=True),
        "HTTP/2 streams with a prefetch": _http2(b"/subscribe/crowded?prefetch=10", INIT, reads=False),
        "SUBSCRIBE": _resp((b"SUBSCRIBE", TOPIC), payload=LARGE),
        "SUBSCRIBE that does not read": _resp((b"SUBSCRIBE", TOPIC), payload=LARGE, reads=False),
        "SUBSCRIBE with a prefetch": _resp(PREFETCH, payload=LARGE),
        "SUBSCRIBE with a prefetch that waits": _resp(PREFETCH, payload=LARGE, waits=True),
        "SUBSCRIBE to small messages": _resp(PREFETCH, payload=SMALL),
        "RECEIVE of small messages": _resp(RECEIVE, payload=SMALL),
        "RECEIVE of small messages, three times": _resp(*[RECEIVE] * 3, payload=SMALL),
        "RECEIVE of small messages that waits": _resp((*RECEIVE, b"WAIT", b"30"), payload=SMALL, waits=True),
        "RECEIVE": _resp(RECEIVE, payload=LARGE),
        "RECEIVE that waits": _resp((*RECEIVE, b"WAIT", b"30"), payload=LARGE, waits=True),
        "RECEIVE with leases that expire": _resp((b"RECEIVE", TOPIC, b"COUNT", b"4", b"LEASE", b"3"), payload=LARGE),
        "RECEIVEANY that waits": _resp(RECEIVE_ANY, payload=LARGE, waits=True),
        "receives over HTTP/2 that wait": _http2(b"/topics/crowded/receive?count=100&wait=30", reads=False, waits=True),
        "READ": _resp(*[READ] * 8, payload=LARGE, reads=False),
        "the log over HTTP/2": _http2(b"/topics/crowded/partitions/0?count=4&bytes=4194304", method="GET", reads=False),
        "PEEK": _resp(*[(b"PEEK", TOPIC, b"COUNT", b"100")] * 8, payload=LARGE, reads=False),
        "messages over HTTP/2": _http2(b"/topics/crowded/messages?count=100", method="GET", reads=False),
        "NACK of all at once": _settling(b"NACK"),
        "dead letters of all at once": _settling(b"NACK", b"max_deliveries", b"1", *TO_DEAD),
        "REDRIVE": _settling(b"NACK", b"max_deliveries", b"1", *TO_DEAD, then=(b"REDRIVE", DEAD)),
        "expired messages as dead letters": _expired,
        "delayed messages that become due": _delayed,
        "a group each, from the beginning": _groups,
        "transactions": _transactions,
        "transactions over HTTP/2": _http_transactions,
        "events": _events,
    }
)


class Peak:
    """The most memory that a process has had, sampled by a thread while the block runs."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self.most_bytes = 0

    def __enter__(self) -> "Peak":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._is_over.wait(SAMPLE_SECONDS):
            self.most_bytes = max(self.most_bytes, own_bytes(self._pid))


@contextmanager
def broker(directory: Path, trust: Trust) -> Iterator[Target]:
    words = [*FREE_PORTS, *trust.flags, "-sync", "never", "-max-memory", str(MAX_MEMORY_BYTES)]
    process = BrokerProcess(words, cwd=directory)
    try:
        yield Target(process.wait_until_ready(), trust.ca)
    finally:
        process.end()


async def measure(target: Target, crowd: Crowd) -> tuple[int, int]:
    """Return the most that the broker used while a crowd was there, and after it."""
    pid = target.process.process.pid
    with Peak(pid) as there:
        leaving = await crowd(target)
    with Peak(pid) as after:
        for leave in leaving:
            with suppress(AttributeError):  # the transport is closed already
                leave()
        await asyncio.sleep(LEFT_SECONDS)
    return there.most_bytes, after.most_bytes


def main(names: Sequence[str]) -> None:
    """Measure these crowds, all by default; fail if one makes the broker use too much."""
    from tests.durability.soak import make_trust  # noqa: PLC0415 - which imports this room

    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    print(HEAD, flush=True)
    over = []
    for name in names or list(CROWDS):
        with tempfile.TemporaryDirectory(prefix="miniqueue-crowd-") as place:
            directory = Path(place)
            with broker(directory, make_trust(directory)) as target:
                sizes = asyncio.run(measure(target, CROWDS[name]))
        print(f"| {name} | {sizes[0] / MIB:.0f} MiB | {sizes[1] / MIB:.0f} MiB |", flush=True)
        if max(sizes) > MAX_MEMORY_BYTES + SPARE_BYTES:
            over.append(name)
    if over:
        sys.exit(f"over {(MAX_MEMORY_BYTES + SPARE_BYTES) / MIB:.0f} MiB: {', '.join(over)}")


if __name__ == "__main__":
    main(sys.argv[1:])
