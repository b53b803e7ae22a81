"""Which parts of a spread topic a RECEIVE asks, in which order, and what becomes of their answers."""

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

from miniqueue.core.message.parts import parse_part, part_name
from miniqueue.core.settings.placing import Placing
from miniqueue.errors.requests import ShardAwayError
from miniqueue.server.shards.links.take_choice import ANY_FIRST_UNKNOWN, TakeChoice
from miniqueue.server.shards.resp.taking import Taken, in_turn, take_in_turn
from tests.server.access import sign_in_for, token_of, user
from tests.server.shards.http.fleet import COUNT, TOPICS, fleet_in
from tests.server.shards.resp.clients import DoorClient
from tests.server.shards.resp.replies import value_of

TOPIC = TOPICS[0].encode()
PARTS = 8
OWN = 1
PLACING = Placing(OWN, COUNT)


class Shards:
    """Shards whose parts have some messages each, of one byte, and that note what is asked."""

    def __init__(self, message_counts: Sequence[int]) -> None:
        self.message_counts = list(message_counts)
        self.asked: list[tuple[int, list[int], int]] = []
        self.away: set[int] = set()

    async def take(self, shard: int, parts: Sequence[bytes], max_count: int) -> bytes:
        numbers = [parsed[1] for part in parts if (parsed := parse_part(part)) is not None]
        assert {PLACING.shard_of(part_name(TOPIC, number)) for number in numbers} == {shard}
        self.asked.append((shard, numbers, max_count))
        if shard in self.away:
            raise ShardAwayError("away")
        count = min(max_count, sum(self.message_counts[number] for number in numbers))
        return b"*%d\r\n" % count + b"+m\r\n" * count

    async def receive(self, count: int, seed: int = 0) -> bytes:
        chance = Random(seed)
        first = TakeChoice(PLACING, chance).first(TOPIC, b"g", PARTS, count)
        return await take_in_turn(self.take, TOPIC, in_turn(PLACING, TOPIC, PARTS, first, chance), Taken(count))


async def test_other_shards_are_asked_for_what_is_missing_only():
    shards = Shards([10] * PARTS)
    assert await shards.receive(65) == b"*65\r\n" + b"+m\r\n" * 65
    wanted = 65
    for _, numbers, max_count in shards.asked:
        assert max_count == wanted
        wanted -= min(wanted, 10 * len(numbers))
    assert wanted == 0
    assert len({shard for shard, _, _ in shards.asked}) == len(shards.asked)


async def test_a_backlog_is_mostly_taken_from_own_parts_and_no_part_is_left_out():
    shards, first_shards, first_parts = Shards([1000] * PARTS), Counter[int](), set[int]()
    for seed in range(400):
        shards.asked.clear()
        await shards.receive(100, seed)
        [(shard, numbers, _)] = shards.asked
        first_shards[shard] += 1
        first_parts.add(numbers[0])
    assert first_parts == set(range(PARTS))
    assert 400 * (ANY_FIRST_UNKNOWN - 1) / ANY_FIRST_UNKNOWN <= first_shards[OWN] < 400
    assert min(first_shards.values()) > 400 / ANY_FIRST_UNKNOWN / COUNT / 2


async def test_a_shard_that_is_away_is_left_out_and_reported_if_the_others_have_nothing():
    shards = Shards([1] * PARTS)
    shards.away = {2}
    there = [n for n in range(PARTS) if PLACING.shard_of(part_name(TOPIC, n)) != 2]
    for seed in range(20):
        assert await shards.receive(100, seed) == b"*%d\r\n" % len(there) + b"+m\r\n" * len(there)
    shards.message_counts = [0] * PARTS
    assert await shards.receive(100) == b"-TRYAGAIN away\r\n"
    shards.away = set()
    assert await shards.receive(100) == b"*0\r\n"


@pytest.mark.parametrize("version", [b"2", b"3"])
async def test_messages_of_all_shards_are_one_array(tmp_path, version):
    ann = user("ann", admin=("*",))
    async with fleet_in(tmp_path, sign_in_for(ann)) as fleet:
        client = DoorClient(fleet.members[0].resp)
        assert (await client.ask(b"HELLO", version, b"AUTH", b"ann", token_of("ann"))).startswith((b"*", b"%"))
        assert await client.ask(b"TOPIC", b"CREATE", TOPIC, b"spread", b"%d" % PARTS) == b"+OK\r\n"
        for number in range(3 * PARTS):
            await client.ask(b"PUB", TOPIC, b"%d" % number)
        received = value_of(await client.ask(b"RECEIVE", TOPIC, b"COUNT", b"100", b"GROUP", b"g", b"LEASE", b"60"))
        assert sorted(int(payload) for _, payload, _ in received) == list(range(3 * PARTS))
        assert {type(attributes) for _, _, attributes in received} == {dict if version == b"3" else list}
        assert value_of(await client.ask(b"RECEIVE", TOPIC, b"COUNT", b"100", b"GROUP", b"g")) == []
        client.transport.lose()


async def test_a_receive_with_a_wrong_option_takes_nothing(connect):
    client = connect()
    await client.ask(b"TOPIC", b"CREATE", TOPIC, b"spread", b"%d" % PARTS)
    await client.ask(b"PUB", TOPIC, b"x")
    assert (await client.ask(b"RECEIVE", TOPIC, b"COUNT", b"0")).startswith(b"-BADPREFETCH")
    assert (await client.ask(b"RECEIVE", TOPIC, b"GROUP", b"a b")).startswith(b"-BADGROUP")
    assert len(value_of(await client.ask(b"RECEIVE", TOPIC, b"COUNT", b"100"))) == 1
