"""Schedules, in the tools: sound to `check` after every commit, carried over by export and import."""

import json

import pytest

from miniqueue import cli
from miniqueue.core.message.lanes import Priority
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.settings.schedule import Missed, Schedule
from miniqueue.storage.format import schedules, values
from tests.fakes import START_MS, settle_down
from tests.tools import stores
from tests.tools.test_delayed_messages import problems_of

NINE = Schedule(b"t", b"\xff", cron="0 9 * * *", zone="Europe/Berlin", missed=Missed.ONE)
BEAT = Schedule(b"u", b"x", every_ms=1500)
SALE = Schedule(
    b"v",
    b"x",
    every_ms=1500,
    options=PublishOptions(((b"kind", b"\xff"),), b"shop", 0.5, priority=Priority.LOW),
    until_ms=START_MS + 9000,
)


async def test_a_store_is_sound_after_every_commit(world):
    world.broker.scheduler.set(b"nine", NINE)
    await world.broker.scheduler.set(b"beat", BEAT)[0].wait()
    for _ in range(3):
        world.clock.advance(2)
        world.broker.tick()
        await settle_down()
    await world.broker.scheduler.delete(b"nine").wait()
    for count in range(1, len(world.store.batches) + 1):
        assert problems_of((await world.store.as_of(count)).pairs()) == []


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ({schedules.tick(b"a"): values.encode_number(1)}, "there is no such schedule"),
        ({schedules.schedule(b"a"): schedules.encode_schedule(BEAT)}, "the schedule has no next tick"),
        ({schedules.tick(b"a"): b"x"}, "checksum"),
        ({schedules.schedule(b"a"): b"x"}, "checksum"),
        ({schedules.tick(b"a b"): values.encode_number(1)}, "no schedule can have this name"),
    ],
)
def test_what_is_wrong_is_told(pairs, expected):
    assert any(expected in problem for problem in problems_of(pairs))


LINES = [
    {"schedule": "beat", "next_at": START_MS + 1500, "topic": "u", "every_ms": 1500, "missed": "all", "text": "x"},
    {
        **{"schedule": "nine", "next_at": 1_700_035_200_000, "topic": "t", "cron": "0 9 * * *"},
        **{"zone": "Europe/Berlin", "missed": "one", "msg": "/w=="},
    },
    {
        **{"schedule": "sale", "next_at": START_MS + 1500, "topic": "v", "every_ms": 1500, "missed": "all"},
        **{"until_ms": START_MS + 9000, "priority": "low", "ttl": 0.5, "headers": [["kind", {"base64": "/w=="}]]},
        **{"key": "shop", "text": "x"},
    },
]


def run_tool(*words):
    return cli.main([*map(str, words)], {})


async def put(broker, _clock):
    broker.scheduler.set(b"nine", NINE)
    broker.scheduler.set(b"sale", SALE)
    await broker.scheduler.set(b"beat", BEAT)[0].wait()
    await stores.publish(broker, b"t", b"x")


def test_they_leave_a_store_as_lines_and_come_back_the_same(tmp_path, capfdbinary):
    stores.run_on(tmp_path / "old", put)
    assert run_tool("export", "-db", tmp_path / "old") == 0
    lines = capfdbinary.readouterr().out
    assert [json.loads(line) for line in lines.splitlines()][1:] == LINES
    (tmp_path / "lines").write_bytes(lines)
    assert run_tool("import", "-db", tmp_path / "new", tmp_path / "lines") == 0
    assert run_tool("check", "-db", tmp_path / "new") == 0
    old, new = (
        {k: v for k, v in stores.contents(tmp_path / name).items() if k[0] in (5, 0x30)} for name in ("old", "new")
    )
    assert old == new
    assert len(new) == 6
    capfdbinary.readouterr()
    (tmp_path / "again").write_text(json.dumps(LINES[0]))
    assert run_tool("import", "-db", tmp_path / "new", tmp_path / "again") == 65
    assert b"schedule beat exists already in the store" in capfdbinary.readouterr().err
    assert run_tool("export", "-db", tmp_path / "new", "t") == 0
    assert [json.loads(line).get("schedule") for line in capfdbinary.readouterr().out.splitlines()] == [None, "nine"]


def test_schedules_alone_can_be_imported(tmp_path, capfdbinary):
    (tmp_path / "lines").write_text("\n".join(map(json.dumps, LINES)))
    assert run_tool("import", "-db", tmp_path / "new", tmp_path / "lines") == 0
    assert len(stores.contents(tmp_path / "new")) == 6


@pytest.mark.parametrize(
    "change",
    [
        *({"schedule": "a/b"}, {"next_at": -1}, {"cron": "* * * * *"}, {"every_ms": 0}, {"text": 5}, {"what": 1}),
        *({"until_ms": "x"}, {"until_ms": -1}, {"ttl": 0}, {"ttl": True}, {"priority": "urgent"}, {"key": 5}),
        *({"headers": [["a b", "c"]]}, {"dedup": "d"}, {"unique": "u"}),
    ],
)
def test_a_line_that_is_wrong_is_refused(change, tmp_path, capfdbinary):
    (tmp_path / "lines").write_text(json.dumps(LINES[0] | change))
    assert run_tool("import", "-db", tmp_path / "new", tmp_path / "lines") == 65
