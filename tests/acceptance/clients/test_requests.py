"""Requests and replies across protocols and crashes, on the real broker."""

import base64
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.acceptance.curl import Curl
from tests.acceptance.telnet import Telnet
from tests.acceptance.tools import MAX_SECONDS, needs, on_both_http_servers

pytestmark = [pytest.mark.acceptance, needs("curl")]

RECEIPT = re.compile(rb"\b[0-9a-f]{16}-[0-9]+(?=\r\n\$3\r\nask)")


@on_both_http_servers
def test_who_asks_over_one_protocol_is_answered_over_the_other(broker, trust, topic):
    curl = Curl(broker, trust)
    with ThreadPoolExecutor() as threads, Telnet(broker.resp_port) as telnet:
        asking = threads.submit(curl, f"/request/{topic}?timeout=60", body=b"ask")
        telnet.say(f"RECEIVE {topic} WAIT 50".encode(), b"PING")
        (receipt,) = RECEIPT.findall(telnet.read_until(b"+PONG\r\n"))
        telnet.say(b"REPLY %b %b from-resp" % (topic.encode(), receipt))
        assert telnet.read_until(b"\r\n") == b"+OK\r\n"
        assert asking.result()[::2] == (200, b"from-resp")

        telnet.say(f"REQUEST {topic} ask TIMEOUT 60".encode())
        message = json.loads(curl(f"/topics/{topic}/receive?wait=50", body=b"").body)
        assert base64.b64decode(message["msg"]) == b"ask"
        assert curl(f"/topics/{topic}/reply?receipt={message['receipt']}", body=b"from http").status == 200
        assert telnet.read_until(b"http\r\n") == b"$9\r\nfrom http\r\n"


def test_after_a_crash_nobody_waits_and_the_message_is_still_there(start_broker):
    broker = start_broker("data")
    with Telnet(broker.resp_port) as asking, Telnet(broker.resp_port) as worker:
        asking.say(b"REQUEST sums ask TIMEOUT 60")
        worker.say(b"RECEIVE sums WAIT 50", b"PING")
        (lost,) = RECEIPT.findall(worker.read_until(b"+PONG\r\n"))
        broker.kill()
        assert asking.read_to_close() == b""
    with Telnet(start_broker("data").resp_port) as worker:
        worker.say(b"REPLY sums %b 5" % lost)
        assert worker.read_until(b"\r\n").startswith(b"-NOLEASE ")
        worker.say(b"RECEIVE sums WAIT 50", b"PING")
        (receipt,) = RECEIPT.findall(worker.read_until(b"+PONG\r\n"))
        worker.say(b"REPLY sums %b 5" % receipt)
        assert worker.read_until(b"\r\n").startswith(b"-GONE ")
        worker.say(b"LEN sums")
        assert worker.read_until(b"\r\n") == b":0\r\n"


def test_nobody_works_for_who_has_waited_in_vain(start_broker):
    broker = start_broker("data", "-period", "50ms")
    with Telnet(broker.resp_port) as asking:
        asking.say(b"REQUEST sums ask TIMEOUT 0.2")
        assert asking.read_until(b"\r\n").startswith(b"-TIMEOUT ")
        asking.say(b"RECEIVE sums WAIT 0.3", b"PING")
        assert asking.read_until(b"+PONG\r\n") == b"*0\r\n+PONG\r\n"


def test_the_reply_to_a_client_that_has_closed_says_that_nobody_waits(broker, topic):
    with Telnet(broker.resp_port) as worker:
        with Telnet(broker.resp_port) as asking:
            asking.say(f"REQUEST {topic} ask TIMEOUT 60".encode())
            worker.say(f"RECEIVE {topic} WAIT 50".encode(), b"PING")
            (receipt,) = RECEIPT.findall(worker.read_until(b"+PONG\r\n"))
        closed_at = time.monotonic()
        none_waits = f'miniqueue_waiting_requests{{(shard="[0-9]+",)?topic="{topic}"}} 0'.encode()
        while not re.search(none_waits, broker.monitor("/metrics")):
            assert time.monotonic() < closed_at + MAX_SECONDS
        worker.say(b"REPLY %b %b 5" % (topic.encode(), receipt))
        assert worker.read_until(b"\r\n").startswith(b"-GONE ")
