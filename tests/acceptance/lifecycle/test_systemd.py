"""A real systemd starts, reloads, watches, and stops the service; whatever sets its variables hears the same."""

import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from socket import AF_UNIX, SOCK_DGRAM, socket

import pytest

from tests.acceptance.one_file import BINARY, NOT_CURRENT, is_current
from tests.acceptance.process import FREE_PORTS, PROCESS_COUNT, START_SECONDS, BrokerProcess, environment
from tests.acceptance.systemd import Machine, can_boot
from tests.acceptance.tools import needs

pytestmark = pytest.mark.acceptance

#: Asks the RESP port, with bash alone.
PING = "exec 3<>/dev/tcp/127.0.0.1/6379; printf 'PING\\r\\n' >&3; head -n 1 <&3"


@pytest.fixture
def manager(tmp_path) -> Iterator[socket]:
    """A service manager that hears what a broker reports."""
    with closing(socket(AF_UNIX, SOCK_DGRAM)) as heard:
        heard.bind(str(tmp_path / "notify"))
        heard.settimeout(START_SECONDS)
        yield heard


def state_heard(manager: socket) -> bytes:
    """Return the next state other than those of the watchdog."""
    while (state := manager.recv(100)) == b"WATCHDOG=1":
        pass
    return state


@pytest.mark.parametrize(("flags", "count"), [((), PROCESS_COUNT), (("-shards", "2"), 2)], ids=["as is", "two shards"])
def test_a_broker_reports_its_states(tmp_path, trust, manager, flags, count):
    variables = environment(NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="60000000")
    broker = BrokerProcess((*FREE_PORTS, *trust.flags, "-storage", "memory", *flags), tmp_path, env=variables)
    try:
        assert manager.recv(100) == b"READY=1"
        broker.wait_until_ready()
        assert manager.recv(100) == b"WATCHDOG=1"
        broker.process.send_signal(signal.SIGHUP)
        reloading, ready = state_heard(manager), state_heard(manager)
        assert reloading.startswith(b"RELOADING=1\nMONOTONIC_USEC=")
        assert ready == b"READY=1"
        broker.wait_for_events("certificate loaded", count)
        broker.stop()
        assert state_heard(manager) == b"STOPPING=1"
    finally:
        broker.end()


@pytest.fixture(
    params=[None, pytest.param(BINARY, marks=pytest.mark.skipif(not is_current(), reason=NOT_CURRENT))],
    ids=["package", "one file"],
)
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    if not can_boot():
        pytest.skip("no systemd can be booted here: it takes root, and a kernel with overlays and cgroups")
    machine = Machine(tmp_path, request.param)
    yield machine
    machine.end()


@needs("unshare", "nsenter", "bash")
def test_systemd_starts_reloads_restarts_and_stops_the_service(machine):
    machine.systemctl("start")
    assert machine.event() == "started"
    assert machine.run("bash", "-c", PING) == "+PONG"  # the start has waited for the port
    first = machine.shown("MainPID")

    machine.systemctl("reload")
    assert (machine.shown("MainPID"), machine.shown("ActiveState")) == (first, "active")

    machine.configure("impatient", "[Service]\nWatchdogSec=4\nRestartSec=0\n")
    machine.systemctl("kill", "--signal=KILL")
    assert machine.event() == "signal killed KILL"
    assert machine.event() == "started"
    assert machine.shown("MainPID") not in ("0", first)
    assert machine.run("bash", "-c", PING) == "+PONG"

    machine.systemctl("kill", "--signal=STOP")  # an event loop that hangs looks like this
    assert machine.event() == "watchdog killed ABRT"
    assert machine.event() == "started"
    assert machine.run("bash", "-c", PING) == "+PONG"

    machine.systemctl("stop")
    assert machine.event() == "success exited 0"
    assert (machine.shown("ActiveState"), machine.shown("Result")) == ("inactive", "success")
