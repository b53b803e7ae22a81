"""Members that come and go in any order: shares stay even, as few partitions move as must, and no other pauses."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.broker.consume.test_members import Reader, create, fill
from tests.broker.support import World, run

ACTS = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=10)


class Crowd:
    """Members of a group; each partition has a message, which its member holds."""

    def __init__(self, world: World, partitions: int) -> None:
        self.world = world
        self.partitions = partitions
        self.readers: dict[bytes, Reader] = {}
        self.owners: dict[int, bytes] = {}

    async def toggle(self, name: bytes) -> None:
        """Remove a member, or add it if it is absent, and check what that moves."""
        staying = {number: owner for number, owner in self.owners.items() if owner != name}
        if name in self.readers:
            self.readers.pop(name).consumer.close()
        else:
            self.readers[name] = Reader(self.world, name, prefetch=100)
        figures = await self.world.broker.groups.figures_of(b"t", b"default")
        owners = {number: owner for owner, numbers in figures.members.items() for number in numbers}
        wanted = owners | figures.moving
        assert sorted(wanted) == ([*range(self.partitions)] if self.readers else [])
        assert not set(owners) & set(figures.moving)
        self.check_shares(wanted)
        assert sum(wanted.get(number) == owner for number, owner in staying.items()) == self.most_that_may_stay(staying)
        unmoved = {number for number, owner in staying.items() if wanted.get(number) == owner}
        assert all(owners.get(number) == staying[number] for number in unmoved)  # not even for a moment
        assert set(figures.moving) == {number for number, owner in staying.items() if wanted.get(number) != owner}
        self.owners = wanted

    def check_shares(self, wanted: dict[int, bytes]) -> None:
        shares = [list(wanted.values()).count(name) for name in self.readers]
        assert not shares or max(shares) - min(shares) <= 1

    def most_that_may_stay(self, staying: dict[int, bytes]) -> int:
        """Return how many partitions could keep their members at most, with even shares."""
        if not self.readers:
            return 0
        share, rest = divmod(self.partitions, len(self.readers))
        had = sorted((list(staying.values()).count(name) for name in self.readers), reverse=True)
        return sum(min(count, share + (place < rest)) for place, count in enumerate(had))

    async def hand_over(self) -> None:
        """Return what members hold of partitions that move, so that the moves continue."""
        membership = self.world.broker._engine.topics.by_name[b"t"].default.membership
        for reader in self.readers.values():
            held = [lease for lease in reader.leases if lease.payloads[0].split(b"-")[0] in self.moving_words()]
            reader.leases[:] = [lease for lease in reader.leases if lease not in held]
            if held:
                reader.consumer.nack([lease.receipt for lease in held])
        if membership is not None:
            membership.look()
            self.world.broker._dispatcher.dispatch(membership.group)
            assert not membership.moving

    def moving_words(self) -> set[bytes]:
        membership = self.world.broker._engine.topics.by_name[b"t"].default.membership
        return {b"%d" % number for number in (() if membership is None else membership.moving)}


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), ACTS)
def test_as_few_partitions_move_as_must_and_no_other_pauses(partitions, names):
    async def body(world):
        await create(world, partitions, handover_seconds=3600)
        await fill(world, 1, partitions)
        crowd = Crowd(world, partitions)
        for name in names:
            await crowd.toggle(name.encode())
            await crowd.hand_over()
        assert sum(len(reader.leases) for reader in crowd.readers.values()) == (partitions if crowd.readers else 0)

    run(body)
