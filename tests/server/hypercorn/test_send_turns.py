"""Whose turn it is: how much of what one client sends is taken in at once, and which of its streams sends next."""

import asyncio

import pytest
from hyperframe.frame import PingFrame, SettingsFrame
from priority.priority import DeadlockError, MissingStreamError

from miniqueue.server.hypercorn.frames import BURST, FRAMES_AT_ONCE, PATIENCE, TOKENS_PER_SECOND, CountedConnection
from miniqueue.server.hypercorn.sending import StreamRoundRobin
from tests.server.hypercorn.hostile import on_both, publish, victim
from tests.server.hypercorn.raw_http2 import PREFACE

PING = PingFrame(0, opaque_data=bytes(8)).serialize()


def begun() -> CountedConnection:
    connection = CountedConnection(100, 8192)
    connection.initiate_connection()
    connection.receive_data(PREFACE + SettingsFrame(0).serialize())
    return connection


def test_frames_are_taken_in_some_at_a_time():
    connection = begun()
    taken = [len(connection.receive_data(PING * (2 * FRAMES_AT_ONCE + 3)))]
    while connection.frames.may_be_more:
        taken.append(len(connection.receive_data(b"")))
    assert taken == [FRAMES_AT_ONCE, FRAMES_AT_ONCE, 3]


def test_nothing_is_left_of_what_few_frames_are():
    connection = begun()
    assert len(connection.receive_data(PING * (FRAMES_AT_ONCE - 1) + PING[:-1])) == FRAMES_AT_ONCE - 1
    assert not connection.frames.may_be_more
    assert len(connection.receive_data(PING[-1:])) == 1


def test_a_client_is_wasteful_until_time_has_passed():
    connection = begun()
    for _ in range(PATIENCE - 1):
        connection.receive_data(PING)
    assert connection.frames.tokens == BURST - PATIENCE
    assert not connection.frames.is_wasteful
    connection.receive_data(PING)
    assert connection.frames.is_wasteful
    connection.frames.refill(1 / TOKENS_PER_SECOND)
    assert not connection.frames.is_wasteful


@on_both
async def test_others_are_served_many_times_before_a_wasteful_client_is_sent_away(certificates, is_tls):
    async with victim(certificates, is_tls=is_tls) as server, server.http2() as innocent, server.http2() as client:
        client.peer.write(PING * (BURST + 100))
        leaving = asyncio.create_task(client.goodbye())
        served_count = 0
        while not leaving.done():
            assert await publish(innocent, 2 * served_count + 1) == 201
            served_count += 1
        await leaving
        assert served_count > 10


def turns_of(*stream_ids: int) -> StreamRoundRobin:
    turns = StreamRoundRobin()
    for stream_id in stream_ids:
        turns.insert_stream(stream_id)
    return turns


def test_streams_send_by_turns():
    turns = turns_of(1, 3, 5)
    assert [next(turns) for _ in range(7)] == [1, 3, 5, 1, 3, 5, 1]


def test_a_stream_that_is_blocked_is_passed_by():
    turns = turns_of(1, 3)
    turns.block(1)
    assert [next(turns) for _ in range(2)] == [3, 3]
    turns.unblock(1)
    assert [next(turns) for _ in range(3)] == [3, 1, 3]


def test_it_is_nobodys_turn_when_all_are_blocked_or_gone():
    turns = turns_of(1, 3)
    turns.block(1)
    turns.remove_stream(3)
    with pytest.raises(DeadlockError):
        next(turns)


@pytest.mark.parametrize("act", [StreamRoundRobin.block, StreamRoundRobin.unblock, StreamRoundRobin.remove_stream])
def test_a_stream_that_is_not_there_has_no_turn(act):
    turns = turns_of(1)
    turns.remove_stream(1)
    with pytest.raises(MissingStreamError):
        act(turns, 1)
