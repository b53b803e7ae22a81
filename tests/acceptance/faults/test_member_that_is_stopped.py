"""A member whose process is stopped: its connection stays open, and its partition goes to another member."""

import signal
import subprocess
import sys

import pytest

from tests.acceptance.process import BrokerProcess
from tests.acceptance.telnet import Telnet, publish
from tests.acceptance.tools import MAX_SECONDS

pytestmark = pytest.mark.acceptance

#: Prints what it hears, and acknowledges the first message.
CONSUMER = """
import socket, sys

port, topic = int(sys.argv[1]), sys.argv[2]
stream = socket.create_connection(("127.0.0.1", port)).makefile("rwb")

def say(*words):
    stream.write(b"*%d\\r\\n" % len(words) + b"".join(b"$%d\\r\\n%b\\r\\n" % (len(w), w) for w in words))
    stream.flush()

say(b"SUBSCRIBE", topic.encode(), b"GROUP", b"g", b"MEMBER", b"a", b"SESSION", b"1")
for line in stream:
    print(line.decode().strip(), flush=True)
    if line == b"one\\r\\n":
        say(b"ACK")
"""


@pytest.mark.slow
def test_a_member_whose_process_is_stopped_loses_its_partition(broker: BrokerProcess, topic: str):
    port = broker.resp_port
    arguments = [sys.executable, "-c", CONSUMER, str(port), topic]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process, Telnet(port) as other:
        try:
            publish(port, topic, "one")
            assert [process.stdout.readline() for _ in range(3)] == ["$3\n", "one\n", "+OK\n"]
            other.say(f"SUBSCRIBE {topic} GROUP g MEMBER b PREFETCH 1".encode())
            process.send_signal(signal.SIGSTOP)
            publish(port, topic, "two")
            assert other.read_until(b":1\r\n") == b"*3\r\n$1\r\n3\r\n$3\r\ntwo\r\n*2\r\n$8\r\ntimeouts\r\n:1\r\n"
            other.say(b"ACK 3")
            assert other.read_until(b"\r\n") == b"+OK\r\n"
            publish(port, topic, "three")
            assert b"three" in other.read_until(b"*0\r\n")
            process.send_signal(signal.SIGCONT)
            told, _ = process.communicate(timeout=MAX_SECONDS)
            assert told.splitlines()[:2] == ["$3", "two"]
            assert told.splitlines()[2].startswith("-SESSIONOVER member a: ")
        finally:
            process.kill()
