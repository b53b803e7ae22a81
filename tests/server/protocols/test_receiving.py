"""Receiving and settling, over both protocols."""

import pytest

from tests.fakes import START_MS


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


async def test_a_receipt_settles_once_whoever_shows_it(speaker, world):
    await speaker.publish("t", b"a")
    (held,) = await speaker.receive("t")
    assert await type(speaker)(world).settle("ack", "t", held["receipt"]) == ["OK"]
    refused = "NOLEASE the receipt belongs to no message that is leased now"
    assert await speaker.settle("ack", "t", held["receipt"], "what") == [refused] * 2
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
