"""A broker for the tests of a module, and a command line for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from miniqueue_client import Client
from tests.acceptance.process import FREE_PORTS, BrokerProcess
from tests.commands.support import CommandLine


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker in memory."""
    process = BrokerProcess(
        [*FREE_PORTS, "-storage", "memory", "-period", "50ms"], cwd=tmp_path_factory.mktemp("broker")
    )
    try:
        yield process.wait_until_ready()
        process.stop()
    finally:
        process.end()


@pytest.fixture
def url(broker: BrokerProcess) -> str:
    return f"redis://localhost:{broker.resp_port}"


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    """A client of the broker, which has no topics when the test begins."""
    with Client(url) as client:
        for topic in client.topics():
            client.delete_topic(topic)
        for schedule in client.schedules():
            client.delete_schedule(schedule.name)
        yield client


@pytest.fixture
def miniqueue(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """`miniqueue` with MINIQUEUE_URL."""
    return CommandLine(url, tmp_path, capsys)


@pytest.fixture
def without_url(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """`miniqueue` of a person who has not said which broker to use."""
    return CommandLine("", tmp_path, capsys)
