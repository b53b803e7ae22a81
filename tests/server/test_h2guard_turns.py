"""How much of what one client sends is taken in at once, and who has to wait."""

import asyncio

from hyperframe.frame import PingFrame, SettingsFrame

from miniqueue.server.h2guard.frames import BURST, FRAMES_AT_ONCE, PATIENCE, TOKENS_PER_SECOND, CountedConnection
from tests.server.hostile import on_both, publish, victim
from tests.server.raw_http2 import PREFACE

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
def test_others_are_served_many_times_before_a_wasteful_client_is_sent_away(certificates, is_tls):
    async def scenario():
        async with victim(certificates, is_tls=is_tls) as server, server.http2() as innocent, server.http2() as client:
            client.peer.write(PING * (BURST + 100))
            leaving = asyncio.create_task(client.goodbye())
            served_count = 0
            while not leaving.done():
                assert await publish(innocent, 2 * served_count + 1) == 201
                served_count += 1
            await leaving
            assert served_count > 10

    asyncio.run(scenario())
