"""Two shards, and what carries transfers between them, which loses, repeats, and delays what it carries."""

from random import Random

from miniqueue.broker import Broker
from miniqueue.core.log.transfer import Parcel
from miniqueue.core.settings.placing import Placing
from miniqueue.errors import MiniqueueError
from miniqueue.storage.format.keys import Space
from tests.broker.support import World
from tests.fakes import broker_on, settle_down

COUNT = 2


def topic_in(shard: int, prefix: str) -> bytes:
    """Return the name of a topic in a shard."""
    names = (f"{prefix}{number}".encode() for number in range(100))
    return next(name for name in names if Placing(0, COUNT).shard_of(name) == shard)


#: A topic in each shard.
HERE, THERE = topic_in(0, "here"), topic_in(1, "there")


class Shard(World):
    """One of two shards."""

    def __init__(self, number: int, **options: object) -> None:
        super().__init__(**options)
        self.placing = Placing(number, COUNT)

    async def start(self) -> Broker:
        self.broker = broker_on(self.store, self.clock, **self.options)
        self.broker.place(self.placing)
        await self.broker.start()
        await settle_down()
        return self.broker

    async def crash(self) -> None:
        """Start again with what was written until now, and nothing else."""
        store = await self.store.as_of(len(self.store.batches))
        await self.broker._engine.tasks.stop()
        self.store = store
        await self.start()

    def stored(self, space: Space) -> list[bytes]:
        """Return the keys of a space."""
        return [key for key in self.store.pairs() if key[0] == space]


class Shards:
    """Both shards, and what is carried between them."""

    def __init__(self, **options: object) -> None:
        self.both = [Shard(number, **options) for number in range(COUNT)]
        self.delayed: list[tuple[int, Parcel]] = []

    async def __aenter__(self) -> "Shards":
        for shard in self.both:
            await shard.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        for shard in self.both:
            await shard.broker.stop()

    async def carry(self, source: int, without: tuple[bytes, ...] = ()) -> dict[bytes, str]:
        """Carry one parcel from a shard to the other; return what was refused, and why, by topic."""
        parcel = self.both[source].broker.outbox.parcel(1 - source, without)
        if not parcel.transfers:
            return {}
        taken = await self.both[1 - source].broker.inbox.take(source, parcel)
        self.both[source].broker.outbox.arrived(1 - source, taken.arrived)
        return taken.refused

    async def carry_all(self) -> None:
        """Carry everything that is accepted."""
        for shard in self.both:
            await shard.commit()
        for _ in range(100):
            before = [len(shard.broker.outbox) for shard in self.both]
            for source in range(COUNT):
                blocked = await self.carry(source)
                await self.carry(source, tuple(blocked))
            for shard in self.both:
                await shard.commit()
            if before == [len(shard.broker.outbox) for shard in self.both]:
                return

    async def carry_badly(self, chance: Random) -> None:
        """Carry a parcel, or an older one again; lose the answer, or the parcel, or let a shard crash meanwhile."""
        source = chance.randrange(COUNT)
        parcel = self.both[source].broker.outbox.parcel(1 - source)
        if parcel.transfers:
            self.delayed.append((source, parcel))
        if not self.delayed or chance.random() < 0.2:
            return
        source, parcel = self.delayed[-1] if chance.random() < 0.5 else chance.choice(self.delayed)
        target = self.both[1 - source]
        target.store.applies_failed = chance.random() < 0.5
        if chance.random() < 0.1:
            target.store.fail_writes.add(target.store.write_count + 1)
        try:
            taken = await target.broker.inbox.take(source, parcel)
        except MiniqueueError:
            await settle_down()
            return
        if chance.random() < 0.3:
            await self.both[chance.randrange(COUNT)].crash()
        if chance.random() < 0.7:
            self.both[source].broker.outbox.arrived(1 - source, taken.arrived)
        if chance.random() < 0.3:
            await self.both[chance.randrange(COUNT)].crash()
