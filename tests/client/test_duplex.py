import asyncio
import contextlib
import socket
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from miniqueue.server.security.certificates import server_tls_context
from miniqueue_client import ConnectError, Delivery, DisconnectedError, ServerError, connect
from tests.fakes import FakeConsumer
from tests.server.access import sign_in_for, token_of
from tests.serving import eventually, serving


@asynccontextmanager
async def connected(certificates, **broker_options):
    """Yield client and served against a server of its own."""

    async with serving(certificates, **broker_options) as served:
        yield await served.client(), served


@pytest.mark.parametrize("topic", ["t", "a/b?c#d", "ä", "%41", b"\xc3\xa4"])
async def test_topic_is_escaped(certificates, topic):
    async with connected(certificates) as (client, served):
        expected = topic.encode() if isinstance(topic, str) else topic
        if b"/" in expected:
            with pytest.raises(ServerError):
                await client.publish(topic, b"x")
            return
        await client.publish(topic, b"x")
        assert served.broker.topics() == [expected]
        await client.delete_topic(topic)
        assert served.broker.topics() == []


@pytest.mark.parametrize("size_bytes", [0, 1, 65_535, 65_536, 1_000_000])
async def test_payload_of_any_size_goes_there_and_back(certificates, size_bytes):
    async with connected(certificates) as (client, _served):
        payload = bytes(range(256)) * (size_bytes // 256 + 1)
        await client.publish("t", payload[:size_bytes])
        async with client.subscribe("t") as subscription:
            assert await anext(subscription) == Delivery(payload[:size_bytes], 0)


async def test_a_message_that_a_subscription_settles_too_late_goes_to_another_consumer(certificates):
    async with connected(certificates) as (client, served):
        await served.broker.publish(b"t", [b"a", b"b"]).commit.wait()
        async with client.subscribe("t", lease_seconds=1.5) as subscription:
            assert (await anext(subscription)).payload == b"a"
            served.clock.advance(2)
            served.broker.tick()
            other = FakeConsumer(served.broker, b"t")
            other.consumer.request()
            assert other.payloads == [b"a"]
            subscription.ack()
            with pytest.raises(ServerError, match="no message is outstanding"):
                await anext(subscription)
            assert (await anext(subscription)).payload == b"b"
            other.consumer.close()


async def test_a_message_of_a_subscription_returns_after_a_delay(certificates):
    async with connected(certificates) as (client, served):
        await served.broker.publish(b"t", [b"a"]).commit.wait()
        async with client.subscribe("t") as subscription:
            assert (await anext(subscription)).payload == b"a"
            subscription.nack(timedelta(seconds=1.5), "later")
            await eventually(lambda: served.broker.stats()[b"t"].delayed)
            served.clock.advance(2)
            served.broker.tick()
            assert (await anext(subscription)).payload == b"a"


async def test_subscription_settles_in_every_way(certificates):
    async with connected(certificates) as (client, served):
        await served.broker.publish(b"t", [b"a", b"b", b"c"]).commit.wait()
        async with client.subscribe("t") as subscription:
            assert (await anext(subscription)).payload == b"a"
            subscription.nack(reason='it "failed"')
            assert (await anext(subscription)).payload == b"a"
            subscription.back()
            assert (await anext(subscription)).payload == b"b"
            subscription.dack(1.5)
            assert (await anext(subscription)).payload == b"c"
            subscription.ack()
            assert (await anext(subscription)).payload == b"a"
            served.clock.advance(2)
            served.broker.tick()
            subscription.ack()
            assert await anext(subscription) == Delivery(b"b", 1)


async def test_finished_subscription_ends_the_iteration(certificates):
    async with connected(certificates) as (client, served):
        await served.broker.publish(b"t", [b"a"]).commit.wait()
        async with client.subscribe("t") as subscription:
            subscription.finish()
            assert [delivery.payload async for delivery in subscription] == [b"a"]


async def test_refused_command_is_raised_and_the_subscription_goes_on(certificates):
    async with connected(certificates) as (client, served):
        await served.broker.publish(b"t", [b"a", b"b"]).commit.wait()
        async with client.subscribe("t") as subscription:
            await anext(subscription)
            subscription.dack(-1)
            with pytest.raises(ServerError, match="invalid DACK duration") as caught:
                await anext(subscription)
            assert caught.value.code == "BADDELAY"
            subscription.ack()
            assert (await anext(subscription)).payload == b"b"


async def test_left_subscription_returns_its_message(certificates):
    async with connected(certificates) as (client, served):
        await served.broker.publish(b"t", [b"a"]).commit.wait()
        async with client.subscribe("t") as subscription:
            await anext(subscription)
        await eventually(lambda: served.broker.stats()[b"t"].ready == 1)


async def test_lines_are_answered_one_by_one(certificates):
    async with connected(certificates, max_message_bytes=10) as (client, served):
        payloads = [b"a", b"\xff\x00", b"x" * 11, b"", "ä".encode()] * 1000
        answers = [answer async for answer in client.publish_lines("t", payloads)]
        errors = [answer for answer in answers if isinstance(answer, ServerError)]
        ids = [answer for answer in answers if isinstance(answer, str)]
        assert [isinstance(answer, str) for answer in answers] == [True, True, False, True, True] * 1000
        assert all("over the limit of 10" in str(error) for error in errors)
        assert {error.code for error in errors} == {"TOOBIG"}
        assert ids == [f"0-{number}" for number in range(4000)]
        expected = [payload for payload in payloads if len(payload) <= 10]
        assert FakeConsumer(served.broker, b"t").drain() == expected


async def test_an_error_of_the_payloads_is_raised_and_nobody_waits(certificates):
    def payloads():
        yield b"one"
        raise LookupError("no more")

    async with connected(certificates) as (client, _served):
        with pytest.raises(LookupError, match="no more"):
            [answer async for answer in client.publish_lines("t", payloads())]
        await client.publish("t", b"two")


async def test_a_tiny_delay_is_a_decimal_number_too(certificates):
    async with connected(certificates) as (client, served):
        await served.broker.publish(b"t", [b"a", b"b"]).commit.wait()
        async with client.subscribe("t") as subscription:
            await anext(subscription)
            subscription.dack(0.00001)
            assert (await anext(subscription)).payload == b"b"


async def test_lines_to_an_invalid_topic_are_refused_as_a_whole(certificates):
    async with connected(certificates) as (client, _served):
        with pytest.raises(ServerError, match="topic name") as caught:
            _ = [answer async for answer in client.publish_lines("a b", [b"x"] * 100_000)]
        assert caught.value.status == 400


async def test_refusal_has_text_and_status(certificates):
    async with connected(certificates, max_message_bytes=10) as (client, _served):
        with pytest.raises(ServerError, match="over the limit of 10") as caught:
            await client.publish("t", b"x" * (4 << 20))
        assert (caught.value.status, caught.value.code) == (413, "TOOBIG")
        with pytest.raises(ServerError, match="404 page not found") as caught:
            await client.publish("a/b", b"x")
        assert (caught.value.status, caught.value.code) == (404, "NOTFOUND")
        await client.publish("t", b"x")


async def test_more_requests_at_once_than_the_server_takes(certificates):
    async with connected(certificates) as (client, served):
        await asyncio.gather(*(client.publish("t", b"%d" % number) for number in range(500)))
        assert served.broker.stats()[b"t"].published == 500


async def test_many_subscriptions_share_a_connection(certificates):
    async with connected(certificates) as (client, served):

        async def take(count):
            async with client.subscribe("t") as subscription:
                for _ in range(count):
                    await anext(subscription)
                    subscription.ack()
                subscription.finish()
                return [delivery async for delivery in subscription]

        await served.broker.publish(b"t", [b"x"] * 1000).commit.wait()
        await asyncio.gather(*(take(100) for _ in range(10)))
        await eventually(lambda: served.broker.stats()[b"t"].acknowledged == 1000)


async def test_lost_connection_fails_what_is_under_way_and_what_follows(certificates):
    async with connected(certificates) as (client, served):
        async with client.subscribe("t") as subscription:
            waiting = asyncio.create_task(anext(subscription))
            await eventually(lambda: b"t" in served.broker.stats())
            client._connection._transport.abort()
            with pytest.raises(DisconnectedError, match="connection was lost"):
                await waiting
        with pytest.raises(DisconnectedError):
            await client.publish("t", b"x")


async def test_closed_client_refuses_to_go_on(certificates):
    async with connected(certificates) as (client, _served):
        async with client:
            pass
        client.close()
        with pytest.raises(DisconnectedError, match="was closed"):
            await client.publish("t", b"x")


async def test_server_that_is_not_there():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectError, match=f"cannot connect to 127.0.0.1:{port}"):
        await connect("127.0.0.1", port)


async def test_server_that_is_not_trusted(certificates):
    async with serving(certificates) as served:
        with pytest.raises(ConnectError, match="certificate verify failed"):
            await connect("localhost", served.port)


def no_server(certificates, alpn, answer):
    """Connect to something that answers with these bytes; return what that raises."""

    async def handle(reader, writer):
        writer.write(answer)
        await reader.read()
        writer.close()

    async def scenario():
        context = server_tls_context(certificates.cert, certificates.key)
        context.set_alpn_protocols([alpn])
        async with await asyncio.start_server(handle, "localhost", 0, ssl=context) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(ConnectError) as caught:
                await connect("localhost", port, cafile=str(certificates.cert.with_name("ca.pem")))
            return str(caught.value)

    return asyncio.run(scenario())


async def test_giving_up_a_server_that_says_nothing_closes_the_connection(certificates):
    spoken, closed = asyncio.Event(), asyncio.Event()

    async def handle(reader, writer):
        with contextlib.suppress(ConnectionError):
            while await reader.read(4096):
                spoken.set()  # the client is connected, and waits for the server's settings
        closed.set()
        writer.close()

    context = server_tls_context(certificates.cert, certificates.key)
    async with await asyncio.start_server(handle, "localhost", 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        cafile = str(certificates.cert.with_name("ca.pem"))
        connecting = asyncio.create_task(connect("localhost", port, cafile=cafile))
        await spoken.wait()
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        await asyncio.wait_for(closed.wait(), 60)


def test_server_that_offers_no_http_2(certificates):
    assert "does not offer HTTP/2" in no_server(certificates, "http/1.1", b"")


def test_server_that_speaks_http_2_badly(certificates):
    data_on_stream_0 = bytes(9)
    assert "violated HTTP/2" in no_server(certificates, "h2", data_on_stream_0)


async def test_a_token_says_who_the_client_is(certificates):
    async with serving(certificates, sign_in=sign_in_for()) as served:
        for token, status in ((None, 401), (token_of("subscriber").decode(), 403)):
            async with await connect("localhost", served.port, cafile=served.cafile, token=token) as client:
                with pytest.raises(ServerError) as caught:
                    await client.publish("orders", b"x")
                assert caught.value.status == status
        token = token_of("admin").decode()
        async with await connect("localhost", served.port, cafile=served.cafile, token=token) as client:
            await client.publish("orders", b"x")
            async with client.subscribe("orders") as subscription:
                assert await anext(subscription) == Delivery(b"x", 0)
