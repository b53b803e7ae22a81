"""Consumers that stop reading: each costs a bounded amount of memory, and a healthy pair does not notice."""

import json
import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from statistics import median

import pytest

from tests.acceptance.process import BrokerProcess, Trust
from tests.acceptance.telnet import Telnet, command
from tests.durability.load import stalled
from tests.durability.load.measuring import rss_bytes, wait_until

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]

MESSAGE_BYTES = 64 << 10
PREFETCHED_BYTES = 1000
#: What a consumer may hold, whatever its prefetch is (docs/protocol.md).
HELD_BYTES = 4 << 20
ROUND_TRIPS = 100
#: Far more than a busy machine slows a median down, far less than a loop that waits for a client would.
MAX_SLOWDOWN = 50

Stall = Callable[[], AbstractContextManager[None]]


@pytest.fixture
def broker(start_broker) -> BrokerProcess:
    return start_broker("data", "-sync", "never")  # the disk's speed is not what is asked for


def publish(broker: BrokerProcess, topic: bytes, payload: bytes, count: int) -> None:
    publishing = b"*3\r\n$7\r\nPUBLISH\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(topic), topic, len(payload), payload)
    with Telnet(broker.resp_port) as telnet:
        for _ in range(count // 50):
            telnet.socket.sendall(publishing * 50)
            for _ in range(50):
                assert telnet.read_until(b"\r\n") == b"+OK\r\n"


def round_trips_seconds(broker: BrokerProcess) -> list[float]:
    """Publish one message at a time, and wait for it on another connection; each comes once, in order."""
    taken = []
    with Telnet(broker.resp_port) as publisher, Telnet(broker.resp_port) as consumer:
        consumer.say(b"SUBSCRIBE healthy")
        for number in range(ROUND_TRIPS):
            begun = time.perf_counter()
            publisher.say(b"PUBLISH healthy %d" % number)
            consumer.read_until(b"\r\n")
            assert consumer.read_until(b"\r\n") == b"%d\r\n" % number
            taken.append(time.perf_counter() - begun)
            consumer.say(b"ACK")
            assert consumer.read_until(b"\r\n") == b"+OK\r\n"
            assert publisher.read_until(b"\r\n") == b"+OK\r\n"
    return sorted(taken)


def leased_count(broker: BrokerProcess) -> int:
    count: int = json.loads(broker.monitor("/stats"))["topics"]["stalled"]["leased"]
    return count


def cost_bytes(
    broker: BrokerProcess, stall: Stall, count: int, leased: int, max_slowdown: float = MAX_SLOWDOWN
) -> float:
    """Return what each of `count` stalled consumers adds to the memory, while a healthy pair goes on."""
    alone_seconds = round_trips_seconds(broker)
    before_bytes = rss_bytes(broker.process.pid)
    with stall():
        wait_until(lambda: leased_count(broker) >= leased, f"{leased} messages are out")
        beside_seconds = round_trips_seconds(broker)
        each_bytes = (rss_bytes(broker.process.pid) - before_bytes) / count
        print(
            f"{each_bytes / 1024:,.0f} KiB for each of {count};"
            f" round trip alone {median(alone_seconds) * 1e6:,.0f} us, p99 {alone_seconds[-2] * 1e6:,.0f} us;"
            f" beside them {median(beside_seconds) * 1e6:,.0f} us, p99 {beside_seconds[-2] * 1e6:,.0f} us"
        )
        assert median(beside_seconds) < max_slowdown * median(alone_seconds)
    wait_until(lambda: leased_count(broker) == 0, "what they held is back")
    assert len(round_trips_seconds(broker)) == ROUND_TRIPS
    broker.stop()
    return each_bytes


def test_a_hundred_over_resp(broker):
    publish(broker, b"stalled", bytes(MESSAGE_BYTES), 100)
    each = cost_bytes(broker, lambda: stalled.over_resp(broker.resp_port, command(b"SUBSCRIBE stalled"), 100), 100, 100)
    assert each < MESSAGE_BYTES + (128 << 10)


def test_a_hundred_over_http(broker, trust: Trust):
    publish(broker, b"stalled", bytes(MESSAGE_BYTES), 100)
    path = "/subscribe/stalled"
    each = cost_bytes(broker, lambda: stalled.over_http(broker.https_port, trust.ca, path, 100), 100, 100)
    assert each < 4 * MESSAGE_BYTES + (256 << 10)  # in base64, in TLS, and in pieces


def test_those_that_prefetch_over_resp(broker):
    leased = 10 * HELD_BYTES // PREFETCHED_BYTES
    publish(broker, b"stalled", bytes(PREFETCHED_BYTES), 50_000)
    words = command(b"SUBSCRIBE stalled PREFETCH 10000")
    assert cost_bytes(broker, lambda: stalled.over_resp(broker.resp_port, words, 10), 10, leased) < 3 * HELD_BYTES


def test_those_that_prefetch_over_http(broker, trust: Trust):
    leased = 10 * HELD_BYTES // PREFETCHED_BYTES
    publish(broker, b"stalled", bytes(PREFETCHED_BYTES), 50_000)
    path = "/subscribe/stalled?prefetch=10000"
    each = cost_bytes(broker, lambda: stalled.over_http(broker.https_port, trust.ca, path, 10), 10, leased)
    assert each < 5 * HELD_BYTES


@pytest.mark.parametrize("words", [b"*1\r\n$4\r\nPING\r\n", b"*2\r\n$4\r\nECHO\r\n$1000\r\n" + bytes(1000) + b"\r\n"])
def test_those_that_ask_and_ask(broker, words):
    """Their replies wait for them up to a limit, and then their commands do, with the kernel.

    What they ask has to be answered, so the others do notice; but they get their turns.
    """
    publish(broker, b"stalled", b"x", 50)
    flood = words * ((2 << 20) // len(words))
    stall = partial(stalled.over_resp, broker.resp_port, flood, 10)
    assert cost_bytes(broker, stall, 10, 0, max_slowdown=math.inf) < 8 << 20
