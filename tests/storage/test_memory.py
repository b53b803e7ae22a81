"""The store in memory: the contract, and that its housekeeping stays in bounds."""

from miniqueue.storage.memory import MemoryStore
from tests.storage.contract import StoreContract, everything


class TestMemoryStore(StoreContract):
    async def open_store(self, directory):
        return MemoryStore()


async def test_keys_of_deleted_values_are_dropped_in_time():
    store = MemoryStore()
    for number in range(1000):
        await store.write({b"%d" % number: b"v"})
        await store.write({b"%d" % number: None})
    assert len(store._sorted_keys) <= 65
    assert await everything(store) == []
