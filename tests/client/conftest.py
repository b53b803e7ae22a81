"""A certificate for the servers of these tests, and brokers for the clients on RESP."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from miniqueue.server.security.certificates import Certificates
from miniqueue_client import Client
from tests.client.broker import RespBroker
from tests.serving import make_certificates


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def resp_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RespBroker]:
    """One broker in memory for the tests of a module."""
    broker = RespBroker(tmp_path_factory.mktemp("resp"), "-storage", "memory")
    yield broker
    broker.end()


@pytest.fixture
def start_resp_broker(tmp_path: Path) -> Iterator[Callable[..., RespBroker]]:
    """Start brokers of the test's own."""
    started: list[RespBroker] = []

    def start(*flags: str) -> RespBroker:
        started.append(RespBroker(tmp_path, *flags))
        return started[-1]

    yield start
    for broker in started:
        broker.end()


@pytest.fixture
def client(resp_broker: RespBroker) -> Iterator[Client]:
    with Client(resp_broker.url) as client:
        yield client


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic of its own for each test."""
    return re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
