"""`GET /events` of all shards is one stream of whole events."""

import asyncio

import pytest

from tests.server.access import sign_in_for, token_of, user
from tests.server.shards.http.fleet import TOPICS, fleet_in
from tests.server.shards.http.tunnels import Client, scope_of, until


class Listening:
    """A client that listens at a door."""

    def __init__(self, fleet, query: bytes = b"", *headers) -> None:
        self.client = Client(b"")
        app = fleet.members[0].door
        scope = scope_of("GET", "/events", *headers, query=query)
        self.task = asyncio.create_task(app(scope, self.client.receive, self.client.send))

    async def wait_for(self, *words: bytes) -> list[bytes]:
        """Return the events once each of these words is in one."""
        while not all(word in self.client.body for word in words):
            self.client.has_news.clear()
            await self.client.has_news.wait()
        return [event for event in self.client.body.split(b"\n\n") if event not in (b"", b":")]


def create(fleet, *topics: str) -> None:
    for topic in topics:
        fleet.broker_with(topic).admin.create(topic.encode(), {})


async def test_events_of_all_shards_arrive_whole_with_the_shard_in_their_ids(fleet):
    listening = Listening(fleet, b"types=topic-created")
    await listening.wait_for(b":\n\n")
    create(fleet, *TOPICS)
    events = await listening.wait_for(*(b'"topic":"%b"' % topic.encode() for topic in TOPICS))

    assert sorted(event.partition(b"\n")[0] for event in events) == [b"id: 1.0", b"id: 1.1", b"id: 1.2"]
    assert all(event.count(b"event: topic-created\ndata: {") == 1 for event in events)
    assert listening.client.body.startswith(b":\n\n")
    assert b"\n:\n" not in listening.client.body
    listening.client.leave()
    await listening.task


async def test_the_shards_forget_a_client_that_leaves(fleet):
    listening = Listening(fleet)
    await listening.wait_for(b":\n\n")
    listening.client.leave()
    await listening.task

    await until(lambda: not any(member.broker.notices.is_heard for member in fleet.members))


async def test_a_refused_request_gets_the_error_of_a_shard(fleet):
    assert (await fleet.ask("GET", "/events?types=nothing")).code == "BADOPTION"

    fleet.lose(2)
    assert (await fleet.ask("GET", "/events")).code == "TRYAGAIN"
    await until(lambda: not any(member.broker.notices.is_heard for member in fleet.members))


async def test_the_stream_ends_without_its_end_when_a_shard_does(fleet):
    listening = Listening(fleet)
    await listening.wait_for(b":\n\n")
    fleet.lose(1)
    await listening.task

    assert not listening.client.is_whole


async def test_the_stream_ends_in_good_order_when_the_broker_stops(fleet):
    listening = Listening(fleet)
    await listening.wait_for(b":\n\n")
    for member in fleet.members:
        member.http.drain()
    await listening.task

    assert listening.client.is_whole


async def test_users_see_the_events_that_they_may_monitor(tmp_path):
    eve = user("eve", monitor=(TOPICS[2],))
    async with fleet_in(tmp_path, sign_in_for(eve)) as fleet:
        listening = Listening(fleet, b"", (b"authorization", b"Bearer " + token_of("eve")))
        await listening.wait_for(b":\n\n")
        create(fleet, *TOPICS)
        events = await listening.wait_for(TOPICS[2].encode())
        listening.client.leave()
        await listening.task

    assert len(events) == 1


@pytest.mark.parametrize("size", [1, 7, 50])
async def test_events_that_arrive_in_pieces_are_sent_whole(fleet, size, monkeypatch):
    monkeypatch.setattr("miniqueue.server.shards.http.frames.PIECE_BYTES", size)
    listening = Listening(fleet)
    await listening.wait_for(b":\n\n")
    create(fleet, *TOPICS)
    await listening.wait_for(*(b'"topic":"%b"' % topic.encode() for topic in TOPICS))

    for message in listening.client.sent[1:]:
        assert message["body"].endswith(b"\n\n")
    listening.client.leave()
    await listening.task
