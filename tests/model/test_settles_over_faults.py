"""What was settled before a confirmed publish does not come again when the store fails and is reopened."""

import pytest

from miniqueue.broker.commit.journal import LARGE_BYTES
from miniqueue.core.options.consume import StreamOptions
from miniqueue.core.options.publish import PublishOptions
from tests.model.drivers import CoreDriver
from tests.model.machine import LONG_SECONDS
from tests.model.stores import LevelDBDisk, MemoryDisk

IDENTIFIED = PublishOptions(dedup_id=b"1")
#: Topics with a message each, published with a dedup id.
SETTLED, OTHER = b"t", b"other"


class Scene:
    """A broker with a leased message in `SETTLED`."""

    def __init__(self, disk, large_bytes):
        self.confirmed = []
        nothing = {"began": lambda: None, "ended": lambda: None, "opened": lambda: None}
        self.driver = CoreDriver(disk, failed=lambda is_kept: None, **nothing)
        self.driver.large_bytes = large_bytes
        self.driver.start()
        self.publish(SETTLED)
        self.publish(OTHER)
        self.consumer = self.driver.do(self.driver.connect, "core", SETTLED, StreamOptions())
        assert [one.payload for one in self.consumer.hear()] == [b"x"]

    def publish(self, topic):
        """Publish with a dedup id; note when it is confirmed."""

        def begin():
            accepted = self.driver.broker.publish_with(topic, b"x", IDENTIFIED)
            if accepted.commit.is_done:
                self.note(accepted.commit, topic)
            else:
                accepted.commit.add_listener(lambda: self.note(accepted.commit, topic))

        self.driver.do(begin)

    def note(self, commit, topic):
        if commit.error is None:
            self.confirmed.append(topic)

    def fail(self, outcome):
        """Make the next write fail, and the store reopen."""
        self.driver.store.fails_next = outcome
        self.driver.do(self.driver.store.release)
        self.driver.do(self.driver.broker.publish, b"failing", [b"y"])
        self.driver.loop.pass_time(LONG_SECONDS)
        assert self.driver.broker.refusal is None
        self.driver.do(lambda: None)


@pytest.fixture(params=[MemoryDisk, LevelDBDisk])
def disk(request):
    disk = request.param()
    yield disk
    disk.remove()


@pytest.mark.parametrize("outcome", ["kept", "dropped"])
@pytest.mark.parametrize("large_bytes", [1, LARGE_BYTES], ids=["two commits in flight", "one commit in flight"])
@pytest.mark.parametrize("topic", [b"new", OTHER], ids=["publish", "duplicate"])
def test_a_settle_before_a_confirmed_publish_survives_a_fault(disk, large_bytes, outcome, topic):
    scene = Scene(disk, large_bytes)
    try:
        scene.driver.store.may_write.clear()
        scene.driver.do(scene.driver.broker.publish, b"in-flight", [b"y"])
        scene.driver.do(scene.consumer.settle, "ack", None, 0)
        assert scene.consumer.hear() == ["OK"]
        scene.confirmed.clear()
        scene.publish(topic)
        assert scene.confirmed == []
        scene.driver.do(scene.driver.store.release)
        assert scene.confirmed == [topic]
        scene.fail(outcome)
        assert scene.consumer.hear() == []
    finally:
        scene.driver.close()
