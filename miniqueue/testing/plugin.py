"""The plugin of pytest: a broker for a run, and an empty one for each test.

miniqueue_broker   one for the whole run, a `MemoryBroker`; with pytest-xdist, one for each of its processes
miniqueue_url      the URL of that broker, for a test; its topics and schedules are deleted afterwards
"""

from collections.abc import Iterator

import pytest

from miniqueue.testing.broker import MemoryBroker


@pytest.fixture(scope="session")
def miniqueue_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryBroker]:
    """A broker in memory, on free ports, for the whole run."""
    with MemoryBroker(tmp_path_factory.mktemp("miniqueue")) as broker:
        yield broker


@pytest.fixture
def miniqueue_url(miniqueue_broker: MemoryBroker) -> Iterator[str]:
    """The URL of a broker without topics, `redis://127.0.0.1:…`; what the test leaves in it is deleted."""
    yield miniqueue_broker.url
    miniqueue_broker.clear()
