"""Receiving and settling, over both protocols, and settles that are answered when they are on the disk."""

import pytest

from tests.broker.support import World
from tests.fakes import START_MS, settle_down
from tests.server.access import sign_in_for
from tests.server.protocols.speakers import HttpSpeaker, RefusedError, RespSpeaker

NO_LEASE = "NOLEASE the receipt belongs to no message that is leased now"
#: Each act with what it needs besides receipts.
ACTS = [("ack", {}), ("nack", {}), ("back", {}), ("dack", {"delaySeconds": 5}), ("reject", {"reason": "sync"})]


async def test_a_message_comes_with_its_receipt_and_what_is_known_of_it(speaker):
    await speaker.publish("t", b"\x00\xff")
    (first,) = await speaker.receive("t")
    known = {"id": "0-0", "msg": b"\x00\xff", "published_at_ms": START_MS}
    assert first == known | {"receipt": first["receipt"], "deliveries": 1}
    assert await speaker.settle("nack", "t", first["receipt"]) == ["OK"]
    (again,) = await speaker.receive("t")
    assert again == known | {"receipt": again["receipt"], "deliveries": 2, "nacks": 1}
    assert again["receipt"] != first["receipt"]


@pytest.mark.parametrize("delays", ["default", "5"])
async def test_nack_keeps_the_order_of_its_receipts_also_where_failures_wait(delays, speaker, world):
    await world.broker.admin.create(b"t", {"retry_delays": [5]} if delays == "5" else {}).wait()
    for payload in (b"a", b"b", b"c"):
        await speaker.publish("t", payload)
    a, b, c = [one["receipt"] for one in await speaker.receive("t", count=3)]
    assert await speaker.settle("nack", "t", c, a, b) == ["OK"] * 3
    world.clock.advance(5.001)
    world.broker.tick()
    assert [one["msg"] for one in await speaker.receive("t", count=3)] == [b"c", b"a", b"b"]


async def test_nack_with_a_delay_and_a_reason(speaker, world):
    await world.broker.admin.create(b"t", {"max_deliveries": 3, "retry_delays": [3600]}).wait()
    await speaker.publish("t", b"a", key="k")
    (held,) = await speaker.receive("t")
    await speaker.nack("t", held["receipt"], delay=5, reason="421 try again")
    (waiting,) = await speaker.peek("t", state="delayed")
    assert (waiting["failure"], waiting["nacks"], waiting["due_at_ms"]) == ("421 try again", 1, START_MS + 5000)
    world.clock.advance(5.001)
    world.broker.tick()
    (again,) = await speaker.receive("t", lease=1)
    assert (again["failure"], again["nacks"], again["key"]) == ("421 try again", 1, "k")
    world.clock.advance(1.001)
    world.broker.tick()
    world.clock.advance(3600.001)
    world.broker.tick()
    (third,) = await speaker.receive("t")
    assert (third["failure"], third["timeouts"]) == ("421 try again", 1)  # a later return without a reason keeps it
    await speaker.nack("t", third["receipt"], reason="550 no such user")
    (dead,) = await speaker.peek("t", state="dead")
    assert "max_deliveries" in str(dead["origin"])
    assert dead["failure"] == "550 no such user"
    assert await world.broker.redrive(b"t.dlq") == 1
    (new,) = await speaker.receive("t")
    assert "failure" not in new


async def test_a_nack_with_options_that_are_wrong_changes_nothing(speaker):
    await speaker.publish("t", b"a")
    (held,) = await speaker.receive("t")
    with pytest.raises(RefusedError, match="BADDELAY"):
        await speaker.nack("t", held["receipt"], delay=-1)
    with pytest.raises(RefusedError, match="ERR a reason has at most 1024 bytes"):
        await speaker.nack("t", held["receipt"], reason="x" * 1025)
    assert await speaker.settle("ack", "t", held["receipt"]) == ["OK"]


async def test_a_receipt_settles_once_whoever_shows_it(speaker, world):
    await speaker.publish("t", b"a")
    (held,) = await speaker.receive("t")
    assert await type(speaker)(world).settle("ack", "t", held["receipt"]) == ["OK"]
    assert await speaker.settle("ack", "t", held["receipt"], "what") == [NO_LEASE] * 2
    assert (await speaker.figures("t"))["acknowledged"] == 1


async def test_autoack_hands_out_without_receipts(speaker):
    await speaker.publish("t", b"a")
    (received,) = await speaker.receive("t", autoack=True)
    assert (received["receipt"], received["msg"]) == ("", b"a")
    assert (await speaker.figures("t"))["acknowledged"] == 1


async def test_what_is_received_is_listed_for_the_group_with_the_time_that_is_left(speaker, world):
    for payload in (b"a", b"b", b"c"):
        await speaker.publish("t", payload)
    receipts = [one["receipt"] for one in await speaker.receive("t", count=3, lease=60)]
    world.clock.advance(0.5)
    listed = await speaker.leases("t", "default", count=2)
    assert [one["receipt"] for one in listed] == receipts[:2]
    assert await speaker.leases("t", "default", after=receipts[1]) == [
        {"topic": "t", "partition": "0", "group": "default", "id": "0-2"}
        | {"receipt": receipts[2], "remaining_ms": 59_500}
    ]


# --- durable settles ------------------------------------------------------------------------------------------


async def leased(speaker, *payloads: bytes) -> list[str]:
    """Publish messages and receive them; return the receipts."""
    for payload in payloads:
        await speaker.publish("t", payload)
    return [one["receipt"] for one in await speaker.receive("t", count=10)]


@pytest.mark.parametrize(("act", "body"), ACTS, ids=[act for act, _ in ACTS])
async def test_a_settle_with_sync_is_stored_and_synced_before_it_is_answered(act, body, speaker, world):
    (receipt,) = await leased(speaker, b"a")
    stored, synced = len(world.store.batches), world.store.sync_count
    assert await speaker.settle(act, "t", receipt, sync=True, **body) == ["OK"]
    assert (len(world.store.batches), world.store.sync_count) == (stored + 1, synced + 1)


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize(("act", "body"), [*ACTS, ("extend", {"leaseSeconds": 5})])
async def test_very_many_receipts_have_their_results_in_order(act, body, sync, speaker, world):
    await world.publish(b"t", *[b"%d" % number for number in range(400)])
    receipts = [one["receipt"] for one in await speaker.receive("t", count=400)][::-1]
    synced, is_synced = world.store.sync_count, sync and act != "extend"
    results = await speaker.settle(act, "t", *receipts[:390], "what", *receipts[391:], sync=is_synced, **body)
    assert results == ["OK"] * 390 + [NO_LEASE] + ["OK"] * 9
    assert world.store.sync_count == synced + is_synced
    assert world.broker.stats()[b"t"].leased == (400 if act == "extend" else 1)


async def test_without_sync_no_settle_is_synced(speaker, world):
    (receipt,) = await leased(speaker, b"a")
    synced = world.store.sync_count
    assert await speaker.settle("ack", "t", receipt) == ["OK"]
    await world.broker._engine.journal.committer.flush()
    assert world.store.sync_count == synced


async def test_settles_with_sync_that_arrive_together_share_one_sync(speaker, world):
    receipts = await leased(speaker, b"a", b"b", b"c")
    synced = world.store.sync_count
    assert await speaker.settle("ack", "t", *receipts, "what", sync=True) == ["OK"] * 3 + [NO_LEASE]
    assert world.store.sync_count == synced + 1


async def test_a_settle_with_sync_makes_the_settles_before_it_durable_too(speaker, world):
    a, b = await leased(speaker, b"a", b"b")
    await speaker.settle("ack", "t", a)
    await speaker.settle("ack", "t", b, sync=True)
    after_crash = World()
    after_crash.store = await world.store.as_of(len(world.store.batches))
    await after_crash.start()
    assert await after_crash.drain(b"t") == []
    await after_crash.broker.stop()


@pytest.mark.parametrize("is_kept", [True, False])
async def test_if_the_commit_fails_the_outcome_is_unknown(is_kept, speaker, world):
    (receipt,) = await leased(speaker, b"a")
    world.store.applies_failed = is_kept
    world.store.fail_writes = {world.store.write_count + 1}
    with pytest.raises(RefusedError, match=r"^UNKNOWN "):
        await speaker.settle("ack", "t", receipt, sync=True)
    await settle_down()
    assert await world.drain(b"t") == ([] if is_kept else [b"a"])


async def test_a_receipt_that_settles_nothing_is_refused_with_sync_as_without(speaker, world):
    refusals = []
    for sync in (True, False):
        try:
            refusals.append(await speaker.settle("ack", "t", "5f0c-17", sync=sync))
        except RefusedError as refusal:
            refusals.append([str(refusal)])
    assert refusals == [[NO_LEASE]] * 2


async def test_a_group_that_is_no_text_is_refused_and_no_other_group_is_read(world):
    await world.publish(b"t", b"a")
    with pytest.raises(RefusedError, match=r"^BADGROUP "):
        await RespSpeaker(world).ask("RECEIVE t GROUP", b"\xff")
    with pytest.raises(RefusedError, match=r"^BADGROUP "):
        await HttpSpeaker(world).ask("POST", "/topics/t/receive?group=%FF")


@pytest.mark.parametrize("speak", [RespSpeaker, HttpSpeaker], ids=["resp", "http"])
async def test_a_user_holds_what_it_received_until_it_is_settled(world, speak):
    await world.publish(b"orders", b"a", b"b", b"c")
    speaker = speak(world, sign_in_for())
    await speaker.become("subscriber")
    first, _ = await speaker.receive("orders", count=2, lease=60)
    with pytest.raises(RefusedError, match="NOPERM"):
        await speaker.holders("orders", "default")
    await speaker.become("monitor")  # may monitor this topic alone; the list names users and addresses
    with pytest.raises(RefusedError, match="NOPERM"):
        await speaker.holders("orders", "default")
    await speaker.become("monitor-of-all")
    held = {"user": "subscriber", "address": None, "leased": 2, "remaining_ms": 60_000}
    assert await speaker.holders("orders", "default") == [held]
    await speaker.become("subscriber")
    await speaker.settle("ack", "orders", first["receipt"])
    await speaker.become("monitor-of-all")
    assert await speaker.holders("orders", "default") == [held | {"leased": 1}]
    with pytest.raises(RefusedError, match="NOGROUP"):
        await speaker.holders("orders", "nothing")
    with pytest.raises(RefusedError, match="NOTOPIC"):
        await speaker.holders("nothing", "default")


async def test_without_users_addresses_hold_messages(world, speaker):
    await world.publish(b"orders", b"a")
    await speaker.receive("orders")
    ((holder),) = await speaker.holders("orders", "default")
    assert (holder["user"], holder["leased"]) == (None, 1)
    assert holder["address"]
