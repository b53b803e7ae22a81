"""A database that fails and waits when a test tells it to."""

import contextlib
import threading


class FakeDatabase:
    """Counts what reaches it; fails when told to; holds up writes until `may_write` is set."""

    def __init__(self) -> None:
        self.writes: list[list[bytes]] = []
        self.unsynced_count = 0
        self.failure: Exception | None = None
        self.may_write = threading.Event()
        self.may_write.set()
        self.is_writing = threading.Event()
        self.is_closed = False
        self.cursors: list[FakeCursor] = []

    @contextlib.contextmanager
    def write_batch(self, *, transaction, sync):
        assert transaction
        batch = FakeBatch()
        yield batch
        self.is_writing.set()
        assert self.may_write.wait(60)
        self._fail_if_told()
        self.writes.append(batch.keys)
        self.unsynced_count += not sync

    def get(self, key, *, verify_checksums):
        assert verify_checksums
        self._fail_if_told()
        return b"value"

    def raw_iterator(self, *, verify_checksums, fill_cache):
        assert verify_checksums
        self._fail_if_told()
        self.cursors.append(FakeCursor())
        return self.cursors[-1]

    def compact_range(self, *, start, stop):
        self._fail_if_told()

    def close(self):
        self.is_closed = True

    def _fail_if_told(self):
        if self.failure is not None:
            raise self.failure


class FakeBatch:
    def __init__(self) -> None:
        self.keys: list[bytes] = []

    def put(self, key, value):
        self.keys.append(key)

    def delete(self, key):
        self.keys.append(key)


class FakeCursor:
    """A place among pairs of which there is one, wherever it is looked for."""

    def __init__(self) -> None:
        self.keys: list[bytes] = []

    def seek(self, target):
        self.keys = [target]

    def valid(self):
        return bool(self.keys)

    def item(self):
        return self.keys[0], b"value"

    def next(self):
        self.keys.clear()

    def prev(self):
        self.keys = [bytes([self.keys[0][0] - 1])]

    def close(self):
        pass
