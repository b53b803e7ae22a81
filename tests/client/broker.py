"""A real broker for the clients on RESP: on one port for life, so that clients find it again after a restart."""

from pathlib import Path

from tests.acceptance.ports import hold_port, port_of
from tests.acceptance.process import BrokerProcess


class RespBroker:
    """A broker that can be killed and started again, with the same port and the same store."""

    def __init__(self, directory: Path, *flags: str) -> None:
        self._directory = directory
        self._held = hold_port()
        self._port = port_of(self._held)
        self._flags = flags
        self._started: list[BrokerProcess] = []
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._port}"

    @property
    def process(self) -> BrokerProcess:
        return self._started[-1]

    def start(self) -> None:
        ports = ("-port", "0", "-monitor-port", "0", "-resp-port", str(self._port))
        self._started.append(BrokerProcess([*ports, "-period", "50ms", *self._flags], cwd=self._directory))
        self.process.wait_until_ready()

    def kill(self) -> None:
        self.process.kill()

    def end(self) -> None:
        for process in self._started:
            process.end()
        self._held.close()
