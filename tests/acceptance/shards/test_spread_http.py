"""Tests of other topics that hold for spread topics, too; `MINIQUEUE_TEST_SPREAD=4 make test` asks for all of them."""

import base64
import json
from collections.abc import Iterator

import pytest

from tests.acceptance.clients.test_across_protocols import (  # noqa: F401 - pytest runs what is imported
    test_a_topic_deleted_over_http_is_gone_over_resp,
    test_a_waiting_http_consumer_gets_what_comes_over_resp,
    test_published_over_http_consumed_over_resp,
)
from tests.acceptance.clients.test_curl import (  # noqa: F401 - the same
    curl,
    test_a_message_keeps_every_byte,
    test_an_error_on_a_stream_leaves_the_message_with_its_consumer,
    test_json_lines_publish_many_messages_with_an_answer_to_each,
    test_who_leaves_gives_the_message_back,
)
from tests.acceptance.conftest import name_of, spread_over
from tests.acceptance.process import Trust
from tests.acceptance.shards.conftest import ShardedBroker

pytestmark = pytest.mark.acceptance

PARTS = 4


@pytest.fixture(scope="module")
def broker(trust: Trust, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShardedBroker]:
    process = ShardedBroker(tmp_path_factory.mktemp("spread"), *trust.flags)
    try:
        yield process.wait_until_ready()
        process.stop()
    finally:
        process.end()


@pytest.fixture
def topic(request: pytest.FixtureRequest, broker: ShardedBroker) -> str:
    return spread_over(PARTS, broker, name_of(request))


def test_messages_of_a_key_are_received_in_their_order_and_settled_by_receipt(curl, topic):  # noqa: F811 - the fixture
    published = [f"{key}{number}" for number in range(3) for key in "abc"]
    for payload in published:
        assert curl(f"/publish/{topic}?key={payload[0]}", body=payload.encode()).status == 201
    answer = curl(f"/topics/{topic}/receive?count=10&wait=5", "-X", "POST")
    messages = [json.loads(line) for line in answer.body.splitlines()]
    received = [base64.b64decode(message["msg"]).decode() for message in messages]
    assert sorted(received, key=lambda payload: payload[0]) == sorted(published, key=lambda payload: payload[0])
    receipts = json.dumps({"receipts": [message["receipt"] for message in messages]}).encode()
    assert json.loads(curl(f"/topics/{topic}/ack", body=receipts).body) == ["OK"] * len(published)
    assert json.loads(curl(f"/topics/{topic}").body)["acknowledged"] == len(published)
