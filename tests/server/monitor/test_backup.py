"""The content of the store over HTTP: as of one moment, with an end that tells that it is whole."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from miniqueue.access.users import Users
from miniqueue.errors import CorruptionError
from miniqueue.server.monitor import backup
from miniqueue.server.monitor.backup import BackupReply
from miniqueue.server.monitor.followers import Followers
from miniqueue.storage.memory import MemoryStore
from miniqueue.wire.pair_stream import PairDecoder
from tests.fakes import FakeConsumer, FaultyStore, ManualClock, broker_on, settle_down
from tests.loops import LeapingLoop, on_loop
from tests.server.access import sign_in_for, user
from tests.serving import eventually

SCOPE = {
    "type": "http",
    "method": "GET",
    "path": "/backup",
    "query_string": b"",
    "headers": [(b"host", b"localhost:8081")],
}


class Client:
    """What an ASGI server does for one request; its client leaves after `part_count` parts, if at all."""

    def __init__(self, part_count: int | None = None) -> None:
        self.messages: list[dict] = []
        self._part_count = part_count
        self._has_left = asyncio.Event()

    async def receive(self):
        await self._has_left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        self.messages.append(message)
        if len(self.messages) == self._part_count:
            self._has_left.set()
        await asyncio.sleep(0.001)

    def pairs(self) -> dict[bytes, bytes] | None:
        """Return what has come; None when it is not whole."""
        decoder = PairDecoder()
        pairs = [pair for message in self.messages[1:] for pair in decoder.feed(message["body"])]
        return dict(pairs) if decoder.is_complete else None


@pytest.fixture(autouse=True)
def small_pages(monkeypatch):
    monkeypatch.setattr(backup, "PAGE_ITEMS", 2)


@asynccontextmanager
async def started_broker(store):
    broker = broker_on(store, ManualClock())
    await broker.start()
    try:
        await broker.publish(b"t", [b"a", b"b", b"c"]).commit.wait()
        yield broker
    finally:
        await broker.stop()


async def test_everything_comes_also_a_settle_that_is_not_committed_yet():
    store = FaultyStore()

    async with started_broker(store) as broker:
        consumer = FakeConsumer(broker, b"t")
        consumer.consumer.request()
        consumer.consumer.ack()
        client = Client()
        await BackupReply(broker, Followers(broker, lambda: 0.0))(SCOPE, client.receive, client.send)
        assert client.messages[0]["status"] == 200
        assert client.pairs() == store.pairs()
        assert len(store.batches) == 2


async def test_what_is_published_meanwhile_is_not_in_it():
    async with started_broker(FaultyStore()) as broker:
        before = (await broker.snapshot())._values
        client = Client()
        reply = asyncio.ensure_future(
            BackupReply(broker, Followers(broker, lambda: 0.0))(SCOPE, client.receive, client.send)
        )
        await eventually(lambda: len(client.messages) >= 3)
        await broker.publish(b"new", [b"d"]).commit.wait()
        await reply
        assert client.pairs() == before


async def test_a_fault_in_the_middle_ends_the_stream_without_its_end():
    class Damaged(MemoryStore):
        async def scan(self, start, stop, **limits):
            if start:
                raise CorruptionError("block 7")
            return await super().scan(start, stop, **limits)

    class Store(FaultyStore):
        async def snapshot(self, *, is_followed=False):
            copy = Damaged()
            await copy.write(self.pairs())
            return copy

    async with started_broker(Store()) as broker:
        client = Client()
        await BackupReply(broker, Followers(broker, lambda: 0.0))(SCOPE, client.receive, client.send)
        assert client.pairs() is None
        assert client.messages[-1]["more_body"]


async def test_nothing_is_read_for_a_client_that_has_left():
    async with started_broker(FaultyStore()) as broker:
        client = Client(part_count=3)
        await BackupReply(broker, Followers(broker, lambda: 0.0))(SCOPE, client.receive, client.send)
        assert len(client.messages) <= 5
        assert client.pairs() is None


async def test_nothing_is_read_for_a_user_who_is_revoked():
    sign_in = sign_in_for(admin := user("admin", admin=("*",)))

    class Revoking(Client):
        async def send(self, message):
            await super().send(message)
            if len(self.messages) == 3:
                sign_in.replace(Users([]))

    async with started_broker(FaultyStore()) as broker:
        client = Revoking()
        await BackupReply(broker, Followers(broker, lambda: 0.0), sign_in)(
            SCOPE | {"user": admin}, client.receive, client.send
        )
        assert len(client.messages) <= 4
        assert client.pairs() is None


@pytest.mark.parametrize("host", [b"127.0.0.1", b"127.0.0.1:8081", b"[::1]:80", b"LOCALHOST"])
async def test_every_name_of_this_machine_will_do(host):
    assert await status_for([(b"host", host)]) == 200


@pytest.mark.parametrize("host", [b"evil.example:8081", b"127.0.0.1.evil.example", b"", b"[", b"x@evil.example"])
async def test_a_web_page_under_another_name_gets_nothing(host):
    assert await status_for([(b"host", host)]) == 403
    assert await status_for([(b"host", b"localhost"), (b"host", host)]) == 403
    assert await status_for([]) == 403


async def status_for(headers: list[tuple[bytes, bytes]]) -> int:
    client = Client()
    async with started_broker(FaultyStore()) as broker:
        await BackupReply(broker, Followers(broker, lambda: 0.0))(
            SCOPE | {"headers": headers}, client.receive, client.send
        )
    return client.messages[0]["status"]


async def test_a_store_that_cannot_be_read_is_a_reply_of_its_own():
    class Store(FaultyStore):
        async def snapshot(self, *, is_followed=False):
            raise CorruptionError("block 7")

    async with started_broker(Store()) as broker:
        client = Client()
        await BackupReply(broker, Followers(broker, lambda: 0.0))(SCOPE, client.receive, client.send)
        await settle_down()
        assert client.messages[0]["status"] == 500


class Unread(Client):
    """A client that reads no page."""

    async def send(self, message):
        self.messages.append(message)
        if message["type"] == "http.response.body":
            await asyncio.get_running_loop().create_future()


@on_loop(LeapingLoop)
async def test_a_backup_that_nobody_reads_ends_after_a_minute():
    async with started_broker(MemoryStore()) as broker:
        client = Unread()
        await BackupReply(broker, Followers(broker, lambda: 0.0))(SCOPE, client.receive, client.send)
    assert asyncio.get_running_loop().time() == pytest.approx(backup.MAX_PAGE_SECONDS)
    assert client.pairs() is None


@on_loop(LeapingLoop)
async def test_few_backups_run_at_a_time():
    async with started_broker(MemoryStore()) as broker:
        reply = BackupReply(broker, Followers(broker, lambda: 0.0))
        unread = [Unread() for _ in range(backup.MAX_BACKUPS)]
        running = [asyncio.ensure_future(reply(SCOPE, client.receive, client.send)) for client in unread]
        await settle_down()
        refused, served = Client(), Client()
        await reply(SCOPE, refused.receive, refused.send)
        assert refused.messages[0]["status"] == 507
        assert b"4 backups are running already" in refused.messages[1]["body"]
        await asyncio.gather(*running)
        await reply(SCOPE, served.receive, served.send)
    assert served.pairs()
