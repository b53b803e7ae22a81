"""Fakes for tests: a clock to set, a store that fails when told to, a broker on it, a transport that keeps bytes."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

from miniqueue.broker import Broker
from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.errors import StorageError
from miniqueue.storage.memory import MemoryStore
from miniqueue.storage.port import Batch, Room

START_MS = 1_700_000_000_000


class ManualClock:
    """A wall clock that stands still until it is set, and a clock that only goes forward."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.time_ms = now_ms
        self.monotonic_ms = 0

    def now_ms(self) -> int:
        return self.time_ms

    def next_ms(self) -> int:
        return self.time_ms

    def monotonic(self) -> float:
        return self.monotonic_ms / 1000

    def advance(self, seconds: float) -> None:
        """Advance both clocks; negative seconds only set the wall clock back."""
        self.time_ms += round(seconds * 1000)
        self.monotonic_ms += max(0, round(seconds * 1000))


class FaultyStore(MemoryStore):
    """A memory store that outlives its brokers, counts its calls, and fails or waits when told to.

    `fail_writes` and `fail_scans` hold the numbers (from 1) of the calls that fail; with `applies_failed`, a
    failing write is carried out all the same. Failing writes raise `write_fault`. `room_now` is what a look at the
    disk shows. While `may_write` is cleared, writes wait. `batches` keeps every
    write that was carried out, so that `as_of(n)` is the store after a crash behind the n-th.
    """

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[dict[bytes, bytes | None]] = []
        self.fail_writes: set[int] = set()
        self.fail_scans: set[int] = set()
        self.applies_failed = False
        self.write_fault = StorageError
        self.room_now = Room(is_enough=True)
        self.write_count = 0
        self.scan_count = 0
        self.scanned_bytes = 0
        self.close_count = 0
        self.sync_count = 0
        self.reclaimed: list[tuple[bytes, bytes]] = []
        self.may_write = asyncio.Event()
        self.may_write.set()
        self._order = asyncio.Lock()
        self.may_scan = asyncio.Event()
        self.may_scan.set()
        self.synced = asyncio.Event()

    def go_on(self) -> None:
        """Hold nothing up any more."""
        self.may_write.set()
        self.may_scan.set()

    def write(self, batch: Batch, *, is_synced: bool = False) -> Awaitable[None]:
        self.write_count += 1
        return asyncio.create_task(self._write_in_order(self.write_count, batch, self.may_write, is_synced))

    async def _write_in_order(self, *write: Any) -> None:
        async with self._order:
            await self._write(*write)

    async def _write(self, number: int, batch: Batch, may_write: asyncio.Event, is_synced: bool) -> None:
        await may_write.wait()
        is_failing = number in self.fail_writes
        if not is_failing or self.applies_failed:
            await super().write(batch)
            self.batches.append(dict(batch))
        if is_failing:
            raise self.write_fault(f"write {number} fails")
        if is_synced:
            await self.sync()

    async def scan(self, start: bytes, stop: bytes, *, max_items: int, max_bytes: int) -> list[tuple[bytes, bytes]]:
        self.scan_count += 1
        number = self.scan_count
        pairs = await super().scan(start, stop, max_items=max_items, max_bytes=max_bytes)
        await self.may_scan.wait()
        if number in self.fail_scans:
            raise StorageError(f"scan {number} fails")
        self.scanned_bytes += sum(len(value) for _, value in pairs)
        return pairs

    async def sync(self) -> None:
        self.sync_count += 1
        self.synced.set()

    async def room(self, *, is_full: bool) -> Room:
        return self.room_now

    async def reclaim(self, start: bytes, stop: bytes) -> None:
        self.reclaimed.append((start, stop))

    async def close(self) -> None:
        self.close_count += 1

    async def as_of(self, batch_count: int) -> "FaultyStore":
        """Return a new store that has only the first `batch_count` writes."""
        store = FaultyStore()
        for batch in self.batches[:batch_count]:
            await MemoryStore.write(store, batch)
        store.batches = self.batches[:batch_count]
        return store

    def pairs(self) -> dict[bytes, bytes]:
        """Return all keys and values."""
        return dict(self._values)


def broker_on(store: MemoryStore, clock: ManualClock, *, rest_seconds: float = 0.0, **options: Any) -> Broker:
    """Make a broker whose own ticker never runs: tests call `tick`.

    Empty topics are put to rest at every tick, so that every test shows that this changes nothing.
    """

    async def open_store() -> MemoryStore:
        return store

    limits = replace(options.pop("limits", None) or BrokerLimits(), rest_seconds=rest_seconds)
    return Broker(open_store, clock=clock, limits=limits, **{"period_seconds": 1e6, **options})


#: If nothing is ready for this many iterations, nothing will be: due timers and sockets show in the next one.
IDLE_TURNS = 10


async def settle_down() -> None:
    """Run all tasks until all wait for timers, or for 200 iterations of the loop."""
    loop, idle_turns = asyncio.get_running_loop(), 0
    for _ in range(200):
        await asyncio.sleep(0)
        idle_turns = 0 if getattr(loop, "_ready", True) else idle_turns + 1  # uvloop does not tell
        if idle_turns == IDLE_TURNS:
            return


class FakeConsumer:
    """A consumer that keeps what it was handed."""

    def __init__(self, broker: Broker, topic: bytes, group: bytes = b"default") -> None:
        self.leases: list = []
        self.errors: list = []
        self.consumer = broker.consumer(topic, self.leases.extend, self.errors.append, group=group)

    @property
    def payloads(self) -> list[bytes]:
        return [lease.payloads[0] for lease in self.leases]

    def drain(self) -> list[bytes]:
        """Take and acknowledge until nothing comes at once; return what came now."""
        before = len(self.leases)
        while not self.consumer.is_waiting:
            self.consumer.request()
            if not self.consumer.is_waiting:
                self.consumer.ack()
        return self.payloads[before:]

    async def drain_all(self) -> list[bytes]:
        """Drain, like `drain`, even messages that must be loaded first."""
        before, count = len(self.leases), -1
        if not self.consumer.is_waiting:
            self.consumer.request()
        while count != len(self.leases):
            count = len(self.leases)
            await settle_down()
            while not self.consumer.is_waiting:
                self.consumer.ack()
                self.consumer.request()
        return self.payloads[before:]


class FakeTransport:
    """Keeps what is written; closing is reported to the protocol as asyncio does, a turn later."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        self.protocol = protocol
        self.written = b""
        self.is_closed = False
        self.is_lost = False
        self.high_water_bytes: int | None = None  # the size of unread output at which the peer counts as slow
        self.limit_bytes: int | None = None  # the same size as the protocol sets it; the kernel buffers much before
        self.extra: dict[str, object] = {"peername": ("127.0.0.1", 50_000), "sockname": ("127.0.0.1", 6379)}
        self._is_reading = True

    def get_extra_info(self, name: str) -> object:
        return self.extra.get(name)

    def write(self, data: bytes) -> None:
        assert not self.is_lost, "uvloop raises here"
        self.written += data
        if self.high_water_bytes is not None and len(self.written) > self.high_water_bytes:
            self.protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        return len(self.written)

    def set_write_buffer_limits(self, high: int) -> None:
        self.limit_bytes = high

    def abort(self) -> None:
        self.close()

    def take(self) -> bytes:
        """Return what was written since the last call."""
        written, self.written = self.written, b""
        return written

    def is_reading(self) -> bool:
        return self._is_reading and not self.is_closed

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True

    def is_closing(self) -> bool:
        return self.is_closed

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """The peer hears the end, and closes."""
        assert not self.is_lost, "uvloop raises here"
        self.close()

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            asyncio.get_running_loop().call_soon(self.lose)

    def lose(self) -> None:
        """End the connection, as when the peer is gone."""
        if not self.is_lost:
            self.is_closed = self.is_lost = True
            self.protocol.connection_lost(None)
            del self.protocol
