"""Logs that keep what is acknowledged, in the tools: sound to `check` after every commit, consumed to `export`."""

import orjson
import pytest

from miniqueue.broker.cleanup import retention
from miniqueue.storage.format import keys, log_ends, values
from miniqueue.tools.audit.store import Audit
from miniqueue.tools.exporting.exporter import Exporter
from tests.broker.cleanup.test_retention import configure, consume, fill, tick


def problems_of(pairs):
    audit = Audit()
    for key, value in sorted(pairs.items()):
        audit.take(key, value)
    audit.finish()
    return [str(problem) for problem in audit.problems.kept]


def payloads_exported(pairs):
    lines = [orjson.loads(line) for line in Exporter().lines(iter(sorted(pairs.items())))]
    return [line["text"] for line in lines if "text" in line]


async def live(world):
    """Keep, consume in and out of order, return, drop, end to keep, and keep again."""
    await world.publish(b"t", b"before", b"kept", b"at all")
    await configure(world, retention="forever")
    await fill(world, 6)
    holders = [await world.holding(b"t") for _ in range(6)]
    for n in (3, 4, 0, 1):
        holders[n].consumer.ack()
        await world.commit()
    holders[2].consumer.dack(5)
    holders[5].consumer.nack()
    await world.commit()
    await world.publish(b"t", b"x", b"y")
    await consume(world, 3)
    await configure(world, retention_seconds=3)
    world.clock.advance(2)
    await tick(world)
    await world.restart()
    await configure(world)
    await tick(world)
    await configure(world, retention_seconds=1, retention_drops_unread=True)
    await fill(world, 5)
    await tick(world)
    await world.drain(b"t")
    await world.commit()
    await tick(world)


@pytest.mark.parametrize("page_chunks", [2, 256])
async def test_a_log_that_is_kept_is_sound_after_every_commit(page_chunks, monkeypatch, world):
    monkeypatch.setattr(retention, "PAGE_CHUNKS", page_chunks)
    await live(world)
    for count in range(1, len(world.store.batches) + 1):
        store = await world.store.as_of(count)
        assert problems_of(store.pairs()) == [], count


async def test_what_is_only_kept_is_not_exported(world):
    await configure(world, retention="forever")
    await fill(world, 6)
    holder = await world.holding(b"t")
    await consume(world, 3)
    world.clock.advance(1)
    assert payloads_exported(world.store.pairs()) == ["0", "4", "5"]
    holder.consumer.ack()
    await world.commit()
    assert payloads_exported(world.store.pairs()) == ["4", "5"]


async def test_chunks_outside_of_what_is_kept_are_told(world):
    await configure(world, retention="forever")
    await fill(world, 4)
    await consume(world, 2)
    pairs = world.store.pairs()
    key = log_ends.start(1, 0)
    assert problems_of(pairs) == []
    early, *_ = problems_of(pairs | {key: log_ends.encode_start(1, None)})
    assert "all messages before message 2 are settled, but the chunk was not deleted" in early
    ended = problems_of(pairs | {key: log_ends.encode_start(0, 1)})
    assert "all messages before message 2 are settled, but the chunk was not deleted" in ended[0]
    without = problems_of({one: value for one, value in pairs.items() if one != key})
    assert sum("but the chunk was not deleted" in problem for problem in without) == 2
    broken = problems_of(pairs | {key: b"x"})
    assert len(broken) == 1
    assert keys.parse(key).space is keys.Space.START


async def test_settings_without_a_start_as_an_import_leaves_them_keep_from_then_on(world):
    await fill(world, 3)
    await consume(world, 1)
    settings = world.broker.admin.settings_of(b"t").with_changes({"retention": "forever"}, b"t")
    await world.store.write({keys.settings(1): values.encode_settings(settings)})
    await world.restart()
    await world.drain(b"t")
    await world.commit()
    pairs = world.store.pairs()
    assert log_ends.decode_start(pairs[log_ends.start(1, 0)]) == (1, None)
    assert problems_of(pairs) == []
