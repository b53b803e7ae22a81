"""Both clients on RESP against a real broker: they have the same methods, and each does what it says."""

import asyncio
import inspect
import pickle
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import aclosing, suppress
from datetime import UTC, datetime, timedelta

import pytest
import redis

from miniqueue.errors import ConfigError, DisconnectedError, RequestError
from miniqueue_client import AsyncClient, Client, ConnectError, Outgoing, RefusedError, Selection
from miniqueue_client.address import Address
from miniqueue_client.calls import messages as message_calls
from tests.acceptance.ports import hold_port, port_of

pytestmark = pytest.mark.acceptance

PUBLIC = sorted(name for name in vars(Client) if not name.startswith("_"))


class AwaitedClient:
    """An `AsyncClient` whose methods can be called like those of `Client`: each runs the loop for as long."""

    def __init__(self, url: str) -> None:
        self._runner = asyncio.Runner()
        self._client = AsyncClient(url)

    def __getattr__(self, name):
        def call(*args, **kwargs):
            return self._runner.run(getattr(self._client, name)(*args, **kwargs))

        return call

    def consume(self, topic, **options):
        async def all_of_it():
            return [message async for message in self._client.consume(topic, **options)]

        return self._runner.run(all_of_it())

    def end(self):
        self._runner.run(self._client.close())
        self._runner.close()


@pytest.fixture(params=["blocking", "awaited"])
def either(request, resp_broker):
    client = Client(resp_broker.url) if request.param == "blocking" else AwaitedClient(resp_broker.url)
    yield client
    client.close() if isinstance(client, Client) else client.end()


@pytest.mark.parametrize("name", PUBLIC)
def test_both_clients_have_the_same_methods(name):
    blocking, awaited = getattr(Client, name), getattr(AsyncClient, name)
    assert str(inspect.signature(blocking)).split(" ->")[0] == str(inspect.signature(awaited)).split(" ->")[0]
    assert inspect.getdoc(awaited)
    assert inspect.signature(getattr(Client(), name))


def test_the_async_client_has_no_methods_of_its_own():
    assert sorted(name for name in vars(AsyncClient) if not name.startswith("_")) == PUBLIC


def test_publish_receive_and_settle(either, topic):
    ids = [either.publish(topic, b"\x00\xff", key="k", headers={"a": "1"}), *either.publish_many(topic, ["two", b""])]
    first, *rest = either.receive(topic, count=10)
    assert [message.id for message in (first, *rest)] == ids
    assert (first.payload, first.key, first.headers, first.deliveries) == (b"\x00\xff", b"k", (("a", b"1"),), 1)
    assert either.nack(topic, first) == [True]
    [again] = either.receive(topic)
    assert (again.id, again.counts.nacks, again.deliveries, again.failure) == (first.id, 1, 2, "")
    assert either.nack(topic, again, seconds=0, reason="why") == [True]
    [again] = either.receive(topic, wait_seconds=60)
    assert (again.id, again.counts.nacks, again.failure) == (first.id, 2, "why")
    assert either.ack(topic, first, again, *rest) == [False, True, True, True]
    assert either.ack(topic, again) == [False]
    assert either.length(topic) == 0


def test_settles_that_are_on_the_disk_on_return(either, topic):
    either.publish_many(topic, ["one", "two", "three", "four", "five"])
    one, two, three, four, five = either.receive(topic, count=5)
    assert either.ack(topic, one, one, sync=True) == [True, False]
    assert either.nack(topic, two, sync=True) == [True]
    assert either.back(topic, three, sync=True) == [True]
    assert either.dack(topic, four, seconds=60, sync=True) == [True]
    assert either.reject(topic, five, reason="no good", sync=True) == [True]
    assert either.ack(topic, five, sync=True) == [False]


def test_messages_that_are_delayed_returned_extended_and_rejected(either, topic):
    either.publish_many(topic, ["one", "two", "three"])
    one, two, three = either.receive(topic, count=3, lease_seconds=600)
    assert either.extend(topic, one, two, three, seconds=1200) == [True] * 3
    assert either.dack(topic, one, seconds=60) == [True]
    assert either.back(topic, two) == [True]
    assert either.reject(topic, three, reason="no good") == [True]
    [delayed] = either.peek(topic, state="delayed")
    assert (delayed.id, delayed.state, delayed.counts.dacks) == (one.id, "delayed", 1)
    assert delayed.due_at_ms > delayed.published_at_ms
    assert either.find(topic, two.id).payload == b"two"
    [dead] = either.peek(f"{topic}.dlq")
    assert (dead.origin.topic, dead.origin.id, dead.origin.reason) == (topic, three.id, "no good")
    assert either.redrive_report(f"{topic}.dlq", limit=1) == (1, 0, "")
    assert either.redrive(f"{topic}.dlq") == 0
    assert either.purge(topic, state="delayed") == 1
    assert sorted(message.payload for message in either.receive(topic, count=9, autoack=True)) == [b"three", b"two"]


def test_leases_are_listed_page_by_page(either, topic):
    either.publish_many(topic, ["one", "two"])
    messages = either.receive(topic, count=2, lease_seconds=600)
    first, second = either.leases(topic)
    assert [(first.id, first.receipt), (second.id, second.receipt)] == [(m.id, m.receipt) for m in messages]
    assert (first.topic, first.partition, first.group) == (topic, "0", "default")
    assert 0 < first.remaining_ms <= 600_000
    assert [held.id for held in either.leases(topic, count=1)] == [first.id]
    [rest] = either.leases(topic, after=first.receipt)
    assert rest.id == second.id
    either.ack(topic, *messages)
    assert either.leases(topic) == []


def test_usage_is_that_of_all_clients_without_users(either, topic):
    before = either.usage()[0]["topics"]["used"]
    either.publish(topic, "one")
    (usage,) = either.usage()
    assert usage["user"] is None
    assert usage["topics"]["used"] == before + 1
    assert usage["requests"] == {"used": 0, "limit": 10_000}
    assert usage["memory"]["connections"] > 0


EVENTS_OF_A_DEAD_LETTER = ["published", "committed", "delivered", "rejected", "dead_lettered", "arrived"]


def test_what_happened_to_a_message_is_told(either, topic):
    either.create_topic(topic, trace="true")
    message_id = either.publish(topic, "one")
    [message] = either.receive(topic, member="ada")
    either.reject(topic, message, reason="no good")
    steps = either.trace(topic, message_id)
    assert [step.event for step in steps][:6] == EVENTS_OF_A_DEAD_LETTER
    published, _, delivered, rejected, dead, arrived = steps
    assert published.by.startswith("resp 127.0.0.1:")
    assert (published.at.timestamp() * 1000, published.topic, published.id) == (published.at_ms, topic, message_id)
    assert (delivered.group, delivered.member, delivered.receipt) == ("default", "ada", message.receipt)
    moves = dead.went_to, arrived.came_from
    assert (rejected.reason, *moves) == ("no good", (f"{topic}.dlq", arrived.id), (topic, message_id))
    assert not any(step.extra for step in steps)
    with pytest.raises(RefusedError, match="NOMESSAGE"):
        either.trace(topic, "0-99")


def test_topics_are_made_set_looked_at_and_removed(either, topic):
    either.create_topic(topic, max_deliveries=3)
    either.set_topic(topic, retry_delays=[1, 2.5])
    settings = either.topic_settings(topic)
    assert (settings["max_deliveries"], settings["retry_delays"]) == ("3", "1,2.5")
    assert topic in either.topics()
    either.pause(topic, "in", seconds=60)
    with pytest.raises(RefusedError, match="PAUSED"):
        either.publish_many(topic, ["x"])
    either.resume(topic)
    either.publish_many(topic, ["x"])
    figures = either.stats(topic)
    assert (figures["depth"], figures["paused_in"], figures["oldest_seconds"] is None) == (1, False, False)
    assert either.stats()["topics"] >= 1
    either.delete_topic(topic)
    assert topic not in either.topics()
    assert either.ping() == "PONG"


def test_a_message_that_waits_can_be_cancelled_and_a_unique_one_is_stored_once(either, topic):
    message_id = either.publish(topic, "later", delay_seconds=3600)
    assert either.find(topic, message_id).payload == b"later"
    either.cancel(topic, message_id)
    with pytest.raises(RefusedError, match="NOMESSAGE"):
        either.cancel(topic, message_id)
    first = either.publish(topic, "x", unique_key="k")
    assert either.publish(topic, "y", unique_key="k") == first
    assert (first.is_duplicate, either.publish(topic, "y", unique_key="k").is_duplicate) == (False, True)
    batches = [either.publish_many(f"{topic}-batch", ["a", "b"], dedup_id="7") for _ in range(2)]
    assert [batch.is_duplicate for batch in batches] == [False, True]
    assert either.publish(topic, "z", priority="high") == "0.high-0"
    assert [message.text for message in either.receive(topic, count=9)] == ["z", "x"]


def test_schedules_are_set_told_and_ended(either, topic):
    either.set_schedule(f"{topic}-1", topic, b"x", cron="0 9 * * MON-FRI", zone="Europe/Berlin", missed="none")
    either.set_schedule(f"{topic}-2", topic, "y", every_seconds=1)
    first, second = [schedule for schedule in either.schedules() if schedule.topic == topic]
    assert (first.cron, first.zone, first.every_seconds, first.missed) == (
        "0 9 * * MON-FRI",
        "Europe/Berlin",
        0,
        "none",
    )
    assert (second.cron, second.zone, second.every_seconds, second.payload) == ("", "", 1, None)
    schedule = either.find_schedule(first.name)
    assert (schedule.payload, schedule.next_at) == (b"x", first.next_at)
    [message] = either.receive(topic, wait_seconds=60, autoack=True)
    assert (message.text, message.header("schedule")) == ("y", second.name)
    for schedule in (first, second):
        either.delete_schedule(schedule.name)
    with pytest.raises(RefusedError, match="NOSCHEDULE"):
        either.find_schedule(first.name)


def test_messages_of_several_topics_name_their_topic(either, topic):
    either.publish_many(f"{topic}.a", ["1", "2"])
    either.publish(f"{topic}.b", "3", key="k")
    messages = either.receive_any(f"{topic}.a", f"{topic}.none", patterns=[f"{topic}.*"], count=9, wait_seconds=60)
    found = sorted((message.topic, message.text, message.key) for message in messages)
    assert found == [(f"{topic}.a", "1", b""), (f"{topic}.a", "2", b""), (f"{topic}.b", "3", b"k")]
    assert [either.ack(message.topic, message) for message in messages] == [[True]] * 3
    assert either.receive_any(patterns=[f"{topic}.*"]) == []


def test_a_schedule_with_options_and_an_end_is_shown_with_them(either, topic):
    until = datetime(2100, 1, 1, tzinfo=UTC)
    options = {"headers": {"a": b"\xff"}, "key": "k", "ttl_seconds": 1.5, "priority": "low", "until": until}
    either.set_schedule(topic, topic, "x", every_seconds=3600, **options)
    shown = either.find_schedule(topic)
    assert (shown.headers, shown.key, shown.ttl_seconds, shown.priority) == ((("a", b"\xff"),), b"k", 1.5, "low")
    assert shown.until_ms == until.timestamp() * 1000
    either.set_schedule(topic, topic, "x", every_seconds=3600)
    plain = either.find_schedule(topic)
    assert (plain.headers, plain.key, plain.ttl_seconds, plain.priority, plain.until_ms) == (
        *((), b"", None, "normal", None),
    )
    either.delete_schedule(topic)


def test_groups_read_independently_and_go_back_and_forth(either, topic):
    either.create_group(topic, "audit")
    either.publish_many(topic, ["a", "b", "c"])
    with pytest.raises(RefusedError, match="GROUPEXISTS"):
        either.create_group(topic, "audit")
    assert [message.text for message in either.receive(topic, group="audit", count=9, autoack=True)] == ["a", "b", "c"]
    either.create_group(topic, "late", start="latest")
    audit, late = either.groups(topic)
    assert (audit.name, audit.lag, audit.acknowledged, audit.position) == ("audit", 0, 3, ("0-3",))
    assert (late.name, late.ready, late.ack_rate_10s) == ("late", 0, 0.0)
    either.publish_many(topic, ["d", "e"])
    assert either.seek_group(topic, "late", "latest", dry_run=True) == (2, 0)
    assert either.seek_group(topic, "late", "0-4") == (2, 1)
    assert [message.text for message in either.receive(topic, group="late", count=9)] == ["e"]
    with pytest.raises(RefusedError, match="BADOPTION"):
        either.seek_group(topic, "late", "0-6")
    either.delete_group(topic, "late")
    with pytest.raises(RefusedError, match="NOGROUP"):
        either.seek_group(topic, "late", "earliest")


def test_members_have_partitions_of_their_own(either, topic):
    either.create_topic(topic, partitions=2)
    one = either.publish(topic, "x", key="a")
    other = either.publish(topic, "y", key="b")
    assert (one[0], other[0]) == ("1", "1")
    (message,) = either.receive(topic, member="first")
    assert either.members(topic) == {"first": (0, 1)}
    assert either.ack(topic, message) == [True]
    assert [message.text for message in either.receive(topic, member="second")] == ["y"]
    assert either.members(topic) == {"first": (0,), "second": (1,)}
    with pytest.raises(RefusedError, match="MEMBERS"):
        either.receive(topic)


def test_who_holds_messages_is_listed(either, topic):
    either.publish_many(topic, ["a", "b", "c"])
    assert either.holders(topic) == []
    received = either.receive(topic, count=2, lease_seconds=60)
    (holder,) = either.holders(topic)
    assert (holder.user, holder.address, holder.leased) == (None, "127.0.0.1", 2)
    assert 0 < holder.remaining_ms <= 60_000
    either.ack(topic, *received)
    assert either.holders(topic) == []
    with pytest.raises(RefusedError, match="NOGROUP"):
        either.holders(topic, "none")


def test_messages_with_options_are_published_together(either, topic):
    messages = [Outgoing("a", key="k"), Outgoing(b"b"), Outgoing("c", [("h", "v")], ttl_seconds=60)]
    ids = either.publish_each(topic, messages, dedup_id="1")
    assert either.publish_each(topic, messages, dedup_id="1") == ids
    first, second, third = either.receive(topic, count=9)
    assert (first.key, second.key, third.headers) == (b"k", b"", (("h", b"v"),))
    assert 59_000 < third.expires_at_ms - third.published_at_ms < 61_000


def test_the_log_is_read_without_taking_anything(either, topic):
    either.publish_many(topic, ["one", "two", "three"])
    page = either.read(topic, 0, 1, count=1)
    assert ([message.payload for message in page.messages], page.next, page.end) == ([b"two"], 2, 3)
    assert either.read(topic, 0, page.next).messages[0].payload == b"three"
    published_at = page.messages[0].published_at
    assert len(either.read_from(topic, published_at).messages) == 3
    assert either.partitions(topic) == [("0", 0, 3)]
    assert either.stats(topic)["ready"] == 3


def test_messages_are_found_by_conditions_page_by_page(either, topic):
    for number in range(4):
        either.publish(topic, f"{number} of 4", key="ab"[number % 2], headers={"tenant": "acme"})
    either.publish(topic, "other")
    page = either.search(topic, Selection(key="b", header=("tenant", "acme"), contains="of"), count=1)
    assert [message.text for message in page.messages] == ["1 of 4"]
    rest = either.search(topic, Selection(key="b"), after=page.next)
    assert ([message.text for message in rest.messages], rest.next, rest.scanned) == (["3 of 4"], None, 3)


def test_one_message_is_moved_made_due_and_deleted(either, topic):
    first, second = either.publish_many(topic, ["one", "two"])
    either.move_to_front(topic, second)
    assert [message.text for message in either.peek(topic)] == ["two", "one"]
    either.delete_message(topic, first)
    later = either.publish(topic, "later", delay_seconds=60)
    moved = either.reschedule(topic, later, delay_seconds=120)
    assert either.find(topic, moved).due_at_ms > either.find(topic, second).published_at_ms + 100_000
    either.cancel(topic, moved)


def test_many_messages_are_counted_moved_and_deleted_by_a_task(either, topic):
    for number in range(6):
        either.publish(topic, f"{number}", key="ab"[number % 2])
    assert either.act_on("delete", topic, Selection(key="b"), dry_run=True) == 3
    assert either.act_on("front", topic, Selection(key="b")) == 3
    assert [message.text for message in either.peek(topic)] == ["1", "3", "5", "0", "2", "4"]
    task_id = either.begin_task("delete", topic, Selection(key="b"), limit=2)
    while (task := either.find_task(task_id)).status == "running":
        pass
    assert (task.act, task.count, task.error) == ("delete", 2, "")
    either.cancel_task(task_id)
    assert task in either.tasks()
    assert [message.text for message in either.peek(topic)] == ["5", "0", "2", "4"]


def test_consume_yields_what_comes_and_ends_when_nothing_does(either, topic):
    either.publish_many(topic, ["one", "two", "three"])
    assert [m.text for m in either.consume(topic, count=2, autoack=True, idle_seconds=0.1)] == ["one", "two", "three"]


def test_consume_that_waits_for_nothing_yields_what_is_there(either, topic):
    either.publish_many(topic, ["one", "two", "three"])
    options = {"count": 2, "autoack": True, "idle_seconds": timedelta()}
    assert [m.text for m in either.consume(topic, **options)] == ["one", "two", "three"]


def test_a_refusal_has_the_word_of_the_broker(either, topic):
    with pytest.raises(RefusedError) as caught:
        either.topic_settings(topic)
    assert caught.value.code == "NOTOPIC"
    with pytest.raises(RefusedError) as caught:
        either.receive(topic, wait_seconds=61)
    assert caught.value.code == "BADDELAY"


def test_what_cannot_be_said_is_refused_at_once_and_harms_no_connection(either, topic):
    with pytest.raises(RequestError, match="must be bytes, str or int"):
        either.publish(topic, None)
    assert either.publish(topic, "x") == "0-0"


def test_calls_in_one_go_have_results_in_order_and_refusals_among_them(either, topic):
    calls = [message_calls.publish(name, "x") for name in (topic, "two words", topic)]
    first, refused, second = either.execute_all(calls)
    assert (first, second) == ("0-0", "0-1")
    assert refused.code == "BADTOPIC"
    assert either.execute_all([]) == []
    assert either.ping() == "PONG"


def test_a_wait_may_be_longer_than_the_timeout_of_the_client(resp_broker, topic):
    with Client(resp_broker.url, timeout_seconds=0.2, retries=-1) as client:
        assert client.receive(topic, wait_seconds=0.5) == []
    awaited = AwaitedClient(resp_broker.url)
    awaited._client = AsyncClient(resp_broker.url, timeout_seconds=0.2, retries=-1)
    assert awaited.receive(topic, wait_seconds=0.5) == []
    awaited.end()


def test_a_broker_that_says_nothing_is_given_up_and_its_reply_goes_to_nobody_else(resp_broker, topic):
    process = resp_broker.process.process
    with Client(resp_broker.url, timeout_seconds=0.2, retries=0) as client:
        ping_until_answered(client)
        process.send_signal(19)  # SIGSTOP
        try:
            with pytest.raises(DisconnectedError):
                client.length(topic)
        finally:
            process.send_signal(18)  # SIGCONT
        assert ping_until_answered(client) == "PONG"


def ping_until_answered(client):
    while True:
        with suppress(DisconnectedError, ConnectError):  # a busy machine may take longer than the client waits
            return client.ping()


async def test_a_task_that_is_cancelled_leaves_no_reply_to_another(resp_broker, topic):
    async with AsyncClient(resp_broker.url, max_connections=1) as client, AsyncClient(resp_broker.url) as other:
        await other.create_topic(topic)
        waiting = asyncio.create_task(client.receive(topic, wait_seconds=30))
        while not (await other.stats(topic))["waiting"]:
            pass
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await client.ping() == "PONG"


async def test_a_task_connects_without_what_asyncio_deprecates_since_3_14(resp_broker, monkeypatch):
    def deprecated(_function):
        raise DeprecationWarning("slated for removal in Python 3.16")

    monkeypatch.setattr(asyncio, "iscoroutinefunction", deprecated)
    async with AsyncClient(resp_broker.url) as client:
        assert await client.ping() == "PONG"


def test_no_broker_is_a_connect_error_that_does_not_tell_the_secret():
    with hold_port() as held:  # and does not listen
        url = f"redis://user:secret@127.0.0.1:{port_of(held)}"
        with Client(url, retries=0) as client, pytest.raises(ConnectError) as caught:
            client.ping()
    assert "secret" not in f"{caught.value}{client!r}{client.address!r}"
    # The text of redis-py begins with an error number, and with the address once more.
    assert str(caught.value) == f"cannot connect to {url.replace('user:secret@', '')}: Connection refused"


@pytest.mark.parametrize(
    "url",
    [
        "localhost:6379",
        "http://localhost",
        "",
        "redis://h:x",
        "redis://h:65536",
        "redis://[::1",
        "redis://u:secret/@h:1",
        "redis:localhost:6379",
        "redis:/u:secret@localhost:6379",
        "REDIS://localhost",
        "redis://a..b",
        f"redis://{'a' * 64}.b",
        "redis://u:1?secret=x@h:1",
        "redis://u:1/secret@h:1",
        "redis://u:1#secret@h:1",
    ],
)
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(ConfigError) as caught:
        Client(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://u:secret@h:1?unknown=1", "unknown"),
        ("redis://u:secret@h:1?db=x", "'db'"),
        ("redis://u:secret@h:1?socket_timeout=soon", "'socket_timeout'"),
        ("redis://u:secret@h:1?ssl_ca_certs=ca.pem", "ssl_ca_certs"),
        ("rediss://u:secret@h:1?ssl_cert_reqs=some", "some"),
    ],
)
def test_an_address_with_an_option_that_redis_py_does_not_take_is_refused(kind, url, said):
    with pytest.raises(ConfigError) as caught:
        kind(url)
    assert f"invalid option of redis-py for {url.split(':')[0]}://h:1: " in str(caught.value)
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_an_option_that_redis_py_does_not_take_is_refused(kind):
    with pytest.raises(ConfigError, match=r"invalid option of redis-py for redis://h:1: .*unknown"):
        kind("redis://h:1", unknown=1)


def test_an_address_with_options_that_redis_py_takes_is_none_the_worse(resp_broker, topic):
    with Client(f"{resp_broker.url}?client_name=ada&socket_connect_timeout=3") as client:
        assert client.publish(topic, b"x")


def test_a_client_is_carried_as_its_address_alone(client, topic):
    client.publish_many(topic, ["x"])
    carried = pickle.loads(pickle.dumps(client))
    assert carried.address == client.address
    assert carried.length(topic) == 1
    carried.close()
    address = pickle.loads(pickle.dumps(AsyncClient("rediss://h:1", password="p", retries=3))).address
    assert address == Address("rediss://h:1", retries=3, options={"password": "p"})


def test_a_closed_client_connects_anew(client, topic):
    client.close()
    client.close()
    assert client.ping() == "PONG"


def test_what_happens_in_the_broker_is_heard(resp_broker, topic):
    with Client(resp_broker.url) as client, ThreadPoolExecutor(1) as pool:
        events = client.events("topic-created")
        first = pool.submit(next, events)
        for name in names_until(first.done, topic):
            client.publish(name, "x")
            wait([first], 0.05)
        assert (first.result().type, first.result().topic.startswith(topic)) == ("topic-created", True)
        assert first.result().at_ms > 0
        assert "resp" in str(first.result().details["by"])
        events.close()
        with pytest.raises(RefusedError, match="BADOPTION a type of event is one of topic-created"):
            next(client.events("rain"))
        with pytest.raises(RequestError, match="invalid type of an argument"):
            next(client.events(None))


class FakeConnection:
    """A connection, and the pool that has it, with replies that were received before."""

    def __init__(self, *replies):
        self.replies = list(replies)
        self.is_closed = False

    def get_connection(self):
        return self

    def release(self, connection):
        assert connection.is_closed

    def pack_commands(self, commands):
        return []

    def send_packed_command(self, packed, *, check_health):
        pass

    def can_read(self, timeout):
        return bool(self.replies)

    def read_response(self, *, timeout=None):
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def disconnect(self):
        self.is_closed = True


def test_a_refusal_among_events_is_raised():
    client = Client("redis://localhost:1")
    client._link._pool = FakeConnection(
        b"OK",
        [b"event", b"topic-created", {b"at_ms": 1, b"topic": b"t"}],
        redis.ResponseError("LIMIT this connection uses too much memory"),
    )
    events = client.events()
    assert next(events).topic == "t"
    with pytest.raises(RefusedError, match="too much memory") as refused:
        next(events)
    assert refused.value.code == "LIMIT"


async def test_what_happens_in_the_broker_is_heard_by_a_task(resp_broker, topic):
    async with AsyncClient(resp_broker.url) as client, aclosing(client.events("topic-created")) as events:
        first = asyncio.ensure_future(anext(events))
        for name in names_until(first.done, topic):
            await client.publish(name, "x")
            await asyncio.wait([first], timeout=0.05)
        assert (await first).topic.startswith(topic)


def names_until(is_done, topic):
    """Yield names of new topics until a client that has begun to listen has heard of one."""
    for number in range(1000):
        if is_done():
            return
        yield f"{topic}.{number}"
