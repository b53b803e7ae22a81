"""What copies that follow are sent, what the broker knows of them, and what they cost it."""

import asyncio
from contextlib import asynccontextmanager
from zlib import crc32

import orjson
import pytest

from miniqueue.broker.runtime.accounts import MAKING_FACTOR, Purpose
from miniqueue.server.asgi.request import ACCOUNT_KEY
from miniqueue.server.monitor import changes
from miniqueue.server.monitor.backup import BackupReply
from miniqueue.server.monitor.changes import REPLY_BYTES, ChangesReply
from miniqueue.server.monitor.followers import FORGET_SECONDS, MAX_FOLLOWERS, Followers
from miniqueue.storage.leveldb.files.batches import batches_of, changes_in
from miniqueue.storage.leveldb.store import LevelDBStore
from miniqueue.storage.memory import MemoryStore
from miniqueue.storage.port import Position, Writes
from tests.fakes import ManualClock, broker_on
from tests.loops import LeapingLoop, on_loop
from tests.server.monitor.test_backup import SCOPE, Client

NAME = "0123abcd"


class Following:
    """A broker, and a copy that follows it."""

    def __init__(self, broker, monotonic):
        self.broker = broker
        self.followers = Followers(broker, monotonic)
        self.backup = BackupReply(broker, self.followers)
        self.changes = ChangesReply(broker, self.followers)
        self.position = {}

    async def begin(self, name=NAME):
        """Copy the content; return the status."""
        client = await asked(self.backup, "/backup", f"follower={name}")
        self._note(client)
        return client

    async def follow(self, name=NAME, **changed):
        """Ask for what comes after; return status and body, which is a list of batches unless it is an error."""
        position = {**self.position, **changed}
        query = f"follower={name}&change={position['change']}&digest={position['digest']}"
        client = await asked(self.changes, "/changes", query)
        body = b"".join(message["body"] for message in client.messages[1:])
        if client.messages[0]["status"] != 200:
            return client.messages[0]["status"], body
        self._note(client)
        headers = dict(client.messages[0]["headers"])
        assert crc32(body) == int(headers[b"miniqueue-checksum"])
        return 200, batches_of(body, int(headers[b"miniqueue-offset"]))

    def _note(self, client):
        headers = dict(client.messages[0]["headers"])
        if b"miniqueue-change" in headers:
            self.position = {
                "change": int(headers[b"miniqueue-change"]),
                "digest": headers[b"miniqueue-digest"].decode(),
            }


async def asked(endpoint, path, query, part_count=None):
    client = Client(part_count)
    scope = SCOPE | {"path": path, "query_string": query.encode()}
    await endpoint(scope, client.receive, client.send)
    return client


@asynccontextmanager
async def following(store, monotonic=lambda: 0.0):
    broker = broker_on(store, ManualClock())
    await broker.start()
    try:
        yield Following(broker, monotonic)
    finally:
        await broker.stop()


@pytest.fixture
async def leveldb(tmp_path):
    return await LevelDBStore.open(tmp_path / "store")


async def test_a_copy_is_sent_what_was_written_after_it(leveldb, monkeypatch):
    monkeypatch.setattr(changes, "REPLY_BYTES", 300)
    async with following(leveldb) as it:
        client = await it.begin()
        copy = dict(client.pairs() or {})
        for number in range(20):
            await it.broker.publish(b"t", [b"%d" % number * 20]).commit.wait()
        replies = 0
        while it.position["change"] != it.broker.last_change:
            status, batches = await it.follow()
            assert status == 200
            replies += 1
            for key, value in (change for batch in batches for change in changes_in(batch)):
                if value is None:
                    copy.pop(key, None)
                else:
                    copy[key] = value
        assert copy == dict(await leveldb.scan(b"", b"\xff" * 8, max_items=10**6, max_bytes=10**9))
        assert replies > 3


async def test_what_is_read_is_charged_and_a_large_reply_until_it_is_sent(leveldb, monkeypatch):
    async with following(leveldb) as it:
        await it.begin()
        await it.broker.publish(b"t", [bytes(REPLY_BYTES), bytes(REPLY_BYTES)]).commit.wait()
        charged = []
        read = leveldb.writes_after

        async def writes_after(position, max_bytes):
            charged.append(it.broker.memory.amounts()[Purpose.OUTPUT])
            return await read(position, max_bytes)

        monkeypatch.setattr(leveldb, "writes_after", writes_after)
        account = it.broker.memory.connect("10.0.0.1")

        async def send(message):
            if message.get("more_body"):
                charged.append(account.amounts()[Purpose.OUTPUT])

        query = f"follower={NAME}&change={it.position['change']}&digest={it.position['digest']}"
        scope = SCOPE | {"path": "/changes", "query_string": query.encode(), "state": {ACCOUNT_KEY: account}}
        await it.changes(scope, Client().receive, send)
        assert charged[0] == MAKING_FACTOR * REPLY_BYTES
        assert min(charged[1:]) > 2 * REPLY_BYTES
        assert account.amounts() == {}
        assert Purpose.OUTPUT not in it.broker.memory.amounts()


@pytest.mark.parametrize("changed", [{"change": 7_000}, {"digest": "00" * 16}])
async def test_a_position_of_another_history_is_gone(changed, leveldb):
    async with following(leveldb) as it:
        await it.begin()
        await it.broker.publish(b"t", [b"a"]).commit.wait()
        status, body = await it.follow(**changed)
        assert (status, orjson.loads(body)["code"]) == (410, "NOPOSITION")


@pytest.mark.parametrize(
    ("changed", "name"), [({"change": "x"}, NAME), ({"change": "-1"}, NAME), ({"digest": "0g"}, NAME), ({}, "me")]
)
async def test_what_is_no_position_is_refused(changed, name, leveldb):
    async with following(leveldb) as it:
        await it.begin()
        status, body = await it.follow(name, **changed)
        assert (status, orjson.loads(body)["code"]) == (400, "ERR")


async def test_a_store_in_memory_cannot_be_followed():
    async with following(MemoryStore()) as it:
        client = await it.begin()
        assert client.messages[0]["status"] == 400
        assert b"a store in memory cannot be followed" in client.messages[1]["body"]
        assert it.followers.lags() == {}


async def test_a_plain_backup_keeps_no_history(leveldb, tmp_path):
    async with following(leveldb) as it:
        client = await asked(it.backup, "/backup", "")
        assert client.pairs() is not None
        assert b"miniqueue-change" not in dict(client.messages[0]["headers"])
        assert not (tmp_path / "store" / "recent").exists()
        assert it.followers.lags() == {}


async def test_copies_that_have_not_arrived_take_no_place(leveldb):
    """A follower that loses its connection meanwhile begins again, under a new name."""
    async with following(leveldb) as it:
        await it.broker.publish(b"t", [b"a"]).commit.wait()
        for number in range(MAX_FOLLOWERS + 1):
            client = await asked(it.backup, "/backup", f"follower={number:08x}", part_count=2)
            assert client.messages[0]["status"] == 200
            assert client.pairs() is None
        assert it.followers.lags() == {}
        await it.begin()
        assert it.followers.lags() == {NAME: (None, 0)}


@on_loop(LeapingLoop)
async def test_a_copy_that_lacks_nothing_waits_for_a_second_or_for_a_write():
    class Still:
        last_change = 5
        memory = broker_on(MemoryStore(), ManualClock()).memory

        async def writes_after(self, change, digest, max_bytes):
            raise AssertionError("it has waited")

    loop = asyncio.get_running_loop()
    reply = ChangesReply(Still(), Followers(Still(), loop.time))
    with pytest.raises(AssertionError):
        await asked(reply, "/changes", f"follower={NAME}&change=5&digest=00")
    assert loop.time() == pytest.approx(changes.WAIT_SECONDS, abs=0.05)
    with pytest.raises(AssertionError):
        await asked(reply, "/changes", f"follower={NAME}&change=4&digest=00")
    assert loop.time() == pytest.approx(changes.WAIT_SECONDS, abs=0.05)


class Original:
    """A broker of which only the last change matters."""

    last_change = 10


def test_a_copy_is_as_far_behind_as_the_last_moment_of_which_it_has_everything():
    now, original = 100.0, Original()
    followers = Followers(original, lambda: now)
    followers.begin(NAME)
    assert followers.lags() == {NAME: (None, 0)}
    followers.asked(NAME, 10)
    followers.answered(NAME, 10, 0)
    assert followers.lags() == {NAME: (0.0, 0)}
    original.last_change = 20
    now = 101.0
    followers.asked(NAME, 10)
    followers.answered(NAME, 20, 500)
    now = 103.0
    assert followers.lags() == {NAME: (3.0, 500)}
    original.last_change = 30
    followers.asked(NAME, 20)
    followers.answered(NAME, 30, 700)
    now = 103.5
    assert followers.lags() == {NAME: (2.5, 700)}
    followers.asked(NAME, 30)
    assert followers.lags() == {NAME: (0.0, 0)}


def test_few_copies_are_remembered_and_none_that_is_silent_for_an_hour():
    now = 0.0
    followers = Followers(Original(), lambda: now)
    for number in range(MAX_FOLLOWERS):
        followers.begin(f"{number:08x}")
    followers.begin("00000000")
    with pytest.raises(Exception, match="4 copies follow already"):
        followers.admit(NAME)
    now = FORGET_SECONDS + 1
    followers.begin(NAME)
    assert list(followers.lags()) == [NAME]


class SlowHistory:
    """A broker that takes a second to read its writes, of which there are none after change 5."""

    last_change = 5

    def __init__(self) -> None:
        self.memory = broker_on(MemoryStore(), ManualClock()).memory
        self.reading_count = self.most_reading_count = 0

    async def writes_after(self, change, digest, _max_bytes):
        self.reading_count += 1
        self.most_reading_count = max(self.most_reading_count, self.reading_count)
        await asyncio.sleep(1)
        self.reading_count -= 1
        return Writes(b"", 0, 0, Position(change, digest), self.last_change, 0)


async def statuses_of(endpoint, change, names):
    """Ask for what comes after a change, once for each name of a copy, all at about the same time."""
    asking = []
    for name in names:
        query = f"follower={name}&change={change}&digest=00"
        asking.append(asyncio.create_task(asked(endpoint, "/changes", query)))
        await asyncio.sleep(0.1)
    return [(await client).messages[0]["status"] for client in asking]


@on_loop(LeapingLoop)
async def test_a_later_request_of_a_copy_ends_the_one_that_waits():
    broker, loop = SlowHistory(), asyncio.get_running_loop()
    endpoint = ChangesReply(broker, Followers(broker, loop.time))
    assert await statuses_of(endpoint, 5, [NAME, NAME]) == [400, 200]
    assert broker.most_reading_count == 1


@on_loop(LeapingLoop)
async def test_writes_are_read_for_one_reply_to_a_copy_at_a_time():
    broker, loop = SlowHistory(), asyncio.get_running_loop()
    endpoint = ChangesReply(broker, Followers(broker, loop.time))
    assert await statuses_of(endpoint, 4, [NAME, NAME, NAME, "89abcdef"]) == [400, 400, 200, 200]
    assert broker.most_reading_count == 2  # one for each copy
