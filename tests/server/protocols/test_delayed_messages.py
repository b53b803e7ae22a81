"""Messages published with a delay, over both protocols."""

import pytest

from tests.fakes import START_MS, settle_down
from tests.server.protocols.speakers import RefusedError, RespSpeaker

NOT_THERE = b"There is no such message: it was cancelled, or has become due"


async def test_they_are_listed_found_cancelled_and_due_at_their_time(speaker, world):
    first, second = "0-1700000060000-1", "0-1700000030000-2"
    assert await speaker.publish("t", b"a", delay=60) == first
    assert await speaker.publish("t", b"b", at=1_700_000_030_000) == second
    listed = await speaker.peek("t", state="delayed")
    assert [(one["id"], one["msg"], one["due_at_ms"] - START_MS) for one in listed] == [
        (second, b"b", 30_000),
        (first, b"a", 60_000),
    ]
    assert await speaker.peek("t", state="delayed", count=1) == listed[:1]
    assert await speaker.peek("t", state="delayed", after=second) == listed[1:]
    shown = await speaker.show("t", first)
    assert (shown["msg"], shown["state"]) == (b"a", "delayed")
    await speaker.cancel("t", first)
    for _ in range(2):
        with pytest.raises(RefusedError, match=f"NOMESSAGE {NOT_THERE.decode()}"):
            await speaker.cancel("t", first)
    with pytest.raises(RefusedError, match="NOMESSAGE "):
        await speaker.show("t", first)
    world.clock.advance(30)
    world.broker.tick()
    await settle_down()
    figures = await speaker.figures("t")
    assert (figures["ready"], figures["delayed"], figures["published"]) == (1, 0, 1)
    assert [(one["id"], one["msg"]) for one in await speaker.peek("t")] == [("0-0", b"b")]
    with pytest.raises(RefusedError, match="NOMESSAGE "):
        await speaker.cancel("t", second)
    with pytest.raises(RefusedError, match="BADOPTION "):  # over HTTP, the same route deletes it
        await RespSpeaker(world).cancel("t", "0-0")
    assert await speaker.purge("t") == 1


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        (b"CANCEL t 0-0", b"-BADOPTION the id of a delayed message is three numbers, as in 0-1700000000000-17\r\n"),
        (b"CANCEL t", b"-ERR invalid number of args, want: 3; syntax: CANCEL topic id\r\n"),
        (b"CANCEL other 0-1-1", b"-NOTOPIC There is no such topic\r\n"),
        (b"CANCEL t 99999-1-1", b"-NOMESSAGE %b\r\n" % NOT_THERE),
        (b"PEEK t AFTER 0-1-1", b"-NOMESSAGE There is no such message: it never was, or was acknowledged\r\n"),
        (
            b"PEEK t STATE leased AFTER 0-1-1",
            b"-NOMESSAGE There is no such message: it never was, or was acknowledged\r\n",
        ),
        (b"PEEK t STATE delayed AFTER 0-1-1", b"*0\r\n"),
        (b"PEEK t ID 0-1-1", b"-NOMESSAGE There is no such message: it never was, or was acknowledged\r\n"),
        (b"PUB t x DELAY -1", None),
        (b"PUB t x DELAY 1e300", None),
        (b"PUB t x AT 9223372036854775808", None),
    ],
)
async def test_what_is_refused(line, reply, world, client):
    await world.publish(b"t", b"a")
    said = await client.say(line)
    assert said == reply if reply is not None else said.startswith(b"-BAD")
