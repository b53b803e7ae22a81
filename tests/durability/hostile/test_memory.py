"""What clients made the broker keep without bound before there were accounts: each stays within `-max-memory`.

An innocent client is served meanwhile.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from hyperframe.frame import DataFrame, RstStreamFrame

from tests.durability.clients.resp import Resp
from tests.durability.hostile.clients import ask_in_vain
from tests.durability.hostile.innocent import signed_in
from tests.durability.hostile.victim import MIB, SPARE_BYTES, Filled, Victim, charged_bytes, filled, victim
from tests.durability.load.measuring import own_bytes, wait_until
from tests.server.hypercorn.raw_http2 import RawHttp2, connect_raw

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]

MAX_MEMORY_BYTES = 128 * MIB
UNCHARGED_PART = 0.3
PATIENCE_SECONDS = 60
#: The broker measures once a second what it does not charge at once.
MEASURED_SECONDS = 0.5


@pytest.fixture(scope="module")
def store(tmp_path_factory, trust) -> Filled:
    return filled(tmp_path_factory.mktemp("filled"), trust, topics=10)


@pytest.fixture
def broker(store, tmp_path, trust):
    """A broker on a copy of the store."""
    copy = store._replace(directory=shutil.copytree(store.directory, tmp_path / "copy"))
    with victim(copy, trust, "-sync", "never", max_memory_bytes=MAX_MEMORY_BYTES) as found:
        yield found


@asynccontextmanager
async def bounded(broker: Victim) -> AsyncIterator[None]:
    """Serve an innocent client while the block runs; then look at the most that the broker used meanwhile."""
    pid, peaks = broker.process.process.pid, list[int]()
    client = await signed_in(broker.process.resp_port, broker.innocent_token)

    async def serve() -> None:
        while True:
            async with asyncio.timeout(PATIENCE_SECONDS):
                assert await client.ask(b"LEN", b"large") == 8
            peaks.append(own_bytes(pid))
            await asyncio.sleep(0.01)

    serving = asyncio.create_task(serve())
    try:
        yield
        assert not serving.done(), serving.exception()
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        client.close()
    metrics, size_bytes = await asyncio.to_thread(scraped, broker), own_bytes(pid)
    uncharged_bytes = size_bytes - charged_bytes(metrics)
    print(f"{max(peaks) / MIB:.0f} MiB at most; now {size_bytes / MIB:.0f}, {uncharged_bytes / MIB:.0f} in no account")
    assert max(peaks) < MAX_MEMORY_BYTES + SPARE_BYTES
    assert uncharged_bytes < UNCHARGED_PART * size_bytes + SPARE_BYTES


def scraped(broker: Victim) -> str:
    """Return the metrics, as soon as there is memory for another connection."""
    metrics: list[str] = []

    def is_answered() -> bool:
        with suppress(ConnectionError):
            metrics.append(broker.metrics())
        return bool(metrics)

    wait_until(is_answered, "memory for another connection")
    return metrics[0]


async def ask_on_many(broker: Victim, connections: int, token: str, path: str) -> None:
    """Ask in vain on so many connections, and hold them for a moment; the broker may close some."""
    clients = []
    try:
        for _ in range(connections):
            with suppress(OSError):
                clients.append(RawHttp2(await connect_raw(broker.process.https_port, broker.ca)))
                await ask_in_vain(clients[-1], token, path)
            await asyncio.sleep(0.02)
        await asyncio.sleep(1)
    finally:
        for client in clients:
            client.peer.transport.abort()
        await asyncio.sleep(0.1)


async def test_replies_to_clients_that_have_not_signed_in_are_bounded(broker):
    async with bounded(broker):
        await ask_on_many(broker, 60, "", "/topics/large")


async def test_large_messages_that_are_not_read_are_bounded(broker):
    async with bounded(broker):
        await ask_on_many(broker, 3, broker.hostile_token, "/topics/large/messages?count=1")


@pytest.mark.parametrize("is_reset", [False, True], ids=["answered", "reset"])
async def test_data_for_streams_that_have_ended_is_bounded(broker, is_reset):
    """The reply is the error of a client that has not signed in, which reads no body."""
    client = RawHttp2(await connect_raw(broker.process.https_port, broker.ca))
    client.begin()
    async with bounded(broker):
        for stream_id in range(1, 60, 2):
            client.send(client.post(stream_id, path="/publish/large"))
            if is_reset:
                client.send(RstStreamFrame(stream_id, error_code=8))
        for _ in range(2000):
            client.send(*(DataFrame(stream_id, data=bytes(1000)) for stream_id in range(1, 60, 2)))
            if client.peer.is_over:
                break
            await asyncio.sleep(0.001)
        is_over = client.peer.is_over
        client.peer.transport.abort()
        await asyncio.sleep(0.1)
    assert is_over, "DATA without end is free"


@pytest.mark.parametrize(("command", "count"), [((b"TOPICS",), 300), ((b"INFO",), 64)], ids=["TOPICS", "INFO"])
async def test_lists_in_a_pipeline_do_not_hold_the_others(broker, command, count):
    """How long they take is counted in tests/server/resp/test_turns.py: here all are answered, and others meanwhile."""
    client = await signed_in(broker.process.resp_port, broker.innocent_token)
    async with bounded(broker):
        client.send(*[command] * count)
        for _ in range(count):
            assert not isinstance(await client.hear(), Exception)
    client.close()


async def test_topics_with_many_partitions_are_bounded(broker):
    """The limit of memory refuses them, if no other limit does; deleting always works."""
    client: Resp = await signed_in(broker.process.resp_port, broker.innocent_token)
    names = [b"many-%d" % number for number in range(40)]
    async with bounded(broker):
        made = []
        for name in names:
            reply = await client.ask(b"TOPIC", b"CREATE", name, b"partitions", b"1024")
            if reply != b"OK":
                assert str(reply).startswith("LIMIT"), reply
                break
            made.append(name)
            await asyncio.sleep(MEASURED_SECONDS)
        for name in made:
            assert await client.ask(b"TOPIC", b"DELETE", name) == b"OK"
    client.close()
