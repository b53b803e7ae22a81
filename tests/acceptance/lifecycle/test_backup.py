"""A backup of a broker at work: what was acknowledged before it began is in it, whatever happens after."""

import socket
import subprocess
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector

import pytest
import redis

from tests.acceptance import patient
from tests.acceptance.process import BrokerProcess, run_to_end

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]

BEFORE_COUNT = 3000


class Publisher(threading.Thread):
    """Publishes numbers, one after the other, until `stop` is called or the broker is gone."""

    def __init__(self, port: int, first: int) -> None:
        super().__init__()
        self.acknowledged = first  # the number after the last one acknowledged
        self._port = port
        self._is_stopped = threading.Event()

    def run(self) -> None:
        with patient.Redis(port=self._port) as client:
            while not self._is_stopped.is_set():
                try:
                    client.execute_command("PUBLISH", "numbers", self.acknowledged)
                except redis.ConnectionError:
                    return
                self.acknowledged += 1

    def stop(self) -> None:
        self._is_stopped.set()
        self.join()


def drained(broker: BrokerProcess, topic: str) -> list[int]:
    """Consume everything and return it, in order."""
    numbers: list[int] = []
    with patient.Redis(port=broker.resp_port) as client:
        while page := client.execute_command("RECEIVE", topic, "COUNT", 1000, "AUTOACK"):
            numbers += [int(payload) for _, payload, _ in page]
    return numbers


@pytest.fixture
def tool(tmp_path: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Run a tool in the directory of the brokers; its output is checked to have no traceback."""

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        done = run_to_end(*words, cwd=tmp_path)
        assert "Traceback" not in done.stderr
        return done

    return run


def test_what_was_acknowledged_before_a_backup_survives_kill_and_loss_of_the_store(start_broker, tool, tmp_path):
    broker = start_broker()
    with patient.Redis(port=broker.resp_port) as client:
        client.execute_command("MPUBLISH", "numbers", *range(BEFORE_COUNT))
    publisher = Publisher(broker.resp_port, BEFORE_COUNT)
    publisher.start()
    before = publisher.acknowledged
    backup = tool("backup", "-monitor-port", str(broker.monitor_port), "copy")
    after = publisher.acknowledged
    assert (backup.returncode, backup.stderr) == (0, "")
    broker.kill()
    publisher.stop()

    assert tool("check", "-db", "copy").returncode == 0
    assert oct((tmp_path / "copy").stat().st_mode)[-3:] == "700"
    restored = tool("restore", "-db", "restored", "copy")
    assert restored.returncode == 0
    assert "no problems" in restored.stdout
    numbers = drained(start_broker("restored"), "numbers")
    assert numbers == list(range(len(numbers)))
    assert BEFORE_COUNT <= before <= len(numbers) <= after + 1


def test_a_backup_that_the_broker_does_not_finish_leaves_nothing(start_broker, tool, tmp_path):
    broker = start_broker()
    with patient.Redis(port=broker.resp_port) as client:
        for _ in range(40):
            client.execute_command("PUBLISH", "large", bytes(1 << 20))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=pass_on_and_kill, args=(listener, broker, 4 << 20), daemon=True).start()
        backup = tool("backup", "-monitor-port", str(listener.getsockname()[1]), "copy")
    assert backup.returncode == 69
    assert "is incomplete" in backup.stderr
    assert not list(tmp_path.glob("*copy*"))


def pass_on_and_kill(listener: socket.socket, broker: BrokerProcess, count: int) -> None:
    """Pass connections on, and the first `count` bytes of the replies; then the broker dies."""
    address = "127.0.0.1", broker.monitor_port
    with ExitStack() as opened, DefaultSelector() as selector:
        selector.register(listener, EVENT_READ)
        while count > 0:
            for key, _ in selector.select():
                if key.fileobj is listener:
                    client = opened.enter_context(listener.accept()[0])
                    server = opened.enter_context(socket.create_connection(address))
                    selector.register(client, EVENT_READ, (client, server))
                    selector.register(server, EVENT_READ, (server, client))
                    continue
                source, target = key.data
                if part := source.recv(1 << 16):
                    target.sendall(part)
                    count -= len(part)
                else:
                    selector.unregister(source)
                    target.shutdown(socket.SHUT_WR)
        broker.kill()


def test_a_store_in_memory_can_be_backed_up(start_broker, tool):
    broker = start_broker("unused", "-storage", "memory")
    with patient.Redis(port=broker.resp_port) as client:
        client.execute_command("MPUBLISH", "numbers", *range(5))
    assert tool("backup", "-monitor-port", str(broker.monitor_port), "copy").returncode == 0
    assert drained(start_broker("copy"), "numbers") == list(range(5))


def test_without_a_broker_there_is_an_error(tool):
    done = tool("backup", "-monitor-port", "1", "copy")
    assert done.returncode == 69
    assert done.stderr.startswith("miniqueue: no broker answers on 127.0.0.1:1 (-monitor-port)")


def test_messages_of_a_running_broker_are_exported_and_imported_elsewhere(start_broker, tool):
    broker = start_broker()
    with patient.Redis(port=broker.resp_port) as client:
        client.execute_command("MPUBLISH", "numbers", *range(5))
    assert tool("export", "-monitor-port", str(broker.monitor_port), "-o", "lines", "numbers").returncode == 0
    assert tool("import", "-db", "elsewhere", "lines").stdout == "elsewhere: 5 messages in 1 topic\n"
    assert drained(start_broker("elsewhere"), "numbers") == list(range(5))
