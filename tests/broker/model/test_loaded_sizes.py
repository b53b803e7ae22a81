"""The loaded messages of a topic with very many cursors are measured one group at a time."""

import pytest

from miniqueue.broker.model import topic as topics
from miniqueue.core.options.publish import PublishOptions
from tests.fakes import FakeConsumer

GROUPS = 3


@pytest.fixture(autouse=True)
def _few_at_once(monkeypatch):
    monkeypatch.setattr(topics, "MEASURED_AT_ONCE", 4)


async def test_after_as_many_commits_as_groups_the_size_is_exact(world):
    await world.broker.admin.create(b"t", {"partitions": 16}).wait()
    for number in range(GROUPS - 1):
        await world.broker.groups.create(b"t", b"g%d" % number)
    topic = world.broker._engine.topics.by_name[b"t"]
    for number in range(20):
        world.broker.publish_with(b"t", bytes(1000), PublishOptions(key=b"%d" % number))
    await world.commit()
    assert 0 < topic.size_bytes < topics.size_bytes(topic.cursors)
    for _ in range(GROUPS):
        await world.commit()
        last = topic.size_bytes
    assert last == topics.size_bytes(topic.cursors) > GROUPS * 20 * 1000
    consumer = FakeConsumer(world.broker, b"t")
    await consumer.drain_all()
    consumer.consumer.close()
    await world.commit()
    assert [topic.size_bytes for _ in range(GROUPS)][-1] == topics.size_bytes(topic.cursors) < last
    topic.evict()
    assert topic.size_bytes == topics.size_bytes(topic.cursors) == 0
    await world.broker.delete_topic(b"t")
    assert topic.size_bytes == 0
