"""What is known of the requests of a connection: which are over, and what there is of their bodies."""

import asyncio

import h2.exceptions
import hpack
import pytest
from hyperframe.frame import HeadersFrame, RstStreamFrame, SettingsFrame

from miniqueue.server.asgi.replies import OK
from miniqueue.server.hypercorn.frames import SPARED_STREAMS, CountedConnection
from tests.loops import CalmLoop, on_loop, run_calmly
from tests.server.apps import Endpoint, answer_early, echo, never_answer
from tests.server.hypercorn.hostile import on_both, victim
from tests.server.hypercorn.raw_http2 import PREFACE
from tests.serving import eventually, serving

FIELDS = [(":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "localhost")]


class Requests:
    """A connection, and a client that makes requests on it."""

    def __init__(self) -> None:
        self.connection = CountedConnection(100, 8192)
        self.connection.initiate_connection()
        self.connection.receive_data(PREFACE + SettingsFrame(0).serialize())
        self._encoder = hpack.Encoder()
        self._next_id = 1

    def begin(self, *, is_whole: bool = True) -> int:
        stream_id, self._next_id = self._next_id, self._next_id + 2
        flags = ["END_HEADERS", "END_STREAM"][: 1 + is_whole]
        frame = HeadersFrame(stream_id, data=self._encoder.encode(FIELDS), flags=flags)
        self.connection.receive_data(frame.serialize())
        return stream_id

    def end(self, stream_id: int) -> None:
        self.connection.send_headers(stream_id, [(b":status", b"200")], end_stream=True)


def test_requests_that_are_over_are_forgotten():
    requests = Requests()
    for _ in range(300):
        requests.end(requests.begin())
        assert len(requests.connection.streams) <= SPARED_STREAMS + 1


@pytest.mark.parametrize("open_count", [1, 30])
def test_requests_that_are_over_are_forgotten_beside_open_ones(open_count):
    requests = Requests()
    open_ids = [requests.begin() for _ in range(open_count)]
    for _ in range(300):
        requests.end(requests.begin())
    assert len(requests.connection.streams) <= 2 * open_count + SPARED_STREAMS + 1
    assert requests.connection.streams.keys() >= set(open_ids)


def test_open_requests_are_counted_exactly_when_asked_for():
    requests = Requests()
    ids = [requests.begin() for _ in range(20)]
    for stream_id in ids[:5]:
        requests.end(stream_id)
    assert requests.connection.count_requests() == 15


def test_frames_for_a_request_that_was_forgotten_are_no_error():
    requests = Requests()
    ids = [requests.begin() for _ in range(100)]
    for stream_id in ids:
        requests.end(stream_id)
    assert requests.connection.count_requests() == 0
    assert requests.connection.receive_data(RstStreamFrame(ids[0], error_code=8).serialize()) == []


def sent_by(fields: list[tuple[bytes, bytes]], *, is_short: bool, is_whole: bool = True) -> tuple[bytes, object]:
    """Return what is sent for a reply without a body, three times, and what becomes of the last stream."""
    requests = Requests()
    requests.connection.data_to_send()
    for _ in range(3):
        stream_id = requests.begin(is_whole=is_whole)
        if is_short:
            requests.connection.send_empty_reply(stream_id, fields)
        else:
            requests.connection.send_headers(stream_id, fields, end_stream=True)
    return requests.connection.data_to_send(), requests.connection.streams[stream_id].state_machine.state


@pytest.mark.parametrize("is_whole", [True, False], ids=["whole", "with more to come"])
@pytest.mark.parametrize("more", [[], [(b"allow", b"GET" * 100)], [(b"message-id", b"0-1"), (b"x", b"")]])
def test_short_way_of_a_reply_without_a_body_sends_what_h2_sends(is_whole, more):
    fields = [(b":status", b"201"), (b"content-length", b"0"), *more]
    assert sent_by(fields, is_short=True, is_whole=is_whole) == sent_by(fields, is_short=False, is_whole=is_whole)


def test_reply_without_a_body_to_a_request_that_is_over_is_refused():
    requests = Requests()
    answered_id, open_id = requests.begin(), requests.begin()
    fields = [(b":status", b"201")]
    requests.connection.send_empty_reply(answered_id, fields)
    for wrong_id in (answered_id, open_id + 2):
        with pytest.raises(h2.exceptions.ProtocolError):
            requests.connection.send_empty_reply(wrong_id, fields)
    requests.connection.close_connection()
    with pytest.raises(h2.exceptions.ProtocolError):
        requests.connection.send_empty_reply(open_id, fields)


def test_whole_body_is_one_message_and_what_follows_is_that_the_client_left(certificates):
    messages = []

    async def listen(scope, receive, send):
        messages.append(await receive())
        messages.append(await receive())

    async def scenario():
        async with serving(certificates, Endpoint(listen)) as served:
            client = await served.client()
            stream = await client._begin(b"POST", b"/")
            stream.write(b"all", is_last=True)
            await eventually(lambda: messages)
            stream.close()
            await eventually(lambda: len(messages) == 2)

    run_calmly(scenario())
    assert [message["type"] for message in messages] == ["http.request", "http.disconnect"]
    assert messages[0]["body"] == b"all"
    assert messages[0]["more_body"] is False


def test_body_that_ends_later_says_so_then(certificates):
    messages = []
    has_first = asyncio.Event()

    async def listen(scope, receive, send):
        messages.append(await receive())
        has_first.set()
        messages.append(await receive())
        await never_answer(scope, receive, send)

    async def scenario():
        async with serving(certificates, Endpoint(listen)) as served:
            client = await served.client()
            stream = await client._begin(b"POST", b"/")
            stream.write(b"all")
            await has_first.wait()
            stream.write(b"", is_last=True)
            await eventually(lambda: len(messages) == 2)
            stream.close()

    run_calmly(scenario())
    assert [(message["body"], message["more_body"]) for message in messages] == [(b"all", True), (b"", False)]


@on_both
@on_loop(CalmLoop)
async def test_reply_without_a_body_is_one_frame(certificates, is_tls):
    async with victim(certificates, Endpoint(echo), is_tls=is_tls) as server, server.http2() as client:
        client.send(client.request(1))
        assert (await client.status(1), await client.body(1)) == (200, b"")
        assert client.header(1, b"content-length") == b"0"
        assert client.header(1, b"date")
        (reply,) = [frame for frame in client.frames if frame.stream_id == 1]
        assert "END_STREAM" in reply.flags


@on_loop(CalmLoop)
async def test_reply_without_a_body_that_nobody_waits_for_any_more_is_dropped(certificates):
    answered = asyncio.Event()

    async def answer_who_left(scope, receive, send):
        while (await receive())["type"] != "http.disconnect":
            pass
        await OK(scope, receive, send)
        answered.set()

    async with victim(certificates, Endpoint(answer_who_left), is_tls=True) as server, server.http2() as client:
        client.send(client.request(1), RstStreamFrame(1, error_code=8))
        await asyncio.wait_for(answered.wait(), 60)
        server.app.behave = answer_early
        client.send(client.request(3))
        assert await client.status(3) == 200
        assert not [frame for frame in client.frames if frame.stream_id == 1]


@on_loop(CalmLoop)
async def test_second_reply_without_a_body_is_no_reply(certificates):
    async def answer_twice(scope, receive, send):
        await OK(scope, receive, send)
        await OK(scope, receive, send)

    async with victim(certificates, Endpoint(answer_twice), is_tls=True) as server, server.http2() as client:
        for stream_id in (1, 3):
            client.send(client.request(stream_id))
            assert (await client.status(stream_id), await client.body(stream_id)) == (200, b"")
        assert len([frame for frame in client.frames if frame.stream_id]) == 2
