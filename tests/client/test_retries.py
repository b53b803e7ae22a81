"""What is lost on the way is asked again where that does no harm, and a broker that restarts is waited for."""

import asyncio
import threading
from itertools import islice

import pytest

from miniqueue_client import AsyncClient, Client, ConnectError, DisconnectedError
from tests.client.lossy_proxy import LossyProxy

pytestmark = pytest.mark.acceptance


@pytest.fixture
def proxy(resp_broker):
    proxy = LossyProxy(resp_broker.process.resp_port, only=b"test-")
    yield proxy
    proxy.end()


def ask(kind, proxy, act, **options):
    """Carry out `act` with a client of a kind behind the proxy; it gets the client."""
    url = f"redis://127.0.0.1:{proxy.port}"
    if kind == "blocking":
        with Client(url, **options) as client:
            return act(client)

    async def scenario():
        async with AsyncClient(url, **options) as client:
            return await act(client)

    return asyncio.run(scenario())


@pytest.fixture(params=["blocking", "awaited"])
def kind(request):
    return request.param


def test_a_publish_whose_reply_is_lost_stores_its_message_once(kind, proxy, client, topic):
    proxy.losses = 2
    assert ask(kind, proxy, lambda behind: behind.publish(topic, "x")) == "0-0"
    assert proxy.losses == 0
    assert client.length(topic) == 1


def test_many_messages_whose_reply_is_lost_are_stored_once_together(kind, proxy, client, topic):
    proxy.losses = 2
    assert ask(kind, proxy, lambda behind: behind.publish_many(topic, ["x", "y"])) == ["0-0", "0-1"]
    assert client.publish_many(topic, ["x", "y"], dedup_id="mine") == ["0-2", "0-3"]
    assert client.publish_many(topic, ["x", "y"], dedup_id="mine") == ["0-2", "0-3"]
    assert client.length(topic) == 4


def test_a_publish_with_an_id_of_its_own_is_stored_once_too(kind, proxy, client, topic):
    proxy.losses = 1
    ask(kind, proxy, lambda behind: behind.publish(topic, "x", dedup_id="mine"), deduplicates=False)
    assert client.publish(topic, "x", dedup_id="mine") == "0-0"
    assert client.length(topic) == 1


def test_a_publish_without_an_id_is_not_asked_again(kind, proxy, client, topic):
    proxy.losses = 1
    with pytest.raises(DisconnectedError):
        ask(kind, proxy, lambda behind: behind.publish(topic, "x"), deduplicates=False)
    assert client.length(topic) == 1  # it was stored; the client cannot know, and a retry would store it twice


def test_a_settle_whose_reply_is_lost_has_settled(kind, proxy, client, topic):
    client.publish(topic, "x")
    [message] = client.receive(topic)
    proxy.losses = 1
    assert ask(kind, proxy, lambda behind: behind.ack(topic, message)) == [False]  # its own, the first time
    assert client.length(topic) == 0


def test_retries_end(kind, proxy, topic):
    proxy.losses = 100
    with pytest.raises(DisconnectedError):
        ask(kind, proxy, lambda behind: behind.length(topic), retries=2)
    assert proxy.losses == 97


def test_a_client_goes_on_after_a_kill_in_the_middle_and_nothing_is_lost_or_doubled(start_resp_broker, topic):
    broker = start_resp_broker()
    published = []

    def publish():
        with Client(broker.url, retries=50) as client:
            for number in range(300):
                published.append(client.publish(topic, str(number)))

    thread = threading.Thread(target=publish)
    thread.start()
    for stop_at in (50, 150):
        while len(published) < stop_at:
            thread.join(0.01)
            assert thread.is_alive()
        broker.kill()
        broker.start()
    thread.join(60)
    assert len(published) == 300
    with Client(broker.url) as client:
        received = islice(client.consume(topic, count=1000, autoack=True), 300)
        assert [message.text for message in received] == [str(number) for number in range(300)]
        assert client.length(topic) == 0


def test_each_error_that_permits_a_retry_is_reported():
    errors = []
    address = Client("redis://127.0.0.1:1", retries=2).address
    with Client.of(address, errors.append) as client, pytest.raises(ConnectError) as raised:
        client.ping()
    assert [str(error) for error in errors] == [str(raised.value)] * 3


async def test_the_awaited_client_reports_errors_too():
    errors = []

    async def scenario():
        address = AsyncClient("redis://127.0.0.1:1", retries=2).address
        async with AsyncClient.of(address, errors.append) as client:
            await client.ping()

    with pytest.raises(ConnectError) as raised:
        await scenario()
    assert [str(error) for error in errors] == [str(raised.value)] * 3


def test_a_transaction_of_publishes_whose_reply_is_lost_stores_each_once(kind, proxy, client, topic):
    proxy.losses = 2
    assert transact(kind, proxy, topic, []) == ["0-0", ["0-1", "0-2"]]
    assert proxy.losses == 0
    assert client.length(topic) == 3


def test_a_transaction_that_settles_is_not_repeated_and_all_of_it_is_done(kind, proxy, client, topic):
    source = f"{topic}-in"
    client.publish(source, "x")
    [message] = client.receive(source)
    proxy.losses = 1
    with pytest.raises(DisconnectedError):
        transact(kind, proxy, topic, [message])
    client.publish(f"{topic}-after", "x")  # whose commit is none before that of the transaction
    assert (client.length(topic), client.length(source)) == (3, 0)


def transact(kind, proxy, topic, messages):
    """Publish three messages in one transaction, and acknowledge what was received; return the results."""

    def collect(transaction):
        transaction.publish(topic, "one")
        transaction.publish_many(topic, ["two", "three"])
        for message in messages:
            transaction.ack(message.topic, message)

    def blocking(client):
        with client.transaction() as transaction:
            collect(transaction)
        return transaction.results

    async def awaited(client):
        async with client.transaction() as transaction:
            collect(transaction)
        return transaction.results

    return ask(kind, proxy, blocking if kind == "blocking" else awaited)
