"""The LevelDB store: the contract, durability across reopening, threads, failures."""

import asyncio

import pytest

from miniqueue.storage.leveldb import LevelDBStore
from miniqueue.storage.sync_mode import SyncMode
from tests.storage.contract import StoreContract, everything


class TestLevelDBStore(StoreContract):
    @pytest.fixture(autouse=True, params=list(SyncMode))
    def sync_mode(self, request):
        self.sync_mode = request.param

    async def open_store(self, directory):
        return await LevelDBStore.open(directory, sync=self.sync_mode)
