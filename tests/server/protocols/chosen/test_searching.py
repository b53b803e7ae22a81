"""SEARCH and GET /topics/{topic}/search."""

import orjson
import pytest

from miniqueue.core.options.filter import MAX_VALUE_BYTES
from tests.server.protocols.speakers import HttpSpeaker, RefusedError, RespSpeaker


async def test_messages_are_found_by_key_header_and_text(speaker):
    await speaker.publish("t", b"one", key="a")
    await speaker.publish("t", b"two", key="b")
    await speaker.publish("t", b"three", key="b", delay=60)
    by_key = await speaker.search("t", key="b")
    assert [(seen["msg"], seen["state"]) for seen in by_key["messages"]] == [(b"three", "delayed"), (b"two", "ready")]
    assert by_key["next"] is None
    assert by_key["scanned"] == 3
    by_text = await speaker.search("t", contains="o", state="ready")
    assert [seen["msg"] for seen in by_text["messages"]] == [b"one", b"two"]


async def test_a_search_continues_at_a_position(speaker):
    for number in range(7):
        await speaker.publish("t", b"%d" % number)
    found, options = [], {}
    for _ in range(4):
        page = await speaker.search("t", count=2, **options)
        found += [seen["msg"] for seen in page["messages"]]
        options = {"after": page["next"]}
    assert found == [b"%d" % number for number in range(7)]
    assert page["next"] is None


async def test_a_search_reads_a_limited_number_of_messages(speaker):
    for number in range(5):
        await speaker.publish("t", b"%d" % number)
    page = await speaker.search("t", contains="4", scan=3)
    assert (page["messages"], page["scanned"]) == ([], 3)
    rest = await speaker.search("t", contains="4", scan=3, after=page["next"])
    assert ([seen["msg"] for seen in rest["messages"]], rest["next"]) == ([b"4"], None)


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"state": "leased"}, "BADOPTION"),
        ({"older": "x"}, "BADDELAY"),
        ({"scan": 0}, "BADOPTION"),
        ({"count": 0}, "BADOPTION"),
        ({"after": "x"}, "BADOPTION"),
        ({"contains": ""}, "BADOPTION"),
    ],
)
async def test_wrong_options_are_refused(options, refusal, speaker):
    await speaker.publish("t", b"x")
    with pytest.raises(RefusedError, match=refusal):
        await speaker.search("t", **options)


async def test_headers_are_conditions_over_resp(client):
    await client.say(b"PUB t x HEADER tenant acme")
    await client.say(b"PUB t y HEADER tenant other")
    reply = await client.say(b"SEARCH t HEADER Tenant acme COUNT 5")
    assert b"0-0" in reply
    assert b"0-1" not in reply
    assert (
        await client.say(b"SEARCH t HEADER tenant")
        == b"-BADOPTION a header is a name and a value, as in tenant acme; over HTTP, tenant:acme\r\n"
    )
    assert await client.say(b"SEARCH t COLOR red") == b"-ERR syntax error at 'COLOR'\r\n"
    assert await client.say(b"SEARCH t HEADER a 1 HEADER b 2 HEADER c 3") == b"-ERR syntax error at 'HEADER'\r\n"


async def test_a_header_can_be_named_once_among_other_conditions(client):
    await client.say(b"PUB t x KEY k HEADER tenant acme")
    assert b"0-0" in await client.say(b"SEARCH t KEY k HEADER tenant acme STATE ready")
    for count in (2, 3, 4):
        words = b" HEADER tenant acme" * count
        assert await client.say(b"SEARCH t" + words) == b"-ERR syntax error at 'HEADER'\r\n"
        assert await client.say(b"MESSAGES DELETE t" + words) == b"-ERR syntax error at 'HEADER'\r\n"
    assert await client.say(b"PING") == b"+PONG\r\n"


async def test_the_name_of_a_header_can_contain_a_colon_over_resp(client):
    await client.say(b"PUB t x HEADER a:b c")
    await client.say(b"PUB t y HEADER a b:c")
    assert b"0-1" not in (reply := await client.say(b"SEARCH t HEADER a:b c"))
    assert b"0-0" in reply
    assert b"0-0" not in (reply := await client.say(b"SEARCH t HEADER a b:c"))
    assert b"0-1" in reply
    assert await client.say(b"MESSAGES DELETE t HEADER a:b c DRYRUN") == b":1\r\n"
    refused = await client.say(b"SEARCH t HEADER a " + b"x" * MAX_VALUE_BYTES)
    assert refused == b"-BADOPTION header is longer than 4096 bytes\r\n"


async def test_a_condition_can_be_any_bytes_over_http(world):
    await RespSpeaker(world).ask("PUB t x KEY", b"\xff")
    await RespSpeaker(world).ask("PUB t y KEY", "\N{REPLACEMENT CHARACTER}".encode())
    speaker = HttpSpeaker(world)
    _, page = await speaker.ask("GET", "/topics/t/search?key=%FF")
    assert [message["id"] for message in orjson.loads(page)["messages"]] == ["0-0"]
    _, reply = await speaker.ask("POST", "/topics/t/messages/delete?key=%FF")
    assert orjson.loads(reply) == {"count": 1}
