"""Messages that are not due, in the tools: sound to `check` after every commit, carried over by export and import."""

import json
import shutil

import pytest

from miniqueue import cli
from miniqueue.broker.inspect.peeked import State
from miniqueue.core.log.delayed import Delayed, DelaysState
from miniqueue.core.message.ids import parse_delayed_id
from miniqueue.core.message.lanes import Priority
from miniqueue.core.options.publish import PublishOptions
from miniqueue.storage.format import delays
from miniqueue.tools.audit.store import Audit
from tests.broker.support import run
from tests.fakes import START_MS, settle_down
from tests.tools import stores


def problems_of(pairs):
    audit = Audit()
    for key, value in sorted(pairs.items()):
        audit.take(key, value)
    audit.finish()
    return [str(problem) for problem in audit.problems.kept]


async def live(world):
    """Delay, cancel, purge, and let some become due."""
    ids = []
    for seconds, payload in ((5, b"a"), (1, b"b"), (1, b"c"), (9, b"d"), (7, b"e")):
        accepted = world.broker.publish_with(b"t", payload, PublishOptions(delay_seconds=seconds))
        await accepted.commit.wait()
        ids.append(parse_delayed_id(accepted.message_id))
    await world.broker.delayed.cancel(b"t", ids[0])
    world.clock.advance(1)
    world.broker.tick()
    await settle_down()
    await world.restart()
    assert await world.drain(b"t") == [b"b", b"c"]
    await world.commit()
    assert await world.broker.purge(b"t", State.DELAYED) == 2


async def test_a_store_is_sound_after_every_commit(world):
    await live(world)
    for count in range(1, len(world.store.batches) + 1):
        store = await world.store.as_of(count)
        assert problems_of(store.pairs()) == []


TOPIC = 1


def damaged(change):
    """Return the problems of a store with two messages that wait, after a change."""
    found = []

    async def body(world):
        for seconds in (1, 2):
            options = PublishOptions(delay_seconds=seconds)
            await world.broker.publish_with(b"t", b"x", options).commit.wait()
        pairs = world.store.pairs()
        change(pairs)
        found.extend(problems_of(pairs))

    run(body)
    return found


COUNTS = delays.delays(TOPIC, 0)
FIRST = delays.delayed(TOPIC, 0, START_MS + 1000, 1)
MESSAGE = delays.encode_delayed(Delayed(START_MS, 0, b"x"))


def put(key, value):
    return lambda pairs: pairs.__setitem__(key, value)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda pairs: pairs.pop(FIRST), ["counts 2 delayed messages, but there are 1", "counts 2 bytes"]),
        (lambda pairs: pairs.pop(COUNTS), ["has the serial 1, but the last was 0", "is due before"]),
        (put(COUNTS, delays.encode_delays(DelaysState(2, 3, 2, START_MS))), ["counts 3 bytes"]),
        (put(COUNTS, delays.encode_delays(DelaysState(2, 2, 1, START_MS))), ["has the serial 2, but"]),
        (put(COUNTS, delays.encode_delays(DelaysState(2, 2, 2, START_MS + 1001))), ["is due before"]),
        (put(COUNTS, b"x"), ["checksum"]),
        (put(FIRST, b"x"), ["checksum"]),
        (put(delays.delayed(TOPIC, 0, START_MS + 9, 0), MESSAGE), ["has no serial"]),
        (put(delays.delayed(TOPIC, 0, START_MS + 9000, 2), MESSAGE), ["another message has the serial 2"]),
        (put(delays.delayed(TOPIC, 0, 1 << 63, 2), MESSAGE), ["the due time is too late for any message"]),
    ],
)
def test_what_is_wrong_is_told(change, expected):
    problems = damaged(change)
    assert all(any(part in problem for problem in problems) for part in expected), problems


# --- export and import ---------------------------------------------------------------------------------------


async def delay(broker, _clock):
    """Leave two messages that wait, one with all that it can have, beside one of the log."""
    await stores.publish(broker, b"t", b"now")
    full = PublishOptions(((b"h", b"v"),), b"k", priority=Priority.HIGH, delay_seconds=2)
    for payload, options in ((b"later", PublishOptions(delay_seconds=60)), (b"\xff", full)):
        await broker.publish_with(b"t", payload, options).commit.wait()


LINES = [
    {"topic": "t", "id": "0-0", "state": "waiting", "published_at": START_MS, "text": "now"},
    {
        **{"topic": "t", "id": f"0-{START_MS + 2000}-2", "state": "unpublished", "published_at": START_MS},
        **{"due_at": START_MS + 2000, "priority": "high", "msg": "/w==", "headers": [["h", "v"]], "key": "k"},
    },
    {
        **{"topic": "t", "id": f"0-{START_MS + 60000}-1", "state": "unpublished", "published_at": START_MS},
        **{"due_at": START_MS + 60000, "text": "later"},
    },
]


def run_tool(*words):
    return cli.main([*map(str, words)], {})


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    directory = tmp_path_factory.mktemp("made")
    stores.run_on(directory, delay)
    return directory


@pytest.fixture
def store(made, tmp_path):
    return shutil.copytree(made, tmp_path / "store")


def test_they_leave_a_store_as_lines_and_come_back_the_same(store, tmp_path, capfdbinary):
    assert run_tool("export", "-db", store) == 0
    lines = capfdbinary.readouterr().out
    assert [json.loads(line) for line in lines.splitlines()] == LINES
    (tmp_path / "lines").write_bytes(lines)
    assert run_tool("import", "-db", tmp_path / "new", tmp_path / "lines") == 0
    assert capfdbinary.readouterr().out.endswith(b"3 messages in 1 topic\n")
    assert run_tool("check", "-db", tmp_path / "new") == 0
    assert b" 2 delayed," in capfdbinary.readouterr().out
    was, now = stores.contents(store), stores.contents(tmp_path / "new")
    assert {key: value for key, value in now.items() if key[0] in (0x15, 0x22)} == {
        key: value for key, value in was.items() if key[0] in (0x15, 0x22)
    }

    async def use(broker, clock):
        clock.advance(2)
        broker.tick()
        while broker.stats()[b"t"].delayed > 1:
            await broker._engine.journal.committer.flush()
        assert (broker.stats()[b"t"].ready, broker.stats()[b"t"].delayed) == (2, 1)

    stores.run_on(tmp_path / "new", use)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"id": "0-17"}, "invalid 'id'"),
        ({"id": "1-5-1"}, "invalid 'id'"),
        ({"id": "0-5-0"}, "invalid 'id'"),
        ({"id": f"0-{START_MS}-1"}, "'due_at' differs from the time in 'id'"),
        ({"priority": "urgent"}, "invalid 'priority'"),
        ({"returns": {}}, "unknown member 'returns'"),
        ({"text": None}, "invalid 'text'"),
        ({"published_at": "now"}, "invalid 'published_at'"),
    ],
)
def test_a_line_that_is_wrong_is_refused(change, expected, tmp_path, capfdbinary):
    (tmp_path / "lines").write_text(json.dumps(LINES[2] | change))
    assert run_tool("import", "-db", tmp_path / "new", tmp_path / "lines") == 65
    assert expected in capfdbinary.readouterr().err.decode()


def test_a_serial_may_be_there_only_once(tmp_path, capfdbinary):
    (tmp_path / "lines").write_text(f"{json.dumps(LINES[2])}\n{json.dumps(LINES[2])}\n")
    assert run_tool("import", "-db", tmp_path / "new", tmp_path / "lines") == 65
    assert b"has the serial 1" in capfdbinary.readouterr().err


def test_a_message_about_it_is_a_message(tmp_path, capfdbinary):
    (tmp_path / "lines").write_text(json.dumps({"topic": "t", "text": '"unpublished"', "key": "unpublished"}))
    assert run_tool("import", "-db", tmp_path / "new", tmp_path / "lines") == 0
