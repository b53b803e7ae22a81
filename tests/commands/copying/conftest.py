"""Two brokers in memory: one to copy from, and one to copy to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from miniqueue_client import Client
from tests.client.broker import RespBroker


def _started(folder) -> Iterator[RespBroker]:
    broker = RespBroker(folder, "-storage", "memory")
    yield broker
    broker.end()


@pytest.fixture(scope="session")
def source_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RespBroker]:
    yield from _started(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="session")
def target_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RespBroker]:
    yield from _started(tmp_path_factory.mktemp("target"))


def _emptied(broker: RespBroker) -> Iterator[Client]:
    with Client(broker.url) as client:
        for topic in client.topics():
            client.delete_topic(topic)
        yield client


@pytest.fixture
def source(source_broker: RespBroker) -> Iterator[Client]:
    yield from _emptied(source_broker)


@pytest.fixture
def target(target_broker: RespBroker) -> Iterator[Client]:
    yield from _emptied(target_broker)


@pytest.fixture
def durable(tmp_path: Path) -> Iterator[list[RespBroker]]:
    """Two brokers whose stores survive them."""
    brokers = []
    for name in ("source", "target"):
        (tmp_path / name).mkdir()
        brokers.append(RespBroker(tmp_path / name))
    yield brokers
    for broker in brokers:
        broker.end()
