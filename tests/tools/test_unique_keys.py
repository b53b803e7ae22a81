"""Unique keys and dedup ids, in the tools: sound to `check` after every commit, carried over by export and import."""

import json

import pytest

from miniqueue import cli
from miniqueue.core.options.publish import PublishOptions
from miniqueue.storage.format import dedup, keys
from tests.fakes import settle_down
from tests.tools import stores
from tests.tools.test_delayed_messages import problems_of

EU = PublishOptions(unique_key=b"eu")


async def publish(broker, payload: bytes, options: PublishOptions) -> None:
    accepted = await broker.publish_unique(b"t", payload, options)
    await accepted.commit.wait()


async def live(world) -> None:
    """Claim, move, release, and claim unique keys again."""
    for number in range(3):
        await publish(world.broker, b"%d" % number, EU._replace(unique_key=b"%d" % number, dedup_id=b"id%d" % number))
    await publish(world.broker, b"later", EU._replace(delay_seconds=1.0))
    holder = await world.holding(b"t")
    holder.consumer.ack()
    holder.consumer.request()
    await settle_down()
    holder.consumer.nack()
    await world.commit()
    await publish(world.broker, b"again", EU._replace(unique_key=b"0"))
    world.clock.advance(200)
    world.broker.tick()
    await settle_down()
    await world.broker.purge(b"t")


async def test_a_store_is_sound_after_every_commit(world):
    await live(world)
    spaces = {key[0] for batch in world.store.batches for key in batch}
    assert {keys.Space.UNIQUE, keys.Space.DEDUP} <= spaces
    for count in range(1, len(world.store.batches) + 1):
        store = await world.store.as_of(count)
        assert problems_of(store.pairs()) == []


KEY = dedup.unique(1, b"eu", b"0-0")
OWNED = "the unique key belongs to {}, but the waiting messages that have it are: {}"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda pairs: pairs.pop(KEY), OWNED.format("no message", "0-0")),
        (
            lambda pairs: pairs.update({dedup.unique(1, b"eu", b"0-7"): pairs.pop(KEY)}),
            OWNED.format("0-7", "0-0"),
        ),
        (
            lambda pairs: pairs.update({dedup.unique(1, b"eu", b"0-7"): pairs[KEY]}),
            OWNED.format("0-0, 0-7", "0-0"),
        ),
        (
            lambda pairs: pairs.update({dedup.unique(1, b"us", b"0-0"): dedup.encode_unique(0)}),
            OWNED.format("0-0", "none"),
        ),
        (lambda pairs: pairs.update({KEY: b"x"}), "unique key: checksum does not match"),
        (lambda pairs: pairs.update({dedup.dedup(1, 1, 1): b"x"}), "dedup ids: checksum does not match"),
        (lambda pairs: pairs.update({dedup.unique(7, b"us", b"0-0"): b"x"}), "there is no such topic"),
    ],
)
async def test_what_is_wrong_with_them_is_found(change, problem, world):
    await publish(world.broker, b"x", EU._replace(dedup_id=b"1"))
    pairs = world.store.pairs()
    change(pairs)
    assert any(problem in text for text in problems_of(pairs))


def exported(capfdbinary, store) -> list[dict]:
    assert cli.main(["export", "-db", str(store)], {}) == 0
    return [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]


def test_keys_are_carried_over_by_export_and_import(tmp_path, capfdbinary):
    async def fill(broker, _clock) -> None:
        await publish(broker, b"a", EU)
        await publish(broker, b"b", EU._replace(unique_key=b"\xff", delay_seconds=60.0))
        await publish(broker, b"c", EU._replace(unique_key=b"back"))
        consumer = await stores.holding(broker, b"t")
        consumer.consumer.nack()

    stores.run_on(tmp_path / "old", fill)
    lines = exported(capfdbinary, tmp_path / "old")
    assert sorted(str(line["unique"]) for line in lines) == ["back", "eu", "{'base64': '/w=='}"]
    file = tmp_path / "lines"
    file.write_text("\n".join(map(json.dumps, lines)))
    assert cli.main(["import", "-db", str(tmp_path / "new"), str(file)], {}) == 0
    assert cli.main(["check", "-db", str(tmp_path / "new")], {}) == 0
    capfdbinary.readouterr()
    assert exported(capfdbinary, tmp_path / "new") == lines

    async def publish_again(broker, _clock) -> None:
        accepted = await broker.publish_unique(b"t", b"x", EU)
        assert (accepted.is_duplicate, accepted.message_id) == (True, b"0-0")

    stores.run_on(tmp_path / "new", publish_again)


def test_two_messages_with_one_key_are_carried_over_too(tmp_path, capfdbinary):
    async def fill(broker, clock) -> None:
        await publish(broker, b"a", EU._replace(ttl_seconds=1))
        clock.advance(2)
        await publish(broker, b"b", EU)

    stores.run_on(tmp_path / "old", fill)
    lines = exported(capfdbinary, tmp_path / "old")
    assert len(lines) == 2
    file = tmp_path / "lines"
    file.write_text("\n".join(map(json.dumps, lines)))
    assert cli.main(["import", "-db", str(tmp_path / "new"), str(file)], {}) == 0
    assert cli.main(["check", "-db", str(tmp_path / "new")], {}) == 0

    async def publish_again(broker, clock) -> None:
        clock.advance(2)
        accepted = await broker.publish_unique(b"t", b"x", EU)
        assert (accepted.is_duplicate, accepted.message_id) == (True, b"0-1")

    stores.run_on(tmp_path / "new", publish_again)
