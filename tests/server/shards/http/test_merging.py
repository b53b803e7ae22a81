"""What all shards have is one list, and what one of them has is found by its name, through any door."""

import orjson
import pytest

from miniqueue.broker.acts.requests import purge_task
from miniqueue.core.settings.quotas import Quotas
from miniqueue.server.shards.http import merging
from tests.server.access import sign_in_for, token_of, user
from tests.server.shards.http.fleet import COUNT, TOPICS, fleet_in, topic_in

EVERY_MINUTE = b'{"topic":"%b","every":60,"text":"x"}'


async def set_schedules(fleet, *names, topics=TOPICS) -> None:
    for number, name in enumerate(names):
        body = EVERY_MINUTE % topics[number % len(topics)].encode()
        assert (await fleet.ask("PUT", f"/schedules/{name}", body)).status == 201


# --- topics ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", range(COUNT))
async def test_topics_are_listed_by_name(fleet, door):
    names = [topic_in(shard, prefix) for prefix in "zmä" for shard in range(COUNT)]
    await fleet.publish(*names)

    listed = (await fleet.ask("GET", "/topics", door=door)).json["topics"]

    assert [topic["topic"] for topic in listed] == sorted(names)
    assert listed[0] == {"topic": min(names), "depth": 1, "ready": 1, "leased": 0, "delayed": 0}


async def test_many_topics_are_listed_some_in_each_turn(fleet, monkeypatch):
    for broker in (member.broker for member in fleet.members):
        for number in range(150):
            if broker._engine.topics.placing.has(b"n%d" % number):
                broker.admin.create(b"n%d" % number, {})
    monkeypatch.setattr(merging, "ROWS_IN_TURN", 10)

    assert len((await fleet.ask("GET", "/topics")).json["topics"]) == 150


async def test_an_error_of_a_shard_is_the_reply(fleet):
    assert (await fleet.ask("GET", "/tasks?x=1")).status == 400

    fleet.lose(2)
    assert (await fleet.ask("GET", "/topics")).code == "TRYAGAIN"


async def test_a_list_for_which_there_is_no_memory_is_refused(fleet):
    await fleet.publish(*TOPICS)
    fleet.members[0].broker.memory.set_limit(1, "-max-memory")

    assert (await fleet.ask("GET", "/topics")).code == "LIMIT"


# --- tasks ----------------------------------------------------------------------------------------------------


async def test_tasks_have_different_ids_and_are_found_through_any_door(fleet):
    await fleet.publish(*TOPICS)
    ids = []
    for topic in TOPICS:
        broker = fleet.broker_with(topic)
        ids.append(str(await broker.tasks.begin(purge_task(topic.encode(), None, None, None, broker.clock.now_ms()))))

    listed = (await fleet.ask("GET", "/tasks")).json["tasks"]
    assert [task["id"] for task in listed] == sorted(ids) == sorted(set(ids))
    for task_id, topic in zip(ids, TOPICS, strict=True):
        for door in range(COUNT):
            assert (await fleet.ask("GET", f"/tasks/{task_id}", door=door)).json["topic"] == topic
        assert (await fleet.ask("DELETE", f"/tasks/{task_id}")).json == {"cancelled": task_id}
    assert (await fleet.ask("GET", "/tasks/5")).code == "NOTASK"
    assert (await fleet.ask("GET", "/tasks/x")).code == "BADOPTION"


async def test_a_task_of_a_shard_that_answers_is_found_while_another_does_not(fleet):
    await fleet.publish(*TOPICS)
    broker = fleet.broker_with(TOPICS[0])
    number = await broker.tasks.begin(purge_task(TOPICS[0].encode(), None, None, None, broker.clock.now_ms()))
    fleet.lose(2)

    assert (await fleet.ask("GET", f"/tasks/{number}")).status == 200
    assert (await fleet.ask("GET", "/tasks/5")).code == "TRYAGAIN"


# --- schedules ------------------------------------------------------------------------------------------------


async def test_schedules_are_set_where_their_topics_are_and_found_by_name(fleet):
    await set_schedules(fleet, "c", "a", "b")

    for door in range(COUNT):
        listed = (await fleet.ask("GET", "/schedules", door=door)).json["schedules"]
        assert [schedule["name"] for schedule in listed] == ["a", "b", "c"]
        shown = (await fleet.ask("GET", "/schedules/a", door=door)).json
        assert (shown["topic"], shown["msg"]) == (TOPICS[1], "eA==")
    assert [member.broker.scheduler.count for member in fleet.members] == [1, 1, 1]

    assert (await fleet.ask("POST", "/schedules/a/fire")).json == {"id": "0-0"}
    assert (await fleet.broker_with(TOPICS[1]).inspect.stats(TOPICS[1].encode()))["ready"] == 1

    assert (await fleet.ask("DELETE", "/schedules/a")).json == {"deleted": "a"}
    assert (await fleet.ask("DELETE", "/schedules/a")).code == "NOSCHEDULE"


async def test_pages_of_schedules_go_on_where_the_one_before_ended(fleet):
    names = [f"s{number}" for number in range(7)]
    await set_schedules(fleet, *names)

    pages, after = [], ""
    while page := (await fleet.ask("GET", f"/schedules?count=3&after={after}")).json["schedules"]:
        pages.append([schedule["name"] for schedule in page])
        after = pages[-1][-1]

    assert pages == [names[:3], names[3:6], names[6:]]
    assert (await fleet.ask("GET", "/schedules?count=0")).code == "BADOPTION"


async def test_a_schedule_replaces_one_of_its_name_in_another_shard(fleet):
    await set_schedules(fleet, "a")

    replaced = await fleet.ask("PUT", "/schedules/a", EVERY_MINUTE % TOPICS[2].encode(), door=1)

    assert replaced.status == 200
    assert [member.broker.scheduler.count for member in fleet.members] == [0, 0, 1]


@pytest.mark.parametrize(
    ("body", "code"),
    [(b"", "BADLINE"), (b"[]", "BADLINE"), (b'{"topic":1}', "BADLINE"), (b'{"topic":"t","every":"x"}', "BADLINE")],
)
async def test_a_schedule_that_is_refused_changes_nothing(fleet, body, code):
    await set_schedules(fleet, "a")

    assert (await fleet.ask("PUT", "/schedules/a", body)).code == code
    assert [member.broker.scheduler.count for member in fleet.members] == [1, 0, 0]


async def test_no_schedule_is_set_while_a_shard_does_not_answer(fleet):
    fleet.lose(1)

    assert (await fleet.ask("PUT", "/schedules/a", EVERY_MINUTE % TOPICS[0].encode())).code == "TRYAGAIN"
    assert fleet.members[0].broker.scheduler.count == 0


# --- leases ---------------------------------------------------------------------------------------------------


async def test_leases_are_those_of_the_owner_of_the_topic(fleet):
    await fleet.publish(TOPICS[1])
    await fleet.ask("POST", f"/topics/{TOPICS[1]}/receive")

    assert len((await fleet.ask("GET", f"/leases?topic={TOPICS[1]}")).json["leases"]) == 1
    assert "requires topic=" in (await fleet.ask("GET", "/leases")).json["error"]
    assert (await fleet.ask("GET", f"/leases?topic={TOPICS[1]}&topic={TOPICS[2]}")).status == 400


# --- usage ----------------------------------------------------------------------------------------------------


async def test_usage_is_that_of_all_shards(fleet):
    await fleet.publish(*TOPICS, *TOPICS)

    [usage] = (await fleet.ask("GET", "/usage", door=1)).json["usage"]

    assert usage["user"] is None
    assert usage["topics"] == {"used": 3, "limit": 3 * 100}
    assert usage["bytes"]["used"] == 2 * sum(map(len, TOPICS))


async def test_a_quota_is_of_all_shards_and_a_share_of_each(tmp_path):
    ada = user("ada", admin=("*",))
    async with fleet_in(tmp_path, sign_in_for(ada)) as fleet:
        for member in fleet.members:
            member.broker.set_quotas({"ada": Quotas(max_topics=7)})

        headers = (b"authorization", b"Bearer " + token_of("ada"))
        rows = (await fleet.ask("GET", "/usage", b"", headers)).json["usage"]

    assert [row["user"] for row in rows] == [None, "ada"]
    assert rows[1]["topics"]["limit"] == 7
    assert rows[1]["partitions"]["limit"] == 3 * 75


# --- transactions ---------------------------------------------------------------------------------------------


def transaction(*topics: str) -> bytes:
    return b"".join(orjson.dumps({"publish": topic, "text": "x"}) + b"\n" for topic in topics)


@pytest.mark.parametrize("door", range(COUNT))
async def test_a_transaction_of_one_shard_is_carried_out_there(fleet, door):
    topics = "{eu}.orders", "{eu}.bills"

    done = await fleet.ask("POST", "/transactions", transaction(*topics), door=door)

    assert done.lines == [{"id": "0-0"}, {"id": "0-0"}]
    assert len(fleet.broker_with(topics[0]).topics()) == 2


async def test_a_transaction_of_several_shards_is_refused_with_their_topics(fleet):
    refused = await fleet.ask("POST", "/transactions", transaction(TOPICS[1], TOPICS[1], TOPICS[0]))

    assert (refused.status, refused.code) == (400, "CROSSSHARD")
    assert f"'{TOPICS[1]}' and '{TOPICS[0]}'" in refused.json["error"]
    assert [len(member.broker.topics()) for member in fleet.members] == [0, 0, 0]


async def test_an_act_that_is_wrong_is_reported_with_its_number(fleet):
    body = transaction(TOPICS[1]) + b"nonsense\n" + transaction(TOPICS[1])

    refused = await fleet.ask("POST", "/transactions", body)

    assert refused.json["act"] == 2
    assert refused.code == "BADLINE"
    assert (await fleet.ask("POST", "/transactions", b"")).status == 200


async def test_a_transaction_that_is_too_large_is_refused_at_the_door(fleet):
    member = fleet.members[0]
    limits = member.broker.limits
    member.broker.limits = type(limits)(max_transaction_bytes=100)
    door = member.shard.door(member.broker, member.http, None)

    refused = await fleet.ask_app(door, "POST", "/transactions", transaction(*[TOPICS[1]] * 10))

    assert refused.code == "LIMIT"
    assert "-max-transaction-bytes" in refused.json["error"]
