"""Acts on one message and on many, and tasks, as both protocols have them; and who may do them."""

import pytest

from tests.broker.support import started_world
from tests.fakes import settle_down
from tests.server.access import sign_in_for, user
from tests.server.protocols.speakers import HttpSpeaker, RefusedError, RespSpeaker

ADMIN, MONITOR = user("admin", admin=("t*",)), user("monitor", monitor=("t",), publisher=("t",))
OTHER, ONLY_T = user("other", admin=("o*",)), user("admin-of-t", admin=("t",))


async def msgs(speaker, topic="t"):
    return [seen["msg"] for seen in await speaker.peek(topic, count=100)]


async def test_one_message_is_moved_deleted_and_made_due(speaker):
    ids = [await speaker.publish("t", b"%d" % number) or f"0-{number}" for number in range(3)]
    assert await speaker.act("front", "t", ids[2]) == ids[2]
    assert await msgs(speaker) == [b"2", b"0", b"1"]
    assert await speaker.act("delete", "t", ids[0]) == ids[0]
    assert await speaker.act("redrive", "t", ids[1], to="u") == ids[1]
    assert (await msgs(speaker), await msgs(speaker, "u")) == ([b"2"], [b"1"])
    later = await speaker.publish("t", b"later", delay=60)
    moved = await speaker.act("due", "t", later, delay=120)
    assert moved != later
    await speaker.act("due", "t", moved)
    assert await msgs(speaker) == [b"2", b"later"]
    with pytest.raises(RefusedError, match="BADSTATE"):
        await speaker.act("due", "t", ids[2])
    with pytest.raises(RefusedError, match="NOMESSAGE"):
        await speaker.act("front", "t", "0-9")


async def test_many_messages_are_counted_moved_and_deleted(speaker):
    for number in range(6):
        await speaker.publish("t", b"%d" % number, key="ab"[number % 2])
    assert await speaker.act_on("delete", "t", key="b", dry_run=True) == 3
    assert await speaker.act_on("front", "t", key="b", limit=2) == 2
    assert await msgs(speaker) == [b"1", b"3", b"0", b"2", b"4", b"5"]
    task = await speaker.act_on("delete", "t", key="b", task=True)
    await settle_down()
    shown = await speaker.task(task)
    assert (shown["status"], shown["count"], shown["topic"]) == ("done", 3, "t")
    assert await msgs(speaker) == [b"0", b"2", b"4"]
    for refused in ({"state": "leased"}, {"older": "x"}, {"limit": 0}):
        with pytest.raises(RefusedError):
            await speaker.act_on("delete", "t", **refused)


async def bury(speaker, topic, *payloads):
    """Publish messages, and reject them."""
    for payload in payloads:
        await speaker.publish(topic, payload)
    for message in await speaker.receive(topic, count=len(payloads)):
        await speaker.settle("reject", topic, message["receipt"], reason="bad")


async def test_dead_letters_are_found_redriven_and_deleted_by_the_topic_that_they_came_from(speaker):
    await bury(speaker, "t", b"a", b"b", b"c")
    await speaker.publish("t.dlq", b"other")
    found = await speaker.search("t", state="dead", contains="b")
    assert [(seen["id"], seen["msg"], seen["state"]) for seen in found["messages"]] == [("0-1", b"b", "dead")]
    assert await speaker.act_on("redrive", "t", state="dead", contains="b") == 1
    assert await speaker.act_on("delete", "t", state="dead", reason="bad", dry_run=True) == 2
    task = await speaker.act_on("delete", "t", state="dead", task=True)
    await settle_down()
    shown = await speaker.task(task)
    assert (shown["topic"], shown["status"], shown["count"]) == ("t.dlq", "done", 2)
    assert (await msgs(speaker), await msgs(speaker, "t.dlq")) == ([b"b"], [b"other"])
    for act in ("front", "due"):
        with pytest.raises(RefusedError, match="BADOPTION"):
            await speaker.act_on(act, "t", state="dead")


@pytest.mark.parametrize("key", ["task", "DRYRUN"])
async def test_a_key_can_have_the_name_of_a_flag(key, speaker):
    await speaker.publish("t", b"x", key=key)
    await speaker.publish("t", b"y")
    assert await speaker.act_on("delete", "t", key=key, dry_run=True) == 1
    assert await speaker.act_on("delete", "t", key=key) == 1
    assert await msgs(speaker) == [b"y"]


async def speaking(world, speaks, name):
    speaker = speaks(world, sign_in_for(ADMIN, MONITOR, OTHER, ONLY_T))
    await speaker.become(name)
    return speaker


@pytest.mark.parametrize("speaks", [RespSpeaker, HttpSpeaker], ids=["resp", "http"])
async def test_a_task_is_for_those_who_have_a_right_on_its_topic(speaks):
    async with started_world() as world:
        admin, monitor, other = [await speaking(world, speaks, name) for name in ("admin", "monitor", "other")]
        await admin.publish("t", b"x")
        task = await admin.act_on("delete", "t", rate="0.001", task=True)
        assert (await monitor.task(task))["act"] == "delete"
        assert [len(await each.tasks()) for each in (admin, monitor, other)] == [1, 1, 0]
        for asking in (other.task, other.cancel_task, monitor.cancel_task):
            with pytest.raises(RefusedError, match="NOTASK"):
                await asking(task)
        await admin.cancel_task(task)
        with pytest.raises(RefusedError, match="NOPERM"):
            await monitor.act_on("delete", "t")


@pytest.mark.parametrize("speaks", [RespSpeaker, HttpSpeaker], ids=["resp", "http"])
async def test_acts_on_dead_letters_require_a_right_on_their_topic_too(speaks):
    async with started_world() as world:
        admin = await speaking(world, speaks, "admin")
        await bury(admin, "t", b"a")
        only_of_t = await speaking(world, speaks, "admin-of-t")
        for options in ({"dry_run": True}, {"task": True}, {}):
            with pytest.raises(RefusedError, match="NOPERM"):
                await only_of_t.act_on("delete", "t", state="dead", **options)
        assert await only_of_t.act_on("delete", "t") == 0
        assert await admin.act_on("delete", "t", state="dead") == 1


@pytest.mark.parametrize("speaks", [RespSpeaker, HttpSpeaker], ids=["resp", "http"])
async def test_a_publisher_may_cancel_a_delayed_message_and_delete_no_other(speaks):
    async with started_world() as world:
        publisher = await speaking(world, speaks, "monitor")
        await publisher.publish("t", b"x")
        delayed = await publisher.publish("t", b"y", delay=60)
        await publisher.cancel("t", delayed)
        with pytest.raises(RefusedError, match="NOPERM"):
            await publisher.act("delete", "t", "0-0")
        admin = await speaking(world, speaks, "admin")
        with pytest.raises(RefusedError, match="NOPERM"):
            await admin.act("redrive", "t", "0-0", to="others")
        assert await admin.act("delete", "t", "0-0") == "0-0"
