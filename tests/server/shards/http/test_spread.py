"""Spread topics at the HTTP doors of three shards: one topic for clients, whose parts are in all shards."""

import asyncio
from base64 import b64decode, b64encode
from collections import defaultdict
from urllib.parse import quote

import orjson
import pytest

from miniqueue.core.message.parts import part_for, part_name
from miniqueue.core.options.batch import not_confirmed
from tests.server.shards.http.fleet import COUNT, TOPICS, Fleet
from tests.server.shards.http.tunnels import Client, scope_of

TOPIC = TOPICS[1]
PARTS = 5
LINES = (b"content-type", b"application/x-ndjson")
KEYS = [f"key-{number}" for number in range(12)]


async def spread(fleet: Fleet, topic: str = TOPIC, **settings: object) -> None:
    """Create a spread topic."""
    home = fleet.members[fleet.members[0].shard.placing.shard_of(topic.encode())]
    await home.broker.admin.create(topic.encode(), {"spread": PARTS, **settings}).wait()
    await home.shard.spreading.complete(topic.encode())


@pytest.fixture
async def fleet(fleet: Fleet) -> Fleet:
    await spread(fleet, trace=True)
    return fleet


def part_with(key: str) -> int:
    return part_for(key.encode(), PARTS)


async def receive(fleet: Fleet, options: str = "count=100", door: int = 0) -> list:
    answer = await fleet.ask("POST", f"/topics/{TOPIC}/receive?{options}", door=door)
    assert answer.status == 200
    return answer.lines


def payloads(lines: list) -> list[bytes]:
    return [b64decode(line["msg"]) for line in lines]


# --- publishing -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", range(COUNT))
async def test_a_message_is_published_to_the_part_of_its_key(fleet, door):
    for key in KEYS:
        published = await fleet.ask("POST", f"/publish/{TOPIC}?key={key}", b"x", door=door)

        assert published.status == 201
        assert int(published.headers[b"message-id"].split(b"-")[0]) >> 10 == part_with(key)


async def test_messages_without_a_key_are_published_to_each_part_in_turn(fleet):
    for _ in range(PARTS):
        assert (await fleet.ask("POST", f"/publish/{TOPIC}", b"x")).status == 201

    ids = [line["id"] for line in await receive(fleet)]
    assert sorted(int(each.split("-")[0]) >> 10 for each in ids) == list(range(PARTS))


@pytest.mark.parametrize("option", ["dedup", "unique"])
async def test_a_publish_that_is_repeated_at_another_door_is_a_duplicate(fleet, option):
    first = await fleet.ask("POST", f"/publish/{TOPIC}?{option}=17", b"x")
    second = await fleet.ask("POST", f"/publish/{TOPIC}?{option}=17", b"x", door=1)

    assert (first.status, second.status) == (201, 200)
    assert second.headers[b"message-id"] == first.headers[b"message-id"]


@pytest.mark.parametrize("kind", ["message", "lines", "batch", "transaction"])
async def test_other_content_under_the_same_id_is_a_mismatch_in_a_spread_topic(fleet, kind):
    for number in range(10):
        answers = [
            await publish_as(fleet, kind, {"dedup": f"{number}?digest={digest}"}, door)
            for door, digest in enumerate(("one", "two"))
        ]
        assert [b"MISMATCH" in answer.body for answer in answers] == [False, True]


@pytest.mark.parametrize("kind", ["message", "lines", "transaction"])
async def test_a_unique_key_is_unique_among_messages_with_dedup_ids_of_their_own(fleet, kind):
    for number in range(10):
        await publish_as(fleet, kind, {"dedup": f"{number}", "unique": "k"}, number % COUNT)
    assert len(await receive(fleet)) == 1


async def publish_as(fleet, kind, options, door):
    """Publish one message by itself, as a JSON line, as a batch, or in a transaction; return the answer."""
    query = "&".join(f"{name}={quote(value)}" for name, value in options.items())
    if kind == "message":
        return await fleet.ask("POST", f"/publish/{TOPIC}?{query}", b"x", door=door)
    if kind == "batch":
        return await fleet.ask("POST", f"/publish/{TOPIC}?{query}", b'"x"', LINES, door=door)
    if kind == "lines":
        return await fleet.ask("POST", f"/publish/{TOPIC}", orjson.dumps({"msg": "eA==", **options}), LINES, door=door)
    act = orjson.dumps({"publish": TOPIC, "msg": "eA==", **options})
    return await fleet.ask("POST", "/transactions", act, LINES, door=door)


async def test_each_line_is_published_to_its_part_and_answered_in_order(fleet):
    keys = [*KEYS, "", *KEYS, ""]
    lines = [orjson.dumps({"msg": "eA==", **({"key": key} if key else {})}) for key in keys]

    published = await fleet.ask("POST", f"/publish/{TOPIC}", b"\n".join(lines), LINES)

    numbers = [int(line["id"].split("-")[0]) >> 10 for line in published.lines]
    assert [number for key, number in zip(keys, numbers, strict=True) if key] == [
        *map(part_with, KEYS),
        *map(part_with, KEYS),
    ]
    assert len(await receive(fleet)) == len(keys)


async def test_lines_are_answered_while_the_request_goes_on(fleet):
    client = Client(is_complete=False)
    app = fleet.members[0].door
    asking = asyncio.create_task(app(scope_of("POST", f"/publish/{TOPIC}", LINES), client.receive, client.send))
    await client.wait_for(2)
    client.upload(b'"o')
    client.upload(b'ne"\n{"msg":"eA==","key":"a"}\nwrong\n')
    while client.body.count(b"\n") < 3:
        await client.wait_for(len(client.sent) + 1)
    client.upload(b'"last"', is_last=True)
    await asking

    answers = [orjson.loads(line) for line in client.body.splitlines()]
    assert [answer.get("code", "id") for answer in answers] == ["id", "id", "BADLINE", "id"]
    assert client.is_whole


@pytest.mark.parametrize("body", [b"", b"\n \n", b'"only"'])
async def test_blank_lines_have_no_answers(fleet, body):
    published = await fleet.ask("POST", f"/publish/{TOPIC}", body, LINES)

    assert (published.status, len(published.lines)) == (200, body.count(b"only"))


async def test_a_line_that_is_too_long_is_refused_and_the_others_are_published(fleet):
    size_bytes = 2 * fleet.members[0].broker.max_message_bytes + 3_000
    pieces = [b'"one"\n"', *[b"x" * 50_000] * (size_bytes // 50_000 + 1), b'"\n"two"']
    client = Client(*pieces)

    published = await fleet.ask("POST", f"/publish/{TOPIC}", b"", LINES, client=client)

    assert [line.get("code", "id") for line in published.lines] == ["id", "TOOBIG", "id"]


async def test_many_lines_are_answered_in_their_order(fleet):
    keys = [KEYS[number % 12] for number in range(5_000)]
    body = b"\n".join(orjson.dumps({"msg": "eA==", "key": key}) for key in keys)
    client = Client(*[body[start : start + 7_000] for start in range(0, len(body), 7_000)])

    published = await fleet.ask("POST", f"/publish/{TOPIC}", b"", LINES, client=client)

    ids = [tuple(map(int, line["id"].split("-"))) for line in published.lines]
    assert [partition >> 10 for partition, _ in ids] == list(map(part_with, keys))
    by_part = defaultdict(list)
    for partition, seq in ids:
        by_part[partition].append(seq)
    assert all(seqs == sorted(seqs) for seqs in by_part.values())


async def test_lines_for_a_shard_that_does_not_answer_get_an_error_and_the_others_an_id(fleet):
    lost = fleet.members[0].shard.placing.shard_of(part_name(TOPIC.encode(), part_with(KEYS[0])))
    fleet.lose(lost)
    shard_of = fleet.members[0].shard.placing.shard_of
    lines = [orjson.dumps({"msg": "eA==", "key": key}) for key in KEYS]
    published = None
    while published is None or published.status != 200:  # the request begins in a part in turn
        published = await fleet.ask("POST", f"/publish/{TOPIC}", b"\n".join(lines), LINES)

    expected = ["TRYAGAIN" if shard_of(part_name(TOPIC.encode(), part_with(key))) == lost else "id" for key in KEYS]
    assert [line.get("code", "id") for line in published.lines] == expected


async def test_a_batch_is_published_to_the_part_of_its_keys_or_of_its_dedup_id(fleet):
    batch = b'"one"\n{"msg":"eA==","key":"key-1"}\n{"msg":"eA==","key":"key-1"}'
    keyed = await fleet.ask("POST", f"/publish/{TOPIC}?dedup=17", batch, LINES)
    plain = await fleet.ask("POST", f"/publish/{TOPIC}?dedup=18", b'"one"\n"two"', LINES)
    again = await fleet.ask("POST", f"/publish/{TOPIC}?dedup=18", b'"one"\n"two"', LINES, door=2)

    assert {int(line["id"].split("-")[0]) >> 10 for line in keyed.lines} == {part_with("key-1")}
    assert {int(line["id"].split("-")[0]) >> 10 for line in plain.lines} == {part_with("18")}
    assert (plain.status, again.status) == (201, 200)
    assert [line["id"] for line in again.lines] == [line["id"] for line in plain.lines]


def batch_of(*keys: str) -> bytes:
    return b"\n\n".join(orjson.dumps({"msg": b64encode(key.encode()).decode(), "key": key}) for key in keys)


async def test_a_batch_with_keys_of_several_parts_is_published_once(fleet):
    path = f"/publish/{TOPIC}?dedup=17"
    first, *others = [await fleet.ask("POST", path, batch_of(*KEYS), LINES, door=door) for door in range(3)]

    assert (first.status, b"duplicate" in first.headers) == (201, False)
    assert [int(line["id"].split("-")[0]) >> 10 for line in first.lines] == list(map(part_with, KEYS))
    for other in others:
        assert (other.status, other.headers[b"duplicate"]) == (200, b"true")
        assert other.lines == [{**line, "duplicate": True} for line in first.lines]
    mismatch = await fleet.ask("POST", f"{path}%3Fdigest=a", batch_of(*KEYS), LINES)
    assert mismatch.status == 200
    assert sorted(payloads(await receive(fleet, "count=100"))) == sorted(key.encode() for key in KEYS)


async def test_a_batch_that_some_parts_refuse_is_completed_when_it_is_repeated(fleet):
    path, number = f"/publish/{TOPIC}?dedup=17", part_with(KEYS[0])
    part = part_name(TOPIC.encode(), number)
    broker = fleet.broker_with(part.decode())
    broker.admin.pause(part)
    refused = await fleet.ask("POST", path, batch_of(*KEYS), LINES)
    missing = [index for index, key in enumerate(KEYS, 1) if part_with(key) == number]

    assert (refused.status, refused.code) == (503, "PAUSED")
    assert refused.json["error"].endswith(not_confirmed(len(KEYS), [index - 1 for index in missing]))
    broker.admin.resume(part)
    repeated = await fleet.ask("POST", path, batch_of(*KEYS), LINES)
    assert repeated.status == 201
    assert [index for index, line in enumerate(repeated.lines, 1) if "duplicate" not in line] == missing
    assert sorted(payloads(await receive(fleet, "count=100"))) == sorted(key.encode() for key in KEYS)


async def test_a_batch_of_which_any_part_would_refuse_a_line_is_added_to_none(fleet):
    path = f"/publish/{TOPIC}?dedup=17"
    wrong = batch_of(*KEYS) + b'\n{"msg":"eA==","key":"k","delay":5}'
    assert (await fleet.ask("POST", path, wrong, LINES)).code == "BADOPTION"
    fleet.lose(2)
    assert (await fleet.ask("POST", path, batch_of(*KEYS), LINES)).code == "TRYAGAIN"
    fleet.find()
    assert await receive(fleet) == []


async def test_a_requester_gets_the_reply_whichever_door_it_and_the_consumer_use(fleet):
    asking = asyncio.create_task(fleet.ask("POST", f"/request/{TOPIC}?key=key-3&timeout=30", b"how much?", door=1))
    [line] = await receive(fleet, "wait=60", door=2)
    replied = await fleet.ask("POST", f"/topics/{TOPIC}/reply?receipt={line['receipt']}", b"17")

    assert replied.status == 200
    assert (await asking).body == b"17"


# --- receiving and settling -----------------------------------------------------------------------------------


@pytest.mark.parametrize("door", range(COUNT))
async def test_messages_of_all_parts_are_received_in_the_order_of_their_keys(fleet, door):
    published = [f"{key}:{number}".encode() for number in range(3) for key in KEYS]
    for payload in published:
        await fleet.ask("POST", f"/publish/{TOPIC}?key={payload.split(b':')[0].decode()}", payload, door=door)
    received = payloads([line for _ in range(4) for line in await receive(fleet, "count=10", door=door)])

    assert sorted(received) == sorted(published)
    for key in KEYS:
        own = [payload for payload in published if payload.startswith(f"{key}:".encode())]
        assert [payload for payload in received if payload in own] == own


async def test_lines_of_messages_are_those_of_any_topic(fleet):
    await fleet.ask("POST", f"/publish/{TOPIC}?key=k", b"hello")

    [line] = await receive(fleet)

    assert list(line) == ["receipt", "msg", "id", "publishedAtMs", "deliveries", "key"]


async def test_a_request_waits_in_all_parts(fleet):
    for key in KEYS[:4]:
        asking = asyncio.create_task(receive(fleet, "wait=60&count=5"))
        await fleet.wait_until_read(*[part_name(TOPIC.encode(), number).decode() for number in range(PARTS)])
        await fleet.ask("POST", f"/publish/{TOPIC}?key={key}", key.encode(), door=1)

        assert payloads(await asking) == [key.encode()]


async def test_a_spread_topic_is_received_among_others(fleet):
    await fleet.publish(TOPICS[0])
    await fleet.ask("POST", f"/publish/{TOPIC}", b"x")

    named = await fleet.ask("POST", f"/receive?topic={TOPIC}&topic={TOPICS[0]}&count=10")
    assert sorted(line["topic"] for line in named.lines) == sorted([TOPIC, TOPICS[0]])


async def test_a_pattern_stands_for_spread_topics(fleet):
    await fleet.ask("POST", f"/publish/{TOPIC}", b"x")

    fitting = await fleet.ask("POST", f"/receive?pattern={TOPIC}*&count=10")
    assert [line["topic"] for line in fitting.lines] == [TOPIC]


@pytest.mark.parametrize("path", [f"/topics/{TOPIC}/receive?", f"/receive?topic={TOPIC}&"])
async def test_a_group_is_created_in_all_parts_by_its_first_use(fleet, path):
    for key in KEYS:
        await fleet.ask("POST", f"/publish/{TOPIC}?key={key}", key.encode())
    received = (await fleet.ask("POST", f"{path}group=audit&count=1&autoack=true")).lines
    assert len(await receive(fleet, "count=100&autoack=true")) == len(KEYS)  # the other group loses nothing of it
    while more := await receive(fleet, "group=audit&count=100"):
        received += more
    assert sorted(payloads(received)) == sorted(key.encode() for key in KEYS)

    await fleet.ask("PATCH", f"/topics/{TOPIC}", b'{"auto_create_groups":false}')
    refused = await fleet.ask("POST", f"{path}group=other")
    assert (refused.status, refused.code) == (404, "NOGROUP")
    letters = await fleet.ask("POST", f"{path.replace(TOPIC, TOPIC + '.dlq')}group=other")
    assert (letters.status, letters.lines) == (200, [])  # it does not exist yet


async def test_a_group_is_created_in_all_parts_by_its_first_use_by_a_pattern(fleet):
    for key in KEYS:
        await fleet.ask("POST", f"/publish/{TOPIC}?key={key}", key.encode())
    path = f"/receive?pattern={TOPIC[:-1]}*&group=audit&autoack=true&count="
    received = (await fleet.ask("POST", path + "1")).lines
    assert len(await receive(fleet, "count=100&autoack=true")) == len(KEYS)  # the other group loses nothing of it
    while more := (await fleet.ask("POST", path + "100")).lines:
        received += more
    assert sorted(payloads(received)) == sorted(key.encode() for key in KEYS)

    await fleet.ask("PATCH", f"/topics/{TOPIC}", b'{"auto_create_groups":false}')
    assert (await fleet.ask("POST", path.replace("audit", "other") + "1")).lines == []  # it is left out
    fleet.lose(2)
    refused = await fleet.ask("POST", path.replace("audit", "another") + "1")
    assert (refused.status, refused.code) == (503, "TRYAGAIN")
    fleet.find()


async def test_members_share_the_partitions_of_all_parts(fleet):
    for member in "ab":
        assert await receive(fleet, f"member={member}") == []
    for key in KEYS:
        await fleet.ask("POST", f"/publish/{TOPIC}?key={key}", key.encode())

    received = [payloads(await receive(fleet, f"count=100&member={member}")) for member in "ab"]

    assert all(received)
    assert sorted([*received[0], *received[1]]) == sorted(key.encode() for key in KEYS)
    members = (await fleet.ask("GET", f"/topics/{TOPIC}/groups/default")).json["members"]
    assert sorted(number >> 10 for numbers in members.values() for number in numbers) == [*range(PARTS)]


@pytest.mark.parametrize("path", [f"/topics/{TOPIC}/receive?", f"/receive?topic={TOPIC}&"])
async def test_a_member_that_receives_stays_in_all_parts_whichever_has_its_messages(fleet, path):
    for number in range(10 * PARTS):
        await fleet.ask("POST", f"/publish/{TOPIC}?key={number}", b"x")
    for _ in range(8):  # far longer than a session
        answer = await fleet.ask("POST", f"{path}member=m&count=1&autoack=true")
        assert len(answer.lines) == 1
        members = (await fleet.ask("GET", f"/topics/{TOPIC}/groups/default")).json["members"]
        assert sorted(number >> 10 for number in members["m"]) == [*range(PARTS)]
        for _ in range(6):  # longer gaps between ticks do not count for sessions
            fleet.clock.advance(1)
            for each in fleet.members:
                each.broker.tick()
        members = (await fleet.ask("GET", f"/topics/{TOPIC}/groups/default")).json["members"]
        assert sorted(number >> 10 for number in members["m"]) == [*range(PARTS)]


@pytest.mark.parametrize(
    ("way", "more"),
    [
        ("ack", {}),
        ("nack", {"reason": "x"}),
        ("back", {}),
        ("dack", {"delaySeconds": 5}),
        ("reject", {"reason": "x"}),
        ("extend", {"leaseSeconds": 60}),
    ],
)
async def test_receipts_of_several_parts_are_settled_in_one_request(fleet, way, more):
    for key in KEYS:
        await fleet.ask("POST", f"/publish/{TOPIC}?key={key}", b"x")
    receipts = [line["receipt"] for line in await receive(fleet)]
    body = {"receipts": [*receipts, "wrong", *receipts[:2]], **more}

    settled = await fleet.ask("POST", f"/topics/{TOPIC}/{way}", orjson.dumps(body), door=1)

    results = [result.split(" ")[0] for result in settled.json]
    assert results == ["OK"] * len(KEYS) + ["NOLEASE"] + ["OK" if way == "extend" else "NOLEASE"] * 2


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", "BADLINE"),
        (b"[]", "BADLINE"),
        (b'{"receipts":[]}', "BADLINE"),
        (b'{"receipts":[1]}', "BADLINE"),
        (orjson.dumps({"receipts": ["1", str(1 << 60)]}), "BADDELAY"),
    ],
)
async def test_a_settle_that_one_process_refuses_is_refused(fleet, body, code):
    assert (await fleet.ask("POST", f"/topics/{TOPIC}/dack", body)).code == code


async def test_parts_that_answer_settle_their_messages(fleet):
    for key in KEYS:
        await fleet.ask("POST", f"/publish/{TOPIC}?key={key}", b"x")
    lines = await receive(fleet)
    fleet.lose(2)
    receipts = orjson.dumps({"receipts": [line["receipt"] for line in lines]})

    settled = await fleet.ask("POST", f"/topics/{TOPIC}/ack", receipts)

    shard_of = fleet.members[0].shard.placing.shard_of
    parts = [part_name(TOPIC.encode(), int(line["id"].split("-")[0]) >> 10) for line in lines]
    expected = ["TRYAGAIN" if shard_of(part) == 2 else "OK" for part in parts]
    assert [result.split(" ")[0] for result in settled.json] == expected


# --- messages -------------------------------------------------------------------------------------------------


async def test_a_message_is_found_by_its_id_in_its_part(fleet):
    ids = [
        (await fleet.ask("POST", f"/publish/{TOPIC}?key={key}{more}", key.encode())).headers[b"message-id"].decode()
        for key in KEYS
        for more in ("", "&delay=60", "&priority=high", "&priority=low&delay=60")
    ]
    for key, message_id in zip([key for key in KEYS for _ in range(4)], ids, strict=True):
        message = await fleet.ask("GET", f"/topics/{TOPIC}/messages/{message_id}", door=2)
        trace = await fleet.ask("GET", f"/topics/{TOPIC}/messages/{message_id}/trace", door=1)

        assert (b64decode(message.json["msg"]), message.json["id"]) == (key.encode(), message_id)
        assert trace.status == 200
        assert (await fleet.ask("DELETE", f"/topics/{TOPIC}/messages/{message_id}")).status == 200
    assert await receive(fleet) == []


async def test_a_part_of_a_partition_is_read_by_its_number(fleet):
    message_id = (await fleet.ask("POST", f"/publish/{TOPIC}?key=key-5", b"x")).headers[b"message-id"].decode()
    partition = message_id.split("-")[0]

    page = await fleet.ask("GET", f"/topics/{TOPIC}/partitions/{partition}")

    assert (page.json["partition"], [line["id"] for line in page.json["messages"]]) == (partition, [message_id])


# --- names ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", f"/publish/{TOPIC}%1F1"),
        ("POST", f"/topics/{TOPIC}%1F1/receive"),
        ("POST", f"/receive?topic={TOPIC}%1F1"),
        ("GET", f"/topics/{TOPIC}%1F1/messages/0-0"),
    ],
)
async def test_no_client_can_name_a_part(fleet, method, path):
    assert (await fleet.ask(method, path, b"x")).code == "BADTOPIC"
