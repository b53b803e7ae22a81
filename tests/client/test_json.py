"""Values as JSON: published by every client and in transactions, and returned by messages and deliveries."""

import pytest

from miniqueue_client import AsyncClient, Delivery, Message
from miniqueue_client.calls import messages
from miniqueue_client.errors import RequestError
from tests.serving import serving

VALUE = {"id": 17, "name": "Grüße", "parts": [1.5, None, True], "nested": {"": []}}
TEXT = '{"id":17,"name":"Grüße","parts":[1.5,null,true],"nested":{"":[]}}'


def test_it_is_published_with_the_options_of_a_publish(client, topic):
    client.publish_json(topic, VALUE, key="k", headers={"a": "b"})
    with client.transaction() as transaction:
        transaction.publish_json(topic, "text", unique_key="u")
    first, second = client.receive(topic, count=2)
    assert (first.text, first.json(), first.key, first.header("a")) == (TEXT, VALUE, b"k", "b")
    assert second.json() == "text"


async def test_it_is_published_by_the_client_for_asyncio(resp_broker, topic):
    async with AsyncClient(resp_broker.url) as client:
        await client.publish_json(topic, [VALUE])
        async with client.transaction() as transaction:
            transaction.publish_json(topic, None)
        assert [message.json() for message in await client.receive(topic, count=2)] == [[VALUE], None]


async def test_it_is_published_over_http2(certificates):
    async with serving(certificates) as served:
        client = await served.client()
        await client.publish_json("t", VALUE)
        async with client.transaction() as transaction:
            transaction.publish_json("t", 5, headers={"a": "b"})
        assert [message.json() for message in await client.receive("t", count=2)] == [VALUE, 5]
        assert Delivery(TEXT.encode(), 0).json() == VALUE


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), object(), "\ud800", {(1,): 2}])
def test_a_value_that_json_does_not_have_is_refused(value):
    with pytest.raises(RequestError, match="invalid value; must be one that JSON has: "):
        messages.publish_json("t", value)


def test_a_value_that_contains_itself_is_refused():
    value: list[object] = []
    value.append(value)
    with pytest.raises(RequestError, match="Circular reference"):
        messages.publish_json("t", value)


@pytest.mark.parametrize("payload", [b"", b"{", b"\xff"])
def test_a_payload_that_is_no_json_raises_a_value_error(payload):
    with pytest.raises(ValueError):  # noqa: PT011 - that of json, or of the encoding
        Message("t", "0-1", payload).json()
