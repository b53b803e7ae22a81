"""Schedules, over both protocols."""

import orjson
import pytest

from tests.fakes import START_MS, settle_down
from tests.serving import serving


async def test_over_resp_they_are_set_shown_listed_and_deleted(world, client):
    words = [
        b"SCHEDULE",
        b"SET",
        b"b",
        b"CRON",
        b"0 9 * * *",
        b"tz",
        b"Europe/Berlin",
        b"MISSED",
        b"one",
        b"t",
        b"x y",
    ]
    client.send(*words)
    await settle_down()
    assert client.transport.take() == b"+OK\r\n"
    assert await client.say(b"schedule set a EVERY 1.5 t x") == b"+OK\r\n"
    assert await client.say(b"SCHEDULE GET b") == (
        b"*14\r\n$4\r\nname\r\n$1\r\nb\r\n$5\r\ntopic\r\n$1\r\nt\r\n$4\r\ncron\r\n$9\r\n0 9 * * *\r\n"
        b"$2\r\ntz\r\n$13\r\nEurope/Berlin\r\n$6\r\nmissed\r\n$3\r\none\r\n"
        b"$10\r\nnext_at_ms\r\n:1700035200000\r\n$7\r\npayload\r\n$3\r\nx y\r\n"
    )
    listed = await client.say(b"SCHEDULE LIST")
    assert listed.startswith(b"*2\r\n")
    assert listed.index(b"$5\r\nevery\r\n") < listed.index(b"$4\r\ncron\r\n")
    assert b"payload" not in listed
    assert (await client.say(b"SCHEDULE LIST AFTER a COUNT 5")).startswith(b"*1\r\n")
    world.clock.advance(2)
    world.broker.tick()
    await settle_down()
    reported = await client.say(b"PEEK t")
    assert b"schedule-at-ms\r\n$13\r\n%d\r\n" % (START_MS + 1500) in reported
    assert await client.say(b"SCHEDULE DELETE a") == b"+OK\r\n"
    assert await client.say(b"SCHEDULE DELETE a") == b"-NOSCHEDULE There is no such schedule\r\n"
    assert await client.say(b"SCHEDULE GET a") == b"-NOSCHEDULE There is no such schedule\r\n"


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        (b"SCHEDULE WHAT", b"-ERR "),
        (b"SCHEDULE SET a EVERY 1 t", b"-ERR invalid number of args"),
        (
            b"SCHEDULE SET a EVERY 0.5 t x",
            b"-BADDELAY EVERY is a number of seconds, or a duration such as 1h30m, from 1 to",
        ),
        (b"SCHEDULE SET a EVERY nan t x", b"-BADDELAY "),
        (b"SCHEDULE SET a EVERY 1_0 t x", b"-BADDELAY "),
        (b"SCHEDULE SET a EVERY 5 CRON * t x", b"-ERR invalid schedule; must have CRON, "),
        (
            b"SCHEDULE SET a MISSED all TZ UTC t x",
            b"-ERR invalid schedule; must have CRON, ",
        ),
        (b"SCHEDULE SET a EVERY 5 TZ UTC t x", b"-ERR invalid schedule; must have CRON, "),
        (b"SCHEDULE SET a CRON often t x", b"-BADOPTION CRON is minute, hour, day, month and weekday"),
        (b"SCHEDULE SET a EVERY 5 MISSED two t x", b"-BADOPTION what was missed makes all, one, none"),
        (b"SCHEDULE SET a EVERY 5 WHAT 5 t x", b"-ERR syntax error at 'WHAT'"),
        (b"SCHEDULE SET a/b EVERY 5 t x", b"-BADOPTION the name of a schedule"),
        (b"SCHEDULE SET a EVERY 5 t/u x", b"-BADTOPIC "),
        (b"SCHEDULE GET", b"-ERR invalid number of args"),
        (b"SCHEDULE DELETE a b", b"-ERR invalid number of args"),
        (b"SCHEDULE LIST COUNT 0", b"-BADOPTION "),
    ],
)
async def test_what_is_refused_over_resp(line, reply, world, client):
    assert (await client.say(line)).startswith(reply)
    assert world.broker.scheduler.count == 0


async def test_over_http_they_are_set_shown_listed_and_deleted(certificates):
    async with serving(certificates) as served:
        report = b'{"topic":"t","cron":"0 9 * * *","tz":"Europe/Berlin","missed":"none","msg":"/w=="}'
        assert (await served.request("PUT", "/schedules/a%C3%A9", report))[0] == 201
        assert (await served.request("PUT", "/schedules/a%C3%A9", report))[0] == 200
        assert (await served.request("PUT", "/schedules/b", b'{"topic":"t","every":60,"text":"x"}'))[0] == 201
        status, shown = await served.request("GET", "/schedules/a%C3%A9")
        assert (status, orjson.loads(shown)) == (
            200,
            {
                **{"name": "aé", "topic": "t", "cron": "0 9 * * *", "tz": "Europe/Berlin", "missed": "none"},
                **{"nextAtMs": 1_700_035_200_000, "msg": "/w=="},
            },
        )
        listed = orjson.loads((await served.request("GET", "/schedules?count=1&after=a%C3%A9"))[1])
        assert listed == {
            "schedules": [{"name": "b", "topic": "t", "every": 60.0, "missed": "all", "nextAtMs": START_MS + 60_000}]
        }
        assert await served.request("DELETE", "/schedules/b") == (200, b'{"deleted":"b"}')
        refusal = b'{"error":"There is no such schedule","code":"NOSCHEDULE"}'
        assert await served.request("DELETE", "/schedules/b") == (404, refusal)
        assert (await served.request("GET", "/schedules/b"))[0] == 404
        assert (await served.request("POST", "/schedules/b"))[0] == 405
        await served.broker.publish(b"schedules", [b"x"]).commit.wait()
        assert (await served.request("DELETE", "/schedules"))[0] == 200
        assert b"schedules" not in served.broker.topics()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"topic":"t","text":"x"}',
        b'{"topic":"t","every":60}',
        b'{"topic":"t","every":60,"text":"x","msg":"eA=="}',
        b'{"topic":"t","every":60,"msg":"x"}',
        b'{"topic":"t","every":0,"text":"x"}',
        b'{"topic":"t","every":true,"text":"x"}',
        b'{"topic":"t","every":60,"cron":"* * * * *","text":"x"}',
        b'{"topic":"t","every":60,"tz":"UTC","text":"x"}',
        b'{"topic":"t","cron":5,"text":"x"}',
        b'{"topic":"t","cron":"5","text":"x"}',
        b'{"topic":"t","every":60,"missed":"two","text":"x"}',
        b'{"topic":"t","every":60,"zone":"UTC","text":"x"}',
        b'{"every":60,"text":"x"}',
    ],
)
async def test_what_is_refused_over_http(body, certificates):
    async with serving(certificates) as served:
        assert (await served.request("PUT", "/schedules/a", body))[0] == 400
        assert served.broker.scheduler.count == 0


async def test_a_message_that_is_too_large_for_a_schedule_is_told_from_a_body_that_is(certificates):
    async with serving(certificates, max_message_bytes=1000) as served:
        status, reported = await served.request(
            "PUT", "/schedules/a", b'{"topic":"t","every":60,"text":"%b"}' % (b"x" * 1001)
        )
        assert (status, b"1000" in reported) == (413, True)
        status, reported = await served.request("PUT", "/schedules/a", b" " * (70 << 10))
        assert (status, b"body too large" in reported) == (400, True)
