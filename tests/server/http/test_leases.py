"""Leased messages over HTTP."""

import asyncio

import orjson

from tests.broker.leases.test_leases import Asked
from tests.serving import serving


def test_leases_are_listed_in_pages(certificates):
    async def scenario():
        async with serving(certificates) as served:
            await served.broker.publish(b"t", [b"a", b"b", b"c"]).commit.wait()
            receipts = Asked(served, b"t", max_count=3, lease_seconds=60).receipts
            first = await served.request("GET", "/leases?topic=t&count=2")
            after = receipts[1].decode()
            second = await served.request("GET", f"/leases?topic=t&group=default&after={after}")
            return receipts, [orjson.loads(reply[1])["leases"] for reply in (first, second)]

    receipts, pages = asyncio.run(scenario())
    assert [len(page) for page in pages] == [2, 1]
    remaining_ms = pages[1][0].pop("remainingMs")
    assert remaining_ms == 60_000
    assert pages[1] == [
        {"topic": "t", "partition": "0", "group": "default", "id": "0-2", "receipt": receipts[2].decode()}
    ]
