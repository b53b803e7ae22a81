"""Every HTTP route with curl, as the README shows it."""

import base64
import json

import pytest

from tests.acceptance.counts import counts
from tests.acceptance.curl import Curl
from tests.acceptance.process import BrokerProcess, Trust
from tests.acceptance.tools import needs, on_both_http_servers

pytestmark = [pytest.mark.acceptance, needs("curl"), on_both_http_servers]


@pytest.fixture
def curl(broker: BrokerProcess, trust: Trust) -> Curl:
    return Curl(broker, trust)


def test_publish_is_answered_with_201_and_an_empty_body(curl, topic):
    assert curl(f"/publish/{topic}", body=b"hello") == (201, "2", b"")


def test_an_empty_message_is_a_message(curl, topic):
    assert curl(f"/publish/{topic}", "-X", "POST").status == 201
    with curl.subscribe(topic) as stream:
        stream.send("INIT")
        assert stream.receive() == {}


def test_a_message_keeps_every_byte(curl, topic):
    every_byte = bytes(range(256)) * 100
    curl.publish(topic, every_byte)
    with curl.subscribe(topic) as stream:
        stream.send("INIT")
        assert stream.receive_message() == every_byte


def test_delete_is_answered_with_200_also_for_an_unknown_topic(curl, topic):
    curl.publish(topic, b"hello")
    assert curl(f"/{topic}", "-X", "DELETE") == (200, "2", b"")
    assert curl(f"/{topic}", "-X", "DELETE") == (200, "2", b"")


@pytest.mark.parametrize("path", ["/publish/a/b", "/publish/", "/nothing/here", "/"])
def test_an_unknown_path_is_answered_with_404(curl, path):
    assert curl(path, body=b"hello") == (404, "2", b'{"error":"404 page not found","code":"NOTFOUND"}')


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/publish/a"), ("PUT", "/publish/a"), ("GET", "/subscribe/a"), ("POST", "/a")]
)
def test_a_wrong_method_is_answered_with_405(curl, method, path):
    answer = curl(path, "-X", method)
    assert (answer.status, json.loads(answer.body)["code"]) == (405, "METHODNOTALLOWED")


def test_a_message_over_the_limit_is_answered_with_413_and_not_published(curl, broker, topic):
    curl.publish(topic, b"small")
    answer = curl(f"/publish/{topic}", body=bytes((1 << 20) + 1))
    assert answer.status == 413
    assert "-max-message-size" in json.loads(answer.body)["error"]
    assert counts(broker, topic)["published"] == 1


def test_a_bad_topic_is_answered_with_400(curl):
    answer = curl("/publish/a%20b", body=b"hello")
    assert answer.status == 400
    assert "topic name" in json.loads(answer.body)["error"]


def test_http_1_1_publishes_too(curl, topic):
    assert curl(f"/publish/{topic}", "--http1.1", body=b"hello") == (201, "1.1", b"")


@pytest.mark.parametrize("version", ["--http2", "--http1.1"])
def test_a_message_has_options_in_the_query_and_headers_in_those_of_the_request(curl, topic, version):
    path = f"/publish/{topic}?key=k%C3%BC%FF&ttl=60&dedup=17"
    options = ["--include", version, "-H", "Miniqueue-Header-Trace-Id: 7f", "-H", "Miniqueue-Header-Note: a b"]
    first, again = curl(path, *options, body=b"hello"), curl(path, *options, body=b"hello")
    assert (first.status, again.status) == (201, 200)
    assert b"message-id: 0-0" in first.body.lower()
    assert b"duplicate: true" in again.body.lower()
    received = json.loads(curl(f"/topics/{topic}/receive?autoack=true", version, "-X", "POST").body)
    assert (received["id"], received["key"]) == ("0-0", "k\u00fc\ufffd")
    assert received["headers"] == [["trace-id", "7f"], ["note", "a b"]]
    assert received["expiresAtMs"] > received["publishedAtMs"]
    assert curl(f"/publish/{topic}?dely=5", version, body=b"hello").status == 400


def test_json_lines_publish_many_messages_with_an_answer_to_each(curl, broker, topic):
    lines = [json.dumps("first"), json.dumps({"msg": base64.b64encode(b"\xff").decode()}), "oops", '"last"']
    answer = curl(f"/publish/{topic}", "-H", "Content-Type: application/x-ndjson", body="\n".join(lines).encode())
    results = [json.loads(line) for line in answer.body.splitlines()]
    assert answer.status == 200
    assert [list(result) for result in results] == [["id"], ["id"], ["error", "code"], ["id"]]
    assert counts(broker, topic)["ready"] == 3


def test_a_stream_carries_every_command(curl, topic):
    for message in (b"1", b"2", b"3"):
        curl.publish(topic, message)
    with curl.subscribe(topic) as stream:
        received = []
        for command in ("INIT", "ACK", "NACK", "BACK", "ACK", "DACK 0"):
            stream.send(command)
            line = stream.receive()
            received.append((base64.b64decode(line["msg"]), line.get("dackCount", 0)))
    assert received[:5] == [(b"1", 0), (b"2", 0), (b"2", 0), (b"3", 0), (b"2", 0)]
    assert received[5:] == [(b"2", 1)]


def test_an_error_on_a_stream_leaves_the_message_with_its_consumer(curl, topic):
    curl.publish(topic, b"mine")
    with curl.subscribe(topic) as stream:
        stream.send("INIT")
        assert stream.receive_message() == b"mine"
        for command in ("INIT", "DACK", "DACK oops", "ack"):
            stream.send(command)
            assert list(stream.receive()) == ["error", "code"]
        stream.send("NACK")
        assert stream.receive_message() == b"mine"


def test_who_leaves_gives_the_message_back(curl, topic):
    curl.publish(topic, b"hello")
    for _ in range(2):
        with curl.subscribe(topic) as stream:
            stream.send("INIT")
            assert stream.receive_message() == b"hello"


def test_who_waits_gets_what_is_published_later(curl, topic):
    with curl.subscribe(topic) as stream:
        stream.send("INIT")
        curl.publish(topic, b"later")
        assert stream.receive_message() == b"later"


def test_messages_are_received_and_settled_by_receipt(curl, broker, topic):
    for message in (b"first", b"second"):
        curl.publish(topic, message)
    answer = curl(f"/topics/{topic}/receive?count=10&wait=5", "-X", "POST")
    messages = [json.loads(line) for line in answer.body.splitlines()]
    assert [base64.b64decode(message["msg"]) for message in messages] == [b"first", b"second"]
    receipts = [message["receipt"] for message in messages]
    settled = curl(f"/topics/{topic}/ack", body=json.dumps({"receipts": [*receipts, "other"]}).encode())
    assert (settled.status, [result[:7] for result in json.loads(settled.body)]) == (200, ["OK", "OK", "NOLEASE"])
    assert counts(broker, topic)["acknowledged"] == 2
