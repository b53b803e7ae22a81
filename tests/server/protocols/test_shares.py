"""What users of both protocols get who reach their share of a pool, or a quota; and what USAGE shows."""

from contextlib import asynccontextmanager

import pytest

from miniqueue.broker.acts import tasks
from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.core.settings.quotas import Quotas
from tests.broker.support import started_world, world_with
from tests.server.access import sign_in_for, user
from tests.server.protocols.speakers import HttpSpeaker, RefusedError, RespSpeaker

MIB = 1 << 20
ADA, BOB = user("ada", admin=("a*", "shared")), user("bob", admin=("b*", "shared"))
ROOT, WATCH = user("root", admin=("*",)), user("watch", monitor=("*",))
SPEAKERS = pytest.mark.parametrize("speaks", [RespSpeaker, HttpSpeaker], ids=["resp", "http"])


@asynccontextmanager
async def ada_and_bob(speaks, quotas=None, **limits):
    """Yield the world, and clients of ada, who has quotas, and of bob, on a broker with users and limits."""
    async with started_world(limits=BrokerLimits(has_users=True, **limits)) as world:
        world.broker.set_quotas({"ada": quotas or Quotas(), "bob": Quotas()})
        ada, bob = await user_of(world, speaks, "ada"), await user_of(world, speaks, "bob")
        yield world, ada, bob


async def user_of(world, speaks, name):
    speaker = speaks(world, sign_in_for(ADA, BOB, ROOT, WATCH))
    await speaker.become(name)
    return speaker


async def refusal_of(asking) -> str:
    with pytest.raises(RefusedError) as caught:
        await asking
    return str(caught.value)


async def usage_of(speaker):
    (usage,) = await speaker.usage()
    return usage


# --- shares ---------------------------------------------------------------------------------------------------


@SPEAKERS
async def test_a_user_has_three_quarters_of_the_topics_and_another_has_the_rest(speaks):
    async with ada_and_bob(speaks, max_topics=4) as (_, ada, bob):
        await ada.publish("a1", b"x")
        await ada.create("a2")
        await ada.create_group("a3", "g")
        refused = "LIMIT the topics of user ada are as many as one user may have, 3 (three quarters of -max-topics)"
        assert await refusal_of(ada.publish("a4", b"x")) == refused
        assert await refusal_of(ada.create("a4")) == refused
        assert await refusal_of(ada.create_group("a4", "g")) == refused
        await bob.publish("b1", b"x")
        await ada.publish("a1", b"to a topic that exists")
        assert (await usage_of(ada))["topics"] == {"used": 3, "limit": 3}


@SPEAKERS
async def test_a_restart_does_not_forget_who_created_a_topic(speaks):
    async with ada_and_bob(speaks, max_topics=4) as (world, ada, _):
        for topic in ("a1", "a2", "a3"):
            await ada.publish(topic, b"x")
        await world.restart()
        again = await user_of(world, speaks, "ada")
        assert (await refusal_of(again.publish("a4", b"x"))).startswith("LIMIT the topics of user ada ")
        await world.broker.delete_topic(b"a1")
        await again.publish("a4", b"x")


@SPEAKERS
async def test_a_user_has_three_quarters_of_the_dedup_ids(speaks):
    async with ada_and_bob(speaks, max_dedup_ids=4) as (world, ada, bob):
        for number in range(3):
            await ada.publish("a", b"x", dedup=number)
        refused = (
            "LIMIT the dedup ids of user ada are as many as one user may have, 3 (three quarters of -max-dedup-ids)"
        )
        assert await refusal_of(ada.publish("a", b"x", dedup=3)) == refused
        await bob.publish("b", b"x", dedup=0)
        await ada.publish("a", b"x", dedup=2)  # a duplicate needs no room
        assert (await usage_of(ada))["dedup_ids"] == {"used": 3, "limit": 3}
        world.clock.advance(200)
        await ada.publish("a", b"x", dedup=3)


async def test_a_user_has_three_quarters_of_the_tasks(monkeypatch):
    monkeypatch.setattr(tasks, "MAX_TASKS", 4)
    async with ada_and_bob(RespSpeaker, max_topics=4) as (world, ada, bob):
        for topic, user in (("a", ada), ("b", bob)):
            for _ in range(10):
                await user.publish(topic, b"x")
        begin = "MESSAGES DELETE {} CONTAINS x RATE 1 TASK"
        for _ in range(3):
            await ada.ask(begin.format("a"))
        refused = "LIMIT the tasks of user ada are as many as one user may have, 3 (three quarters of 4 for all users)"
        assert await refusal_of(ada.ask(begin.format("a"))) == refused
        assert (await usage_of(ada))["tasks"] == {"used": 3, "limit": 3}
        await bob.ask(begin.format("b"))
        await world.restart()
        again = await user_of(world, RespSpeaker, "ada")
        assert await refusal_of(again.ask(begin.format("a"))) == refused


@SPEAKERS
async def test_a_user_has_three_quarters_of_the_connections(speaks):
    async with ada_and_bob(speaks, max_connections=4) as (world, ada, bob):
        others = [await user_of(world, speaks, "ada") for _ in range(2)]
        assert (await usage_of(ada))["connections"] == {"used": 3, "limit": 3}
        assert await refusal_of(user_of(world, speaks, "ada")) == (
            "LIMIT the connections of user ada are as many as one user may have, 3 (three quarters of -max-connections)"
        )
        await bob.become("bob")
        others.pop().leave()
        others.append(await user_of(world, speaks, "ada"))


# --- quotas ---------------------------------------------------------------------------------------------------


@SPEAKERS
async def test_a_quota_of_topics(speaks):
    async with ada_and_bob(speaks, Quotas(max_topics=1)) as (_, ada, bob):
        await ada.publish("a1", b"x")
        assert await refusal_of(ada.publish("a2", b"x")) == (
            "LIMIT the topics of user ada are as many as one user may have, 1 (max_topics)"
        )
        for number in range(3):
            await bob.publish(f"b{number}", b"x")


@SPEAKERS
async def test_a_quota_of_bytes_counts_all_topics_of_the_owner(speaks):
    async with ada_and_bob(speaks, Quotas(max_bytes=20)) as (world, ada, bob):
        await ada.publish("a1", b"0123456789")
        await ada.publish("a2", b"01234567")
        refused = "LIMIT the bytes of user ada are as many as one user may have, 20 (max_bytes)"
        assert await refusal_of(ada.publish("a2", b"012")) == refused
        assert await refusal_of(ada.publish("a3", b"012")) == refused
        assert await refusal_of(ada.publish("a3", b"012", delay=60)) == refused
        await ada.publish("a2", b"01")
        await bob.publish("b", b"0" * 100)
        assert (await usage_of(ada))["bytes"] == {"used": 20, "limit": 20}
        await ada.receive("a1", autoack=True)
        world.broker.tick()
        await ada.publish("a2", b"0123456789")


@SPEAKERS
async def test_bytes_of_a_topic_are_those_of_its_owner_whoever_publishes(speaks):
    async with ada_and_bob(speaks, Quotas(max_bytes=20)) as (_, ada, bob):
        await ada.publish("shared", b"0123456789")
        assert (await refusal_of(bob.publish("shared", b"0123456789a"))).startswith("LIMIT the bytes of user ada ")
        await bob.publish("shared", b"0123456789")
        assert (await usage_of(bob))["bytes"] == {"used": 0, "limit": None}


@SPEAKERS
async def test_settled_messages_that_are_retained_are_stored(speaks):
    async with ada_and_bob(speaks, Quotas(max_bytes=20)) as (world, ada, _):
        await ada.create("a", retention="forever")
        await ada.publish("a", b"0" * 15)
        await ada.receive("a", autoack=True)
        world.broker.tick()
        assert (await refusal_of(ada.publish("a", b"0" * 15))).startswith("LIMIT the bytes of user ada ")


@SPEAKERS
async def test_a_quota_of_messages_a_second(speaks):
    async with ada_and_bob(speaks, Quotas(max_messages_per_second=3)) as (world, ada, bob):
        for number in range(3):
            await ada.publish(f"a{number}", b"x")
        assert await refusal_of(ada.publish("a", b"x")) == (
            "LIMIT user ada publishes more than 3 messages a second (max_messages_per_second); try again in 0.333 s"
        )
        for _ in range(5):
            await bob.publish("b", b"x")
        world.clock.advance(0.4)
        await ada.publish("a", b"x")
        assert (await refusal_of(ada.publish("a", b"x"))).startswith("LIMIT user ada publishes more than 3 ")
        world.clock.advance(0.6)
        world.broker.tick()
        assert (await usage_of(ada))["messages_per_second"] == {"used": 4, "limit": 3}
        world.clock.advance(60)  # pauses are not saved up
        for _ in range(3):
            await ada.publish("a", b"x")
        assert (await refusal_of(ada.publish("a", b"x"))).startswith("LIMIT user ada publishes more than 3 ")


async def test_http_says_when_to_come_again_where_waiting_helps():
    async with ada_and_bob(HttpSpeaker, Quotas(max_messages_per_second=1, max_topics=1)) as (_, ada, _bob):
        await ada.publish("a", b"x")
        await refusal_of(ada.publish("a", b"x"))
        assert ada.reply_headers["retry-after"] == "1"
        await refusal_of(ada.create("a2"))
        assert "retry-after" not in ada.reply_headers


@SPEAKERS
async def test_a_quota_of_connections(speaks):
    async with ada_and_bob(speaks, Quotas(max_connections=1)) as (world, ada, bob):
        assert await refusal_of(user_of(world, speaks, "ada")) == (
            "LIMIT the connections of user ada are as many as one user may have, 1 (max_connections)"
        )
        await ada.become("ada")  # the connection is the user's already
        await bob.publish("b", b"x")


@SPEAKERS
async def test_a_quota_of_memory(speaks):
    quotas = Quotas(max_memory_bytes=MIB)
    async with ada_and_bob(speaks, quotas, max_memory_bytes=100 * MIB) as (world, ada, bob):
        await ada.publish("a", b"x")
        world.broker.memory.users["ada"].charge_lease(2 * MIB)
        refused = "LIMIT the memory for user ada is used up, 1 MiB (max_memory_bytes); try again later"
        assert await refusal_of(ada.publish("a", b"x")) == refused
        await bob.publish("b", b"x")
        usage = await usage_of(ada)
        assert usage["memory_bytes"]["limit"] == MIB
        assert usage["memory"]["leases"] == 2 * MIB
        world.broker.memory.users["ada"].charge_lease(-2 * MIB)
        world.broker.tick()
        await ada.publish("a", b"x")


@SPEAKERS
async def test_new_quotas_apply_at_once_and_old_ones_go(speaks):
    async with ada_and_bob(speaks) as (world, ada, _):
        await ada.publish("a1", b"0" * 50)
        world.broker.set_quotas({"ada": Quotas(max_topics=1, max_bytes=50, max_messages_per_second=1)})
        assert (await refusal_of(ada.create("a2"))).endswith("1 (max_topics)")
        assert (await refusal_of(ada.publish("a1", b"0"))).endswith("50 (max_bytes)")
        world.clock.advance(1)
        world.broker.set_quotas({"ada": Quotas()})
        for number in range(5):
            await ada.publish(f"a{number}", b"0")


@SPEAKERS
async def test_dead_letters_count_for_the_owner_of_their_topic(speaks):
    async with ada_and_bob(speaks, Quotas(max_bytes=100)) as (world, ada, bob):
        await ada.create("shared", max_deliveries=1)
        await ada.publish("shared", b"0123456789")
        (received,) = await bob.receive("shared")
        await bob.settle("NACK", "shared", received["receipt"])
        assert world.broker.admin.settings_of(b"shared.dlq").owner == "ada"
        assert (await usage_of(ada))["topics"]["used"] == 2
        assert (await usage_of(bob))["topics"]["used"] == 0


# --- owners ---------------------------------------------------------------------------------------------------


@SPEAKERS
async def test_a_topic_has_the_owner_who_created_it_until_an_admin_of_everything_changes_it(speaks):
    async with ada_and_bob(speaks, max_topics=4) as (world, ada, bob):
        await ada.publish("shared", b"x")
        root = await user_of(world, speaks, "root")
        assert (await root.settings("shared"))["owner"] == "ada"
        with pytest.raises(RefusedError, match="NOPERM"):
            await ada.create("a1", owner="bob")
        await root.create("a1", owner="bob")
        assert (await usage_of(bob))["topics"]["used"] == 1
        assert (await usage_of(ada))["topics"]["used"] == 1
        world.broker.admin.change(b"a1", {"owner": None})
        assert (await usage_of(bob))["topics"]["used"] == 0


async def test_to_replace_the_settings_of_a_topic_keeps_its_owner():
    async with ada_and_bob(HttpSpeaker) as (_, ada, _bob):
        await ada.create("a", max_messages=5)
        await ada.create("a", max_messages=6)
        assert (await ada.settings("a"))["owner"] == "ada"
        assert (await ada.settings("a"))["max_messages"] == 6


# --- usage ----------------------------------------------------------------------------------------------------


@SPEAKERS
async def test_usage_shows_a_user_itself_and_a_monitor_all_users(speaks):
    async with ada_and_bob(speaks, Quotas(max_topics=5), max_topics=100) as (world, ada, bob):
        await ada.publish("a", b"0123")
        await bob.publish("b", b"01")
        (own,) = await ada.usage()
        assert own["user"] == "ada"
        assert own["topics"] == {"used": 1, "limit": 5}
        assert own["bytes"] == {"used": 4, "limit": None}
        watch = await user_of(world, speaks, "watch")
        shown = {each["user"]: each for each in await watch.usage()}
        assert list(shown) == [None, "ada", "bob", "watch"]
        assert shown[None]["topics"] == {"used": 2, "limit": 100}
        assert shown[None]["bytes"]["used"] == 6
        assert shown[None]["connections"]["used"] == 3
        assert shown["ada"] == own
        assert shown["bob"]["topics"] == {"used": 1, "limit": 75}


async def test_usage_without_users_is_that_of_all_clients(speaker):
    await speaker.publish("t", b"0123")
    (usage,) = await speaker.usage()
    assert usage["user"] is None
    assert usage["topics"] == {"used": 1, "limit": None}
    assert usage["bytes"] == {"used": 4, "limit": None}
    assert usage["requests"] == {"used": 0, "limit": 10_000}
    assert set(usage) == {
        "user",
        "topics",
        "partitions",
        "bytes",
        "connections",
        "requests",
        "dedup_ids",
        "tasks",
        "messages_per_second",
        "memory_bytes",
        "memory",
    }


@world_with(limits=BrokerLimits(max_topics=4, max_dedup_ids=4))
async def test_without_users_a_client_may_have_a_whole_pool(speaker):
    for number in range(4):
        await speaker.publish(f"t{number}", b"x", dedup=number)
    assert await refusal_of(speaker.publish("t4", b"x")) == (
        "LIMIT there are as many topics as there may be, 4 (-max-topics)"
    )
    assert await refusal_of(speaker.publish("t0", b"x", dedup=4)) == (
        "LIMIT as many dedup ids are in their windows as may be, 4 (-max-dedup-ids)"
    )
