"""All groups leave a store with their topic: each has the same messages waiting where it is imported."""

import orjson
import pytest

from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.options.start import Edge
from miniqueue.errors import InvalidLineError
from miniqueue.storage.format import groups, keys
from miniqueue.tools.importing import importer
from miniqueue.tools.importing.importer import Importer, import_all
from tests.broker.consume.test_partitions import KEYS, create
from tests.broker.groups.test_groups import payloads, receive
from tests.broker.support import World
from tests.fakes import START_MS, settle_down
from tests.tools.test_lanes_and_groups import GROUPS, Walk, lines_of, problems_in

GROUPS_LINE = {"topic": "t", "groups": ["default", "a", "b"]}


def bare(lines: list[bytes]) -> list[dict]:
    """Return of each line what it says of groups and places."""
    names = ("groups", "id", "state", "for")
    return [{name: said[name] for name in names if name in said} for said in map(orjson.loads, lines)]


async def imported(*lines: object) -> World:
    """Return a world with a broker on what lines make, which `check` has looked at."""
    fresh = World()
    lines_in = await Importer.begin(fresh.store, START_MS)
    await import_all([lines_in], [line if isinstance(line, bytes) else orjson.dumps(line) for line in lines])
    assert problems_in(fresh.store.pairs()) == []
    await fresh.start()
    return fresh


async def all_of(world: World, group: bytes) -> list:
    """Return what a group has at once: payload, number and returns."""
    taken: list = []
    while True:
        answers: list = []
        options = ReceiveOptions(1000, group=group)
        receiving = world.broker.leases.receive(b"t", options, answers.append, answers.append)
        await settle_down()
        receiving.give_up()
        if not answers[0].leases:
            return taken
        for _, lease in answers[0].leases:
            taken += [(payload, lease.first_seq + n, lease.counts) for n, payload in enumerate(lease.payloads)]


async def handed_out(world: World) -> dict[bytes, list]:
    """Return what each group gets after a restart, when all is due: payload, number and returns."""
    await world.restart()
    world.clock.advance(10_000)
    world.broker.tick()
    taken: dict[bytes, list] = {}
    async for group in world.broker.groups.figures(b"t"):
        taken[group.name] = sorted(await all_of(world, group.name))
        assert len(taken[group.name]) == group.lag
    return taken


async def three_groups(world: World) -> None:
    """Make three groups at different positions; messages were returned to one, and another has settled them."""
    await create(world, 3)
    for group in GROUPS[1:]:
        await world.broker.groups.create(b"t", group)
    for number in range(12):
        options = PublishOptions(key=KEYS[number % len(KEYS)])
        world.broker.publish_with(b"t", b"%d" % number, options)
        if number % 4 == 3:
            await world.commit()
    acts = world.broker.leases
    some = await receive(world, b"a", 5)
    acts.ack(b"t", [receipt for receipt, _ in some[:4]])
    acts.nack(b"t", [some[4][0]])
    acts.dack(b"t", [some[5][0]], 60)
    acts.back(b"t", [some[6][0]])
    others = await receive(world, b"default", 5)
    acts.ack(b"t", [receipt for receipt, _ in others[6:]])
    acts.nack(b"t", [others[0][0], others[2][0]])
    await world.broker.groups.create(b"t", b"late", Edge.LATEST)
    await world.commit()


async def test_three_groups_at_different_places_come_back(world):
    await three_groups(world)
    lines = lines_of(world.store.pairs())
    assert bare(lines)[1] == {"groups": ["default", "a", "b", "late"]}
    fresh = await imported(*lines)
    assert lines_of(fresh.store.pairs()) == lines
    taken = await handed_out(world)
    assert {name: len(found) for name, found in taken.items()} == {b"default": 6, b"a": 8, b"b": 12, b"late": 0}
    assert await handed_out(fresh) == taken
    await fresh.broker.stop()


@pytest.mark.parametrize("seed", range(8))
async def test_whatever_groups_did_each_has_the_same_afterwards(seed, world):
    await create(world, 2)
    walk = Walk(world, seed)
    for _ in range(50):
        await walk.step()
    await world.commit()
    lines = lines_of(world.store.pairs())
    fresh = await imported(*lines)
    assert sorted(lines_of(fresh.store.pairs())) == sorted(lines)
    assert await handed_out(fresh) == await handed_out(world)
    await fresh.broker.stop()


async def test_a_line_says_who_is_to_get_a_message_where_not_all_are(world):
    for group in GROUPS:
        await world.broker.groups.create(b"t", group)
    await world.publish(b"t", b"1", b"2", b"3")
    (_, one), (two, _), _ = await receive(world, b"a")
    assert one == b"1"
    world.broker.leases.nack(b"t", [two])
    await payloads(world, b"b")
    assert bare(lines_of(world.store.pairs())) == [
        {"groups": ["default", "a", "b"]},
        {"id": "0-0", "state": "waiting", "for": ["default", "a"]},
        {"id": "0-1", "state": "waiting", "for": ["default"]},
        {"id": "0-2", "state": "waiting", "for": ["default", "a"]},
        {"id": "0-1", "state": "front", "for": ["a"]},
    ]


async def test_a_message_that_is_for_one_group_is_exported_for_that_and_for_none_when_that_is_deleted(world):
    for group in (b"default", b"a"):
        await world.broker.groups.create(b"t", group)
    await world.publish(b"t", b"1")
    [(receipt, _)] = await receive(world, b"a")
    world.broker.leases.reject(b"t", [receipt], b"broken")
    assert await payloads(world, b"default") == [b"1"]
    assert await world.broker.redrive(b"t.dlq") == 1
    lines = [line for line in lines_of(world.store.pairs()) if b'"topic":"t"' in line]
    assert bare(lines)[-1:] == [{"id": "0-1", "state": "waiting", "for": ["a"]}]
    await world.broker.groups.delete(b"t", b"a")
    assert b'"0-1"' not in b"".join(lines_of(world.store.pairs()))


async def test_a_message_that_one_group_alone_lacks_is_not_lost(world):
    await world.broker.groups.create(b"t", b"a")
    await world.publish_each(b"t", b"1", b"2")
    assert await world.drain(b"t") == [b"1", b"2"]
    await world.commit()
    fresh = await imported(*lines_of(world.store.pairs()))
    assert await payloads(fresh, b"default") == []
    assert await payloads(fresh, b"a") == [b"1", b"2"]
    await fresh.broker.stop()


async def test_a_topic_keeps_its_groups_without_a_message(world):
    await world.broker.groups.create(b"t", b"a")
    lines = lines_of(world.store.pairs())
    assert bare(lines) == [{"groups": ["a"]}]
    fresh = await imported(*lines)
    assert [group.name async for group in fresh.broker.groups.figures(b"t")] == [b"a"]
    await fresh.broker.stop()


async def test_lines_without_groups_are_those_of_the_default_group(world):
    await world.publish_each(b"t", b"1", b"2")
    lines = lines_of(world.store.pairs())
    assert bare(lines) == [{"id": "0-0", "state": "waiting"}, {"id": "0-1", "state": "waiting"}]
    fresh = await imported(*lines)
    assert [group.name async for group in fresh.broker.groups.figures(b"t")] == [b"default"]
    assert await payloads(fresh, b"default") == [b"1", b"2"]
    await fresh.broker.stop()


async def test_a_group_that_is_deleted_and_has_left_keys_is_none(world):
    await world.publish(b"t", b"1")
    await world.broker.groups.create(b"t", b"a")
    left = {groups.purge(1, 0): b""}
    assert bare(lines_of(world.store.pairs() | left)) == [{"groups": ["a"]}, {"id": "0-0", "state": "waiting"}]
    assert keys.cursor(1, 0, 0) in world.store.pairs()


async def test_a_unique_key_is_free_that_only_another_group_has_a_message_with(world):
    for group in (b"default", b"a"):
        await world.broker.groups.create(b"t", group)
    accepted = await world.broker.publish_unique(b"t", b"1", PublishOptions(unique_key=b"k"))
    await accepted.commit.wait()
    await payloads(world, b"default")
    fresh = await imported(*lines_of(world.store.pairs()))
    assert not (await fresh.broker.publish_unique(b"t", b"2", PublishOptions(unique_key=b"k"))).is_duplicate
    assert await payloads(fresh, b"a") == [b"1", b"2"]
    await fresh.broker.stop()


@pytest.mark.parametrize("batch_bytes", [1, 1 << 20])
async def test_a_group_that_begins_after_an_import_counts_only_what_it_is_to_get(monkeypatch, batch_bytes, world):
    monkeypatch.setattr(importer, "BATCH_BYTES", batch_bytes)
    waiting = [MESSAGE | {"id": f"0-{number}", "published_at": number} for number in (1, 2, 5, 6)]
    fresh = await imported(*waiting, RECORD | {"id": "0-0"}, RECORD | {"id": "0-3", "serial": 2})
    await fresh.broker.groups.create(b"t", b"late")
    await fresh.publish(b"t", b"more")
    assert problems_in(fresh.store.pairs()) == []
    assert await payloads(fresh, b"late") == [b"x", b"x", b"x", b"x", b"more"]
    assert problems_in(fresh.store.pairs()) == []
    await fresh.broker.stop()


MESSAGE = {"topic": "t", "id": "0-4", "text": "x"}
RECORD = MESSAGE | {"state": "front", "published_at": 1, "returns": {"nacks": 1}, "serial": 1}


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        ([MESSAGE, GROUPS_LINE], "line 2: misplaced groups; they must come once, before the messages of the topic"),
        ([GROUPS_LINE, GROUPS_LINE], "line 2: misplaced groups; they must come once"),
        ([GROUPS_LINE | {"groups": []}], "invalid groups; must be a list of names"),
        ([GROUPS_LINE | {"groups": "ab"}], "invalid groups; must be a list of names"),
        ([GROUPS_LINE | {"groups": ["a", "a"]}], "a group is named twice"),
        ([GROUPS_LINE | {"groups": ["a/b"]}], "invalid group name"),
        ([GROUPS_LINE | {"groups": [1]}], "invalid group name"),
        ([GROUPS_LINE | {"text": "x"}], "unknown member 'text'"),
        ([GROUPS_LINE, MESSAGE | {"for": ["c"]}], "the topic has no group 'c'"),
        ([MESSAGE | {"for": ["a"]}], "the topic has no group 'a'"),
        (
            [GROUPS_LINE, MESSAGE | {"only_for": "c"}],
            "the topic has no group 'c', which is the only group of the message",
        ),
        ([GROUPS_LINE, MESSAGE | {"for": []}], "invalid groups; must be a list of names"),
        ([GROUPS_LINE, MESSAGE | {"for": ["a"]}, RECORD | {"for": ["b", "a"]}], "duplicate message 0-4"),
        ([GROUPS_LINE, RECORD, RECORD | {"id": "0-5", "for": ["b"]}], "another message has the serial 1"),
    ],
)
async def test_a_wrong_line_of_groups_is_refused(lines, cause, world):
    with pytest.raises(InvalidLineError, match=cause):
        await imported(*lines)


async def test_lines_of_one_message_that_differ_make_a_sound_store(world):
    fresh = await imported(GROUPS_LINE, MESSAGE | {"for": ["a"]}, RECORD | {"text": "longer", "for": ["b"]})
    assert await payloads(fresh, b"b") == [b"longer"]
    assert await payloads(fresh, b"a") == [b"x"]
    assert await payloads(fresh, b"default") == []
    await fresh.broker.stop()
