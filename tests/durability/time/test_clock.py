"""The wall clock of a running broker is set by an hour and by a year, forward and back (docs/protocol.md, Clocks)."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.acceptance.curl import Curl
from tests.acceptance.process import FREE_PORTS, BrokerProcess, Trust, run_to_end
from tests.acceptance.telnet import Telnet, publish
from tests.acceptance.tools import MAX_SECONDS, needs
from tests.durability.load.measuring import wait_until
from tests.durability.time.clocks import WallClock, needs_faketime

pytestmark = [pytest.mark.acceptance, pytest.mark.slow, needs_faketime]

HOUR_SECONDS = 3600
YEAR_SECONDS = 365 * 24 * HOUR_SECONDS
an_hour_forward = pytest.param(HOUR_SECONDS, id="an-hour-forward")
an_hour_back = pytest.param(-HOUR_SECONDS, id="an-hour-back")
a_year_forward = pytest.param(YEAR_SECONDS, id="a-year-forward")
a_year_back = pytest.param(-YEAR_SECONDS, id="a-year-back")
STEPS_SECONDS = (an_hour_forward, an_hour_back, a_year_forward, a_year_back)
#: Longer than the short steps, shorter than the long ones.
LONG_DELAY_SECONDS = 10 * HOUR_SECONDS


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clock")


@pytest.fixture(scope="module")
def clock(directory: Path) -> WallClock:
    return WallClock(directory)


@pytest.fixture(scope="module")
def shared(clock: WallClock, trust: Trust, directory: Path) -> Iterator[BrokerProcess]:
    """One broker for all, whose clock is set many times over."""
    with running(clock, trust, directory) as process:
        yield process
        process.stop()
        assert '"level":"error"' not in process.output


@pytest.fixture
def broker(shared: BrokerProcess, clock: WallClock) -> BrokerProcess:
    clock.set(0)
    return shared


@contextmanager
def running(clock: WallClock, trust: Trust, directory: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess([*FREE_PORTS, *trust.flags, "-period", "50ms"], directory, env=clock.environment)
    try:
        yield process.wait_until_ready()
    finally:
        process.end()


class Consumer(Telnet):
    """A stream, by hand."""

    def __init__(self, broker: BrokerProcess, topic: str) -> None:
        super().__init__(broker.resp_port)
        self.say(f"SUBSCRIBE {topic}".encode())

    def receive(self) -> bytes:
        size = int(self.read_until(b"\r\n")[1:])
        return self.read_until(b"\r\n")[:size]

    def settle(self, words: bytes) -> None:
        self.say(words)
        assert self.read_until(b"\r\n") == b"+OK\r\n"


def set_clock(broker: BrokerProcess, clock: WallClock, offset_seconds: int) -> None:
    """Set the clock, and make sure that the broker goes by it."""
    clock.set(offset_seconds)
    with urlopen(f"http://127.0.0.1:{broker.monitor_port}/healthz", timeout=MAX_SECONDS) as answer:
        told_seconds = parsedate_to_datetime(answer.headers["date"]).timestamp()
    assert abs(told_seconds - time.time() - offset_seconds) < 60


def delayed_count(broker: BrokerProcess, topic: str) -> int:
    count: int = json.loads(broker.monitor("/stats"))["topics"][topic]["delayed"]
    return count


def wait_for_a_tick(broker: BrokerProcess) -> None:
    """A delay that is over as soon as it has begun is over on the next tick."""
    publish(broker.resp_port, "ticks", "x")
    with Consumer(broker, "ticks") as consumer:
        for word in (b"DACK 0", b"DACK 0", b"ACK"):
            consumer.receive()
            consumer.settle(word)


@pytest.mark.parametrize("step_seconds", STEPS_SECONDS)
def test_who_waits_and_who_holds_a_message_does_not_notice(broker, clock, topic, step_seconds):
    publish(broker.resp_port, topic, "before")
    with Consumer(broker, topic) as holder, Consumer(broker, f"{topic}-empty") as waiter:
        assert holder.receive() == b"before"
        set_clock(broker, clock, step_seconds)
        wait_for_a_tick(broker)
        publish(broker.resp_port, f"{topic}-empty", "after")
        assert waiter.receive() == b"after"
        publish(broker.resp_port, topic, "after")
        holder.settle(b"ACK")
        assert holder.receive() == b"after"
        holder.settle(b"ACK")
        waiter.settle(b"ACK")
        counts = json.loads(broker.monitor("/stats"))["topics"]
    assert (counts[topic]["published"], counts[topic]["acknowledged"]) == (2, 2)
    assert (counts[f"{topic}-empty"]["published"], counts[f"{topic}-empty"]["acknowledged"]) == (1, 1)


@needs("curl")
@pytest.mark.parametrize("step_seconds", [a_year_forward, a_year_back])
def test_an_http_stream_does_not_notice(broker, trust, clock, topic, step_seconds):
    publish(broker.resp_port, topic, "one", "two")
    with Curl(broker, trust).subscribe(topic) as stream:
        stream.send("INIT")
        assert stream.receive_message() == b"one"
        set_clock(broker, clock, step_seconds)
        wait_for_a_tick(broker)
        stream.send("ACK")
        assert stream.receive_message() == b"two"
        stream.send("ACK")


@pytest.mark.parametrize("step_seconds", STEPS_SECONDS)
def test_delays_end_by_the_wall_clock(broker, clock, topic, step_seconds):
    publish(broker.resp_port, topic, "long", "short")
    with Consumer(broker, topic) as consumer:
        assert consumer.receive() == b"long"
        consumer.settle(b"DACK %d" % LONG_DELAY_SECONDS)
        assert consumer.receive() == b"short"
        set_clock(broker, clock, step_seconds)
        consumer.settle(b"DACK 0.1")
        first = consumer.receive()
        if step_seconds > LONG_DELAY_SECONDS:
            assert first == b"long"
            consumer.settle(b"ACK")
            first = consumer.receive()
        assert first == b"short"  # after a step back too: its delay began after it
        consumer.settle(b"ACK")
        wait_for_a_tick(broker)
        assert delayed_count(broker, topic) == (step_seconds < LONG_DELAY_SECONDS)


def test_order_and_restart_do_not_notice(trust, tmp_path):
    clock = WallClock(tmp_path)
    with running(clock, trust, tmp_path) as broker:
        publish(broker.resp_port, "t", "later", "1", "2")
        with Consumer(broker, "t") as consumer:
            consumer.receive()
            consumer.settle(b"DACK %d" % (2 * YEAR_SECONDS))
        set_clock(broker, clock, YEAR_SECONDS)
        publish(broker.resp_port, "t", "3", "4")
        set_clock(broker, clock, -YEAR_SECONDS)
        publish(broker.resp_port, "t", "5", "6")
        broker.stop()
    assert run_to_end("check", "-db", str(tmp_path / "data"), cwd=tmp_path).returncode == 0
    with running(clock, trust, tmp_path) as broker:
        with Consumer(broker, "t") as consumer:
            for number in b"123456":
                assert consumer.receive() == b"%c" % number
                consumer.settle(b"ACK")
            wait_until(lambda: delayed_count(broker, "t") == 1, "only the delayed message is left")
        broker.stop()
