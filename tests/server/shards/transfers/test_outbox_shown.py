"""What waits in the outboxes of all shards, as both protocols show it at any door."""

import pytest

from tests.server.shards.http.conftest import fleet
from tests.server.shards.http.fleet import TOPICS, Fleet
from tests.server.shards.resp.conftest import connect

__all__ = ["connect", "fleet"]

OWN, OTHER, _ = (topic.encode() for topic in TOPICS)


async def leave_for_others(fleet: Fleet) -> None:
    """Move two messages to topics of other shards, where nothing carries them; one of the topics refuses them."""
    for source, target in ((0, OTHER), (1, OWN)):
        topic = TOPICS[source]
        await fleet.publish(topic)
        await fleet.members[source].broker.redrive(topic.encode(), target=target)
        fleet.clock.advance(1)
    fleet.members[1].broker.outbox.refused(OWN, "full")


@pytest.mark.parametrize("door", [0, 2])
async def test_info_and_statistics_show_how_much_waits_how_long_and_why(fleet, connect, door):
    client = connect(door)
    nothing = b"# Outbox\r\noutbox_messages:0\r\noutbox_oldest_seconds:0.0\r\noutbox_reason:\r\n"
    assert nothing in await client.ask(b"INFO")

    await leave_for_others(fleet)

    shown = f"outbox_messages:2\r\noutbox_oldest_seconds:2.0\r\noutbox_reason:{OWN.decode()}: full\r\n"
    assert shown.encode() in await client.ask(b"INFO", b"outbox")
    stats = await client.ask(b"STATS")
    assert b"outbox_messages\r\n:2\r\n$21\r\noutbox_oldest_seconds\r\n$3\r\n2.0\r\n" in stats
    assert b"outbox_reason\r\n$8\r\nt0: full\r\n" in stats.replace(OWN, b"t0")
    of_all = (await fleet.look("/stats", door=door)).json
    assert (of_all["outbox_messages"], of_all["outbox_oldest_seconds"]) == (2, 2.0)
    assert [each["outbox_messages"] for each in of_all["shards"]] == [1, 1, 0]
    assert of_all["shards"][1]["outbox_reason"] == of_all["outbox_reason"] == f"{OWN.decode()}: full"


async def test_rates_of_all_shards_are_added_in_both_versions_of_the_protocol(fleet, connect):
    old, new = connect(0), connect(0)
    await new.ask(b"HELLO", b"3")
    await fleet.publish(*TOPICS)
    assert b"publish_rate_60s\r\n$3\r\n0.0\r\n" in await old.ask(b"STATS")
    assert b"publish_rate_60s\r\n,0.0\r\n" in await new.ask(b"STATS")
