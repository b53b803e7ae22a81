"""Whatever the broker does: after its store was resharded from 1 to 3, 2, and 1 shard, it goes on as the model says."""

import pytest

from tests.model.machine import BrokerMachine
from tests.model.soak import check
from tests.model.stores import MemoryDisk
from tests.tools.resharding.pairs import content_of, resharded

#: Numbers of shards, one after the other.
COUNTS = (3, 2, 1)


class ReshardedDisk(MemoryDisk):
    """A disk whose store remains one store, but is resharded between."""

    def reshard(self) -> None:
        stores = [self.pairs()]
        before = content_of(stores)
        for count in COUNTS:
            stores = resharded(stores, count)
            assert content_of(stores) == before
        self._store = self._Store()
        self._store._values.update(stores[0])
        self._store._sorted_keys += sorted(stores[0])


class ReshardedBroker(BrokerMachine):
    """The broker and its model, on a store that is resharded before each start."""

    disk_class = ReshardedDisk

    def start(self, kinds):
        self.disk.reshard()
        super().start(kinds)


@pytest.mark.slow
def test_broker_goes_on_after_its_store_was_resharded():
    outcome = check(ReshardedBroker, 60, is_repeatable=True)
    if outcome.divergence is not None:
        raise outcome.divergence
