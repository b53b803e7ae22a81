"""Real brokers for the tests, and the certificate that all of them use."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import redis

from tests.acceptance.process import FREE_PORTS, SHARDS, SPREAD, BrokerProcess, Trust
from tests.acceptance.shards.exceptions import reason_against

#: Starts a broker; arguments: the directory of its store, then further flags.
StartBroker = Callable[..., BrokerProcess]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what does not apply to brokers with shards, if those are tested."""
    for item in items if SHARDS else []:
        if reason := reason_against(item.nodeid, is_spread=bool(SPREAD)):
            item.add_marker(pytest.mark.skip(reason=f"with shards: {reason}"))


@pytest.fixture(scope="session")
def trust(tmp_path_factory: pytest.TempPathFactory) -> Trust:
    """The certificates that a first start makes in ./certs."""
    directory = tmp_path_factory.mktemp("first-start")
    first = BrokerProcess([*FREE_PORTS, "-storage", "memory"], cwd=directory)
    try:
        first.wait_until_ready().stop()
    finally:
        first.end()
    return Trust(directory / "certs")


@pytest.fixture(scope="module")
def http_server(request: pytest.FixtureRequest) -> str:
    """What serves HTTP; see `on_both_http_servers`."""
    return getattr(request, "param", "hypercorn")


@pytest.fixture(scope="module")
def broker(trust: Trust, tmp_path_factory: pytest.TempPathFactory, http_server: str) -> Iterator[BrokerProcess]:
    """One broker for the tests of a module; after them it must stop in good order."""
    directory = tmp_path_factory.mktemp("broker")
    flags = ["-period", "50ms", "-http-server", http_server]
    process = BrokerProcess([*FREE_PORTS, *trust.flags, *flags], cwd=directory)
    try:
        yield process.wait_until_ready()
        assert process.is_alive()
        process.stop()
    finally:
        process.end()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic of its own for each test; a spread one, if the topics of the tests are to be."""
    if SPREAD and "broker" in request.fixturenames:
        with suppress(redis.AuthenticationError):  # what tests of users publish to is not spread
            return spread_over(int(SPREAD), request.getfixturevalue("broker"), name_of(request))
    return name_of(request)


def name_of(request: pytest.FixtureRequest) -> str:
    """Return a name of a topic that no other test has."""
    return re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")


def spread_over(part_count: int, broker: BrokerProcess, topic: str) -> str:
    """Create a spread topic; return its name."""
    tls = {"ssl": True, "ssl_cert_reqs": "none"} if "-resp-tls" in broker.process.args else {}
    with redis.Redis(port=broker.resp_port, **tls) as client:
        client.execute_command("TOPIC", "CREATE", topic, "spread", part_count)
    return topic


@pytest.fixture
def start_broker(trust: Trust, tmp_path: Path) -> Iterator[StartBroker]:
    """Start brokers of the test's own, in its own directory; they are ready when this returns."""
    started: list[BrokerProcess] = []

    def start(db: str = "data", *flags: str) -> BrokerProcess:
        process = BrokerProcess([*FREE_PORTS, *trust.flags, "-db", db, *flags], cwd=tmp_path)
        started.append(process)
        return process.wait_until_ready()

    yield start
    for process in started:
        process.end()
