import asyncio
import base64

import pytest

from miniqueue.core.cursor.lease import Lease
from miniqueue.core.options.consume import parse_stream_options
from miniqueue.errors.requests import RequesterGoneError
from miniqueue.server.http import subscribe
from miniqueue.server.http.app import HttpApp
from miniqueue.storage.memory import MemoryStore
from tests.fakes import FakeConsumer, ManualClock, broker_on
from tests.loops import CalmLoop, on_loop
from tests.serving import Lines, eventually, serving

INIT_TWICE = {"error": "error getting next value for consumer", "code": "OUTSTANDING"}
UNKNOWN = {"error": "unrecognised command received", "code": "ERR"}
UNDECODABLE = {"error": "error decoding command", "code": "BADLINE"}
TOO_FEW = {"error": "too few arguments provided to DACK", "code": "BADDELAY"}
TOO_FEW_TO_REPLY = {"error": "too few arguments provided to REPLY", "code": "ERR"}
NO_REQUEST = {"error": "The message asks for no reply; it is still leased", "code": "NOREQUEST"}
NO_DELAY = {"error": "A delay is a number of seconds, or a duration such as 1h30m, 0 or more", "code": "BADDELAY"}
BAD_DELAY = {"error": "invalid DACK duration argument at position [1]", "code": "BADDELAY"}
NOTHING = {"error": "no message is outstanding", "code": "NOLEASE"}
END = "end"


def msg(text: str, dack_count: int = 0) -> dict[str, object]:
    members: dict[str, object] = {"msg": base64.b64encode(text.encode()).decode()} if text else {}
    return members | ({"dackCount": dack_count} if dack_count else {})


# (payloads there, what is said and heard in turn: text is said, a dict is heard, END is the end of the stream)
SCRIPTS = {
    "init delivers the first": ("a b", ["INIT", msg("a")]),
    "ack delivers the next": ("a b c", ["INIT", msg("a"), "ACK", msg("b"), "ACK", msg("c")]),
    "nack delivers the same": ("a b", ["INIT", msg("a"), "NACK", msg("a"), "ACK", msg("b")]),
    "nack can have a reason": (
        "a b",
        ["INIT", msg("a"), "NACK REASON it  failed", {**msg("a"), "failure": "it  failed"}, "ACK", msg("b")],
    ),
    "nack can have a delay": ("a b", ["INIT", msg("a"), "NACK DELAY 5", msg("b"), "NACK DELAY 5 REASON why"]),
    "nack with a delay that is none keeps the message": (
        "a b",
        ["INIT", msg("a"), "NACK DELAY x", NO_DELAY, "ACK", msg("b")],
    ),
    "back puts it last": ("a b c", ["INIT", msg("a"), "BACK", msg("b"), "ACK", msg("c"), "ACK", msg("a")]),
    "dack puts it off": ("a b", ["INIT", msg("a"), "DACK 5", msg("b")]),
    "fraction of a second": ("a b", ["INIT", msg("a"), "DACK 0.25", msg("b")]),
    "words too many do not matter": ("a b c", ["INIT now", msg("a"), "ACK it", msg("b"), "DACK 1 2", msg("c")]),
    "dack without delay keeps the message": ("a b", ["INIT", msg("a"), "DACK", TOO_FEW, "ACK", msg("b")]),
    "dack of a word keeps the message": ("a b", ["INIT", msg("a"), "DACK oops", BAD_DELAY, "ACK", msg("b")]),
    "negative dack keeps the message": ("a b", ["INIT", msg("a"), "DACK -1", BAD_DELAY, "ACK", msg("b")]),
    "endless dack keeps the message": ("a b", ["INIT", msg("a"), "DACK inf", BAD_DELAY, "DACK nan", BAD_DELAY]),
    "second init keeps the message": ("a b", ["INIT", msg("a"), "INIT", INIT_TWICE, "ACK", msg("b")]),
    "init twice on an empty topic": ("", ["INIT", "INIT", INIT_TWICE]),
    "ack before init waits": ("a", ["ACK", NOTHING, msg("a")]),
    "nack while waiting is an error": ("", ["INIT", "NACK", NOTHING, "BACK", NOTHING, "DACK 1", NOTHING]),
    "reply to no request keeps the message": (
        "a b",
        ["INIT", msg("a"), "REPLY", TOO_FEW_TO_REPLY, "REPLY x", NO_REQUEST, "ACK", msg("b")],
    ),
    "reply without a message is an error": ("", ["INIT", "REPLY x", NOTHING]),
    "unknown command keeps the message": ("a b", ["INIT", msg("a"), "ack", UNKNOWN, "", UNKNOWN, "ACK", msg("b")]),
}


async def asked(served, question: bytes) -> "asyncio.Task[tuple[int, bytes]]":
    """Make a request, and return what becomes its reply."""
    asking = asyncio.create_task(served.request("POST", "/request/t", question))
    await eventually(lambda: served.broker.stats().get(b"t") and served.broker.stats()[b"t"].published)
    return asking


@pytest.mark.parametrize(("query", "receipt"), [("", ""), ("?prefetch=5", "1 ")])
async def test_a_stream_replies_to_a_request(certificates, query, receipt):
    async with serving(certificates) as served:
        asking = await asked(served, b"2 + 3")
        lines = Lines(await served.begin("/subscribe/t" + query))
        lines.say("INIT")
        assert (await lines.hear())["replyTo"]
        lines.say(f"REPLY {receipt}it is  5 \u20ac ")
        assert await asking == (200, "it is  5 \u20ac ".encode())
        assert served.broker.stats()[b"t"].acknowledged == 1


async def test_a_stream_whose_requester_has_left_goes_on(certificates):
    async with serving(certificates) as served:
        asking = await asked(served, b"2 + 3")
        lines = Lines(await served.begin("/subscribe/t"))
        lines.say("INIT")
        assert (await lines.hear())["replyTo"]
        served.app.answer_waiting()
        assert (await asking)[0] == 504
        await publish(served, "b")
        lines.say("REPLY 5")
        assert await lines.hear() == {"error": str(RequesterGoneError()), "code": "GONE"}
        assert await lines.hear() == msg("b")


async def play(served, lines: Lines, script: list) -> None:
    for step in script:
        if isinstance(step, str):
            lines.say(step)
        else:
            assert await lines.hear() == step


async def publish(served, text: str) -> None:
    if text:
        await served.broker.publish(b"t", [word.encode() for word in text.split()]).commit.wait()


@pytest.mark.parametrize("name", SCRIPTS)
async def test_script(certificates, name):
    payloads, script = SCRIPTS[name]

    async with serving(certificates) as served:
        await publish(served, payloads)
        await play(served, Lines(await served.begin("/subscribe/t")), script)


async def test_response_begins_before_anything_is_said_or_published(certificates):
    async with serving(certificates) as served:
        assert await (await served.begin("/subscribe/t")).response() == 200


async def test_waiting_subscriber_hears_what_is_published(certificates):
    async with serving(certificates) as served:
        lines = Lines(await served.begin("/subscribe/t"))
        lines.say("INIT")
        await eventually(lambda: b"t" in served.broker.stats() and served.broker.stats()[b"t"].waiting == 1)
        await publish(served, "a")
        assert await lines.hear() == msg("a")


async def test_empty_message_is_an_empty_object(certificates):
    async with serving(certificates) as served:
        await served.broker.publish(b"t", [b""]).commit.wait()
        await play(served, Lines(await served.begin("/subscribe/t")), ["INIT", {}])


async def test_delayed_message_comes_back_first_with_its_count(certificates):
    async with serving(certificates) as served:
        await publish(served, "a b c")
        lines = Lines(await served.begin("/subscribe/t"))
        await play(served, lines, ["INIT", msg("a"), "DACK 5", msg("b")])
        served.clock.advance(5.001)
        served.broker.tick()
        await play(served, lines, ["ACK", msg("a", 1), "ACK", msg("c")])


async def test_commands_split_anywhere_and_not_separated(certificates):
    async with serving(certificates) as served:
        await publish(served, "a b c")
        stream = await served.begin("/subscribe/t")
        for byte in b'"INIT""ACK" \r\n\t"ACK"':
            stream.write(bytes([byte]))
            await asyncio.sleep(0)
        lines = Lines(stream)
        assert [await lines.hear() for _ in range(3)] == [msg("a"), msg("b"), msg("c")]


@pytest.mark.parametrize("garbage", [b"oops", b"5", b"{}", b'"\x00"', b'"' + b"x" * 20_000])
async def test_undecodable_command_ends_the_stream_and_returns_the_message(certificates, garbage):
    async with serving(certificates) as served:
        await publish(served, "a")
        stream = await served.begin("/subscribe/t")
        stream.write(b'"INIT"' + garbage)
        assert await Lines(stream).hear_all() == [msg("a"), UNDECODABLE]
        assert FakeConsumer(served.broker, b"t").drain() == [b"a"]


async def test_half_close_ends_the_stream_and_returns_the_message(certificates):
    async with serving(certificates) as served:
        await publish(served, "a")
        stream = await served.begin("/subscribe/t")
        stream.write(b'"INIT"\n', is_last=True)
        assert await Lines(stream).hear_all() == [msg("a")]
        assert FakeConsumer(served.broker, b"t").drain() == [b"a"]


def _reset(client, stream):
    stream.close()


def _goodbye(client, stream):
    client.close()


def _abort(client, stream):
    client._connection._transport.abort()


@pytest.mark.parametrize("leave", [_reset, _goodbye, _abort])
@pytest.mark.parametrize("payload_bytes", [1, 500_000], ids=["idle", "blocked in send"])
async def test_client_that_leaves_returns_its_message_at_once(certificates, leave, payload_bytes):
    async with serving(certificates) as served:
        await served.broker.publish(b"t", [b"x" * payload_bytes]).commit.wait()
        client = await served.client()
        stream = await client._begin(b"POST", b"/subscribe/t")
        stream.write(b'"INIT"\n')
        await eventually(lambda: len(stream._chunks) >= (4 if payload_bytes > 1 else 1))
        assert served.broker.stats()[b"t"].leased == 1
        leave(client, stream)
        await eventually(lambda: served.broker.stats()[b"t"].consumers == 0)
        following: list[Lease] = []
        served.broker.consumer(b"t", following.extend, lambda error: None).request()
        assert following[0].counts.disconnects == 1


async def test_waiting_client_that_leaves_takes_no_message(certificates):
    async with serving(certificates) as served:
        stream = await served.begin("/subscribe/t")
        stream.write(b'"INIT"\n')
        await eventually(lambda: b"t" in served.broker.stats() and served.broker.stats()[b"t"].waiting == 1)
        stream.close()
        await eventually(lambda: b"t" not in served.broker.stats())
        await publish(served, "a")
        assert FakeConsumer(served.broker, b"t").drain() == [b"a"]


async def test_subscriber_of_a_deleted_topic_is_not_stuck(certificates):
    async with serving(certificates) as served:
        await publish(served, "a")
        lines = Lines(await served.begin("/subscribe/t"))
        await play(served, lines, ["INIT", msg("a")])
        await served.broker.delete_topic(b"t")
        await play(served, lines, ["ACK"])
        await publish(served, "b")
        await play(served, lines, [msg("b")])


async def test_client_that_never_reads_its_errors_is_cut_off(certificates):
    async with serving(certificates) as served:
        await publish(served, "a")
        stream = await served.begin("/subscribe/t")
        stream.write(b'"INIT"' + b'"oops"' * 20_000)
        await eventually(lambda: served.broker.stats()[b"t"].ready == 1)
        await asyncio.sleep(0)
        await eventually(lambda: served.broker.stats()[b"t"].consumers == 0)


async def test_client_that_was_cut_off_takes_no_message(certificates):
    async with serving(certificates) as served:
        await publish(served, "a")
        waiting = FakeConsumer(served.broker, b"t")  # so that no other gets a message at once
        waiting.drain()
        stream = await served.begin("/subscribe/t")
        stream.write(b'"ACK"' * 3000)  # each is an error, and all are in one read
        await stream.read_all()
        waiting.consumer.close()
        await publish(served, "b")
        assert FakeConsumer(served.broker, b"t").drain() == [b"b"]


async def test_client_that_is_cut_off_by_its_own_returns_takes_no_message(certificates):
    async with serving(certificates) as served:
        await publish(served, "a")
        stream = await served.begin("/subscribe/t?prefetch=2")
        stream.write(b'"INIT"' + b"".join(b'"NACK %d"' % receipt for receipt in range(1, 3000)))
        await stream.read_all()
        assert FakeConsumer(served.broker, b"t").drain() == [b"a"]


async def test_drain_ends_every_stream_returns_messages_and_refuses_new_ones(certificates):
    async with serving(certificates) as served:
        await publish(served, "a b")
        holding, waiting = [Lines(await served.begin(f"/subscribe/{topic}")) for topic in ("t", "u")]
        await play(served, holding, ["INIT", msg("a")])
        waiting.say("INIT")
        await waiting.stream.response()
        served.app.drain()
        assert await holding.hear() is None
        assert await waiting.hear() is None
        assert FakeConsumer(served.broker, b"t").drain() == [b"a", b"b"]
        assert (await served.request("POST", "/subscribe/t"))[0] == 503


@on_loop(CalmLoop)
async def test_shutdown_after_drain_is_quick_though_clients_stay(certificates):
    async with serving(certificates) as served:
        lines = Lines(await served.begin("/subscribe/t"))
        lines.say("INIT")
        await lines.stream.response()
        served.app.drain()
        async with asyncio.timeout(2):
            await served.stop()


async def test_prefetch_names_messages_by_receipts(certificates):
    async with serving(certificates) as served:
        await publish(served, "a b c")
        stream = await served.begin("/subscribe/t?prefetch=2")
        lines = Lines(stream)
        stream.write(b'"INIT"')
        assert [await lines.hear() for _ in range(2)] == [{"receipt": "1"} | msg("a"), {"receipt": "2"} | msg("b")]
        stream.write(b'"ACK 2" "NACK 1"')
        assert [await lines.hear() for _ in range(2)] == [{"receipt": "3"} | msg("c"), {"receipt": "4"} | msg("a")]
        stream.write(b'"ACK 9 3" "DACK 0.5 4" "ACK"')
        assert [await lines.hear() for _ in range(2)] == [
            {"error": "1 of 2 receipts belong to no message outstanding here", "code": "NOLEASE"},
            {"error": "0 of 0 receipts belong to no message outstanding here", "code": "NOLEASE"},
        ]
        assert served.broker.stats()[b"t"].delayed == 1


async def test_nack_keeps_the_order_of_its_receipts_also_where_failures_wait(certificates):
    async with serving(certificates) as served:
        await served.broker.admin.create(b"t", {"retry_delays": [5]}).wait()
        await publish(served, "a b c")
        stream = await served.begin("/subscribe/t?prefetch=3")
        lines = Lines(stream)
        stream.write(b'"INIT"')
        assert [(await lines.hear())["receipt"] for _ in range(3)] == ["1", "2", "3"]
        stream.write(b'"NACK 3 1 2" "ACK"')
        assert "error" in await lines.hear()
        served.clock.advance(5.001)
        served.broker.tick()
        assert [(await lines.hear())["msg"] for _ in range(3)] == [msg(each)["msg"] for each in "cab"]


@pytest.mark.parametrize(
    ("query", "status"),
    [(b"prefetch=\xb2", 400), (b"prefetch=%b2", 400), (b"\xff&prefetch=2", 400), (b"prefetch=2&group=%C3%A9", 200)],
)
async def test_a_query_that_is_not_ascii_is_read_like_any_other(query, status):
    path = b"/subscribe/t"
    scope = {"type": "http", "method": "POST", "path": path.decode(), "raw_path": path, "headers": []}
    sent: list[dict] = []

    async def receive():
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    broker = broker_on(MemoryStore(), ManualClock())
    await broker.start()
    await HttpApp(broker)(scope | {"query_string": query}, receive, send)
    await broker.stop()
    assert sent[0]["status"] == status


@pytest.mark.parametrize("query", ["grup=audit", "group=a&group=b"])
async def test_what_would_be_passed_over_in_a_query_is_refused(certificates, query):
    async with serving(certificates) as served:
        status, answer = await served.request("POST", f"/subscribe/t?{query}")
        assert status == 400
        assert b"prefetch, group, member, session, lease, each at most once" in answer


@pytest.mark.parametrize("prefetch", ["0", "10001", "x", "", "-1", "9999999999"])
async def test_bad_prefetch_is_refused(certificates, prefetch):
    async with serving(certificates) as served:
        status, _ = await served.request("POST", f"/subscribe/t?prefetch={prefetch}")
        assert status == 400


async def test_client_that_only_returns_a_large_message_is_cut_off_before_memory_fills(certificates, monkeypatch):
    monkeypatch.setattr(subscribe, "MAX_UNSENT_BYTES", 300_000)
    async with serving(certificates) as served:
        await served.broker.publish(b"t", [b"x" * 99_000]).commit.wait()
        stream = await served.begin("/subscribe/t")
        stream.write(b'"INIT"' + b'"NACK"' * 500, is_last=False)
        heard = await Lines(stream).hear_all()
        assert 3 <= len(heard) <= 6
        assert served.broker.stats()[b"t"].leased == 0


async def test_an_ack_of_a_message_that_ended_with_its_topic_writes_no_error(certificates):
    """The Go program's own test `TestServerDelete` expects this."""
    async with serving(certificates) as served:
        await publish(served, "a b")
        lines = Lines(await served.begin("/subscribe/t"))
        lines.say("INIT")
        assert await lines.hear() == msg("a")
        await served.broker.delete_topic(b"t")
        lines.say("ACK")
        await publish(served, "c")
        assert await lines.hear() == msg("c")
        await served.broker.delete_topic(b"t")
        lines.say("NACK")
        assert await lines.hear() == NOTHING


async def test_a_request_that_ends_after_init_gets_what_must_be_read_from_the_store(world):
    await world.publish(b"t", b"a", b"b")
    await world.restart()
    sent = []

    async def receive():
        return {"type": "http.request", "body": b'"INIT"', "more_body": False}

    async def send(message):
        sent.append(message)

    await subscribe.Subscription(world.broker, b"t", parse_stream_options({})).run({}, receive, send)
    assert b"".join(message.get("body", b"") for message in sent) == b'{"msg":"YQ=="}\n'
    assert await world.drain(b"t") == [b"a", b"b"]
