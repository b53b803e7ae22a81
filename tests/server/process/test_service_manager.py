"""What a service manager hears, on real sockets."""

import os
from collections.abc import Iterator
from contextlib import closing, suppress
from socket import AF_UNIX, SOCK_DGRAM, socket

import pytest
from structlog.testing import capture_logs

from miniqueue.server.process.service_manager import ServiceManager

OTHER_PID = str(os.getpid() + 1)


class EndedError(Exception):
    pass


class Manager:
    """A receiver of notifications; `name` is what the process finds in NOTIFY_SOCKET."""

    def __init__(self, name: str) -> None:
        self.environ = {"NOTIFY_SOCKET": name}
        self.socket = socket(AF_UNIX, SOCK_DGRAM)
        self.socket.bind(name.replace("@", "\0") if name.startswith("@") else name)
        self.socket.setblocking(False)

    def heard(self) -> list[str]:
        states = []
        while True:
            try:
                states.append(self.socket.recv(4096).decode())
            except BlockingIOError:
                return states


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path) -> Iterator[Manager]:
    name = str(tmp_path / "notify") if request.param == "path" else f"@miniqueue-{os.getpid()}-notify"
    manager = Manager(name)
    with closing(manager.socket):
        yield manager


class Sleeps:
    """Sleeps that take no time, of which the last one does not return."""

    def __init__(self, count: int) -> None:
        self.seconds: list[float] = []
        self._count = count

    async def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)
        if len(self.seconds) == self._count:
            raise EndedError


async def fed(manager: Manager, **variables: str) -> list[float]:
    """Return for how long the feeder slept, at most three times."""
    sleeps = Sleeps(3)
    with suppress(EndedError):
        await ServiceManager(manager.environ | variables).feed_watchdog(sleeps.sleep)
    return sleeps.seconds


def test_it_hears_of_each_state(manager):
    ours = ServiceManager(manager.environ, lambda: 1_234_567_890)
    ours.ready()
    with ours.reloading():
        assert manager.heard() == ["READY=1", "RELOADING=1\nMONOTONIC_USEC=1234567"]
    ours.stopping()
    assert manager.heard() == ["READY=1", "STOPPING=1"]


def test_a_reload_that_fails_ends_too(manager):
    with pytest.raises(EndedError), ServiceManager(manager.environ, lambda: 0).reloading():
        raise EndedError
    assert manager.heard()[-1] == "READY=1"


@pytest.mark.parametrize("pid", [None, str(os.getpid())], ids=["no pid", "its pid"])
async def test_the_watchdog_is_fed_twice_in_its_interval(manager, pid):
    assert await fed(manager, WATCHDOG_USEC="30000000", **({"WATCHDOG_PID": pid} if pid else {})) == [15.0] * 3
    assert manager.heard() == ["WATCHDOG=1"] * 3


@pytest.mark.parametrize(
    "variables", [{}, {"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": OTHER_PID}], ids=["none", "of another"]
)
async def test_a_watchdog_of_another_process_is_not_fed(manager, variables):
    assert await fed(manager, **variables) == []
    assert manager.heard() == []


@pytest.mark.parametrize("interval", ["0", "-1", "soon", "1.5", "٣", "9" * 5000])
async def test_an_interval_that_is_none_is_ignored_with_a_warning(manager, interval):
    with capture_logs() as logs:
        assert await fed(manager, WATCHDOG_USEC=interval) == []
    assert [entry["event"] for entry in logs] == ["WATCHDOG_USEC ignored; must be a number of microseconds above 0"]


async def test_without_a_manager_nothing_is_sent():
    with capture_logs() as logs:
        ours = ServiceManager({"WATCHDOG_USEC": "30000000"})
        ours.ready()
        ours.stopping()
        await ours.feed_watchdog(Sleeps(1).sleep)
    assert logs == []


@pytest.mark.parametrize("name", ["vsock:2:1234", "run/notify"])
def test_an_address_of_another_kind_is_ignored_with_a_warning(name):
    with capture_logs() as logs:
        ServiceManager({"NOTIFY_SOCKET": name}).ready()
    assert logs == [{"event": "NOTIFY_SOCKET ignored; must begin with / or @", "value": name, "log_level": "warning"}]


def test_a_manager_that_is_gone_is_a_warning(tmp_path):
    with capture_logs() as logs:
        ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "missing")}).stopping()
    (entry,) = logs
    assert entry["state"] == "STOPPING=1"
    assert "No such file" in entry["error"]
