"""A broker that is stopped for a while, as by SIGSTOP, and goes on: what its clients may notice is that it took longer.

before: a consumer holds a message, one waits, one has delayed a message     stopped: clients publish, and ask
after:  every publish is answered, every lease still holds, the delay is over, each message comes once
"""

import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.acceptance.curl import Curl
from tests.acceptance.process import FREE_PORTS, BrokerProcess, Trust
from tests.acceptance.telnet import Telnet, publish
from tests.acceptance.tools import MAX_SECONDS
from tests.durability.load.measuring import state, wait_until

PUBLISHED = 200


class Consumer(Telnet):
    """A RESP stream, by hand."""

    def __init__(self, port: int, topic: str) -> None:
        super().__init__(port)
        self.say(f"SUBSCRIBE {topic}".encode())

    def receive(self) -> bytes:
        """Return the next message."""
        size = int(self.read_until(b"\r\n")[1:])
        return self.read_until(b"\r\n")[:size]

    def settle(self, words: bytes) -> None:
        """Send a settle, and expect that it is done."""
        self.say(words)
        assert self.read_until(b"\r\n") == b"+OK\r\n"


@contextmanager
def stopped(broker: BrokerProcess) -> Iterator[None]:
    """Stop the process while the block runs."""
    broker.process.send_signal(signal.SIGSTOP)
    try:
        wait_until(lambda: state(broker.process.pid) == "T", "the process is stopped")
        yield
    finally:
        broker.process.send_signal(signal.SIGCONT)


def stop_and_go_on(directory: Path, trust: Trust, pause_seconds: float) -> str:
    """Run the scenario once; return a line that tells what was counted. Fails when something was noticed."""
    broker = BrokerProcess([*FREE_PORTS, *trust.flags, "-period", "50ms"], cwd=directory)
    try:
        broker.wait_until_ready()
        with ExitStack() as stack:
            line = _stop_and_go_on(broker, trust, pause_seconds, stack)
        broker.stop()
        assert '"level":"error"' not in broker.output, broker.output
    finally:
        broker.end()
    return line


def _stop_and_go_on(broker: BrokerProcess, trust: Trust, pause_seconds: float, stack: ExitStack) -> str:
    port = broker.resp_port
    publish(port, "held", "first", "second")
    publish(port, "delayed", "later")
    publish(port, "streamed", "one", "two")
    holder, waiter, delayer = (stack.enter_context(Consumer(port, name)) for name in ("held", "new", "delayed"))
    publisher = stack.enter_context(Telnet(port))
    stream = stack.enter_context(Curl(broker, trust).subscribe("streamed", MAX_SECONDS + pause_seconds))
    stream.send("INIT")
    assert (holder.receive(), delayer.receive(), stream.receive_message()) == (b"first", b"later", b"one")
    delayer.settle(b"DACK %f" % (pause_seconds / 2))
    begun = time.monotonic()
    with stopped(broker):
        for number in range(PUBLISHED):
            publisher.say(b"PUBLISH new %d" % number)
        holder.say(b"ACK")
        stream.send("ACK")
        time.sleep(pause_seconds)  # a pause of this length is what is tested
    paused_seconds = time.monotonic() - begun
    assert Counter(publisher.read_until(b"\r\n") for _ in range(PUBLISHED)) == {b"+OK\r\n": PUBLISHED}
    assert holder.read_until(b"\r\n") == b"+OK\r\n"
    assert (holder.receive(), delayer.receive(), stream.receive_message()) == (b"second", b"later", b"two")
    for number in range(PUBLISHED):
        assert waiter.receive() == b"%d" % number
        waiter.settle(b"ACK")
    for consumer in (holder, delayer):
        consumer.settle(b"ACK")
    stream.send("ACK")
    wait_until(lambda: _unsettled(broker) == 0, "everything is acknowledged once")
    return f"pause: stopped {paused_seconds:.1f} s, {PUBLISHED} published meanwhile, lost=0 duplicated=0"


def _unsettled(broker: BrokerProcess) -> int:
    with Telnet(broker.resp_port) as telnet:
        telnet.say(b"INFO")
        telnet.say(b"PING")
        said = telnet.read_until(b"+PONG\r\n")
    return int(said.partition(b"messages:")[2].split()[0])
