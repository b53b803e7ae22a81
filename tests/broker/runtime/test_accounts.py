"""The accounts of memory: what they add up to, whom they limit, and that nothing is left of what was given back."""

import random

import pytest

from miniqueue.broker.runtime.accounts import Memory, Purpose
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.errors import MemoryLimitError

MIB = 1 << 20
ADDRESS = "192.0.2.1"


class Actor:
    """A client that acts, as far as accounts are concerned."""

    def __init__(self, account=None) -> None:
        self.account = account

    def __bytes__(self) -> bytes:
        return b""


def refusal_of(memory, account) -> str:
    """Return why the client of an account gets no more memory; empty if it does."""
    token = CURRENT_ACTOR.set(Actor(account))
    try:
        memory.check()
    except MemoryLimitError as exc:
        return str(exc)
    finally:
        CURRENT_ACTOR.reset(token)
    return ""


def test_a_charge_counts_in_every_account_from_the_connection_up():
    memory = Memory(1000 * MIB, has_users=True)
    one, other = memory.connect(ADDRESS), memory.connect(ADDRESS)
    one.become("ada")
    one.add(Purpose.OUTPUT, 5)
    other.add(Purpose.INPUT, 7)
    assert one.amounts() == {Purpose.OUTPUT: 5} == memory.users["ada"].amounts()
    assert other.owner.amounts() == {Purpose.INPUT: 7}
    assert memory.amounts() == {Purpose.OUTPUT: 5, Purpose.INPUT: 7}
    one.put(Purpose.OUTPUT, 2)
    assert memory.used_bytes == 9


def test_a_connection_takes_what_it_uses_along_when_it_becomes_a_user():
    memory = Memory(1000 * MIB, has_users=True)
    connection = memory.connect(ADDRESS)
    connection.add(Purpose.CONNECTIONS, 100)
    connection.become("ada")
    assert connection.owner is memory.users["ada"]
    connection.forget(ADDRESS)
    assert not memory.users
    assert connection.owner.name == f"clients from {ADDRESS}"
    assert connection.owner.used_bytes == memory.used_bytes == 100


def test_a_connection_leaves_nothing_behind_but_the_leases_of_its_user():
    memory = Memory(1000 * MIB, has_users=True)
    connection = memory.connect(ADDRESS)
    connection.become("ada")
    connection.add(Purpose.OUTPUT, 5)
    user = connection.owner
    user.charge_lease(100)
    memory.tick()
    connection.close()
    assert memory.amounts() == {Purpose.LEASES: 100}
    user.charge_lease(-100)
    memory.tick()
    assert not memory.amounts()
    assert not memory.users


def test_one_user_is_refused_and_the_others_are_not():
    memory = Memory(100 * MIB, has_users=True)
    greedy, modest = memory.connect(ADDRESS), memory.connect(ADDRESS)
    greedy.become("greedy")
    modest.become("modest")
    greedy.owner.add(Purpose.LEASES, 76 * MIB)
    assert refusal_of(memory, greedy) == "the memory for user greedy is used up, 75 MiB (-max-memory); try again later"
    assert not refusal_of(memory, modest)
    assert not refusal_of(memory, None)
    greedy.owner.add(Purpose.LEASES, -2 * MIB)
    assert not refusal_of(memory, greedy)


def test_a_quota_replaces_the_share_of_a_user_from_the_next_tick_on():
    memory = Memory(100 * MIB, has_users=True)
    connection = memory.connect(ADDRESS)
    connection.become("ada")
    connection.add(Purpose.OUTPUT, 2 * MIB)
    memory.quota = {"ada": MIB}.get
    memory.tick()
    assert "user ada" in refusal_of(memory, connection)
    memory.quota = {}.get
    memory.tick()
    assert not refusal_of(memory, connection)


def test_clients_that_have_not_authenticated_have_little_of_each_address_and_of_all():
    memory = Memory(160 * MIB, has_users=True)
    first = memory.connect(ADDRESS)
    first.add(Purpose.CONNECTIONS, 11 * MIB)
    assert f"clients from {ADDRESS}" in refusal_of(memory, first)
    others = [memory.connect(f"192.0.2.{number}") for number in range(2, 6)]
    for other in others:
        assert not refusal_of(memory, other)
        other.add(Purpose.CONNECTIONS, 9 * MIB)
    assert "clients that have not authenticated" in refusal_of(memory, others[0])


def test_without_users_an_address_may_use_what_the_process_may():
    memory = Memory(100 * MIB)
    connections = [memory.connect(ADDRESS) for _ in range(10)]
    for connection in connections[:-1]:
        connection.add(Purpose.OUTPUT, 9 * MIB)
        assert not refusal_of(memory, connection)
    connections[-1].add(Purpose.OUTPUT, 10 * MIB)
    assert "this broker" in refusal_of(memory, connections[0])
    assert "this broker" in refusal_of(memory, None)


def test_one_connection_may_use_an_eighth():
    memory = Memory(800 * MIB)
    connection, other = memory.connect(ADDRESS), memory.connect(ADDRESS)
    connection.add(Purpose.OUTPUT, 101 * MIB)
    assert "this connection" in refusal_of(memory, connection)
    assert not refusal_of(memory, other)


def test_what_is_reserved_counts_until_the_reply_is_made():
    memory = Memory(100 * MIB)
    connection = memory.connect(ADDRESS)
    CURRENT_ACTOR.set(Actor(connection))
    with memory.reserve(4 * MIB):
        assert connection.amounts() == {Purpose.OUTPUT: 12 * MIB}
        connection.add(Purpose.INPUT, 8 * MIB)
        with pytest.raises(MemoryLimitError), memory.reserve(1):
            pass
    connection.add(Purpose.INPUT, -8 * MIB)
    assert not memory.amounts()


def test_there_is_no_memory_for_a_connection_only_when_everything_is_used():
    memory = Memory(100 * MIB)
    memory.add(Purpose.COMMITS, 95 * MIB)
    assert refusal_of(memory, None)
    assert not memory.is_full
    memory.add(Purpose.COMMITS, 6 * MIB)
    assert memory.is_full


def test_caches_shrink_before_anything_is_refused():
    memory = Memory(100 * MIB)
    assert memory.cache_bytes(64 * MIB, 4 * MIB) == 64 * MIB
    memory.put(Purpose.CACHE, 20 * MIB)
    memory.put(Purpose.LEASES, 50 * MIB)
    assert memory.cache_bytes(64 * MIB, 4 * MIB) == 25 * MIB
    memory.put(Purpose.LEASES, 80 * MIB)
    assert memory.cache_bytes(64 * MIB, 4 * MIB) == 4 * MIB


def test_memory_that_nobody_was_charged_for_counts_for_the_process():
    resident_bytes = 50 * MIB
    memory = Memory(400 * MIB)
    memory.watch(lambda: resident_bytes)
    memory.put(Purpose.LEASES, 100 * MIB)
    resident_bytes = 200 * MIB
    memory.tick()
    assert Purpose.OTHER not in memory.amounts()
    resident_bytes = 480 * MIB
    memory.tick()
    assert memory.amounts()[Purpose.OTHER] == (480 - 50 - 64 - 100) * MIB
    assert refusal_of(memory, None)
    resident_bytes = 200 * MIB
    memory.tick()
    assert not refusal_of(memory, None)


def test_freed_memory_is_returned_before_anything_is_refused_because_of_it():
    memory, resident_bytes = Memory(100 * MIB), [0, 300 * MIB, 20 * MIB]
    returned = []
    memory.watch(lambda: resident_bytes.pop(0), lambda: returned.append(True))
    memory.tick()
    assert returned
    assert not refusal_of(memory, None)


def test_what_is_measured_is_up_to_date_after_each_tick():
    memory, sizes = Memory(100 * MIB), [3, 5]
    memory.measure(Purpose.COMMITS, lambda: sizes.pop(0))
    memory.tick()
    assert memory.amounts() == {Purpose.COMMITS: 3}
    memory.tick()
    assert memory.amounts() == {Purpose.COMMITS: 5}


@pytest.mark.parametrize("seed", range(20))
def test_all_accounts_are_the_sums_of_what_is_below_them_whatever_happens(seed):
    choose = random.Random(seed)
    memory = Memory(64 * MIB, has_users=True)
    open_, users = [], ["ada", "bob"]
    for _ in range(500):
        match choose.randrange(6):
            case 0:
                open_.append(memory.connect(f"192.0.2.{choose.randrange(3)}"))
            case 1 if open_:
                choose.choice(open_).become(choose.choice(users))
            case 2 if open_:
                choose.choice(open_).forget("192.0.2.9")
            case 3 if open_:
                open_.pop(choose.randrange(len(open_))).close()
            case _ if open_:
                choose.choice(open_).put(choose.choice([*Purpose]), choose.randrange(8 * MIB))
        assert memory.used_bytes == sum(connection.used_bytes for connection in open_)
        for name in users:
            below = [one.used_bytes for one in open_ if one.owner.key == name]
            assert (memory.users[name].used_bytes if name in memory.users else 0) == sum(below)
        nodes = {id(node): node for one in open_ for node in (one, one.owner, *strangers_of(one))} | {0: memory}
        assert memory.over_count == sum(node.used_bytes > node.limit_bytes for node in nodes.values())
    for connection in open_:
        connection.close()
    assert not memory.amounts()
    assert not memory.users
    assert not memory.over_count


def strangers_of(connection):
    """Yield the account of all strangers if the connection belongs to one."""
    parent = connection.owner.owner
    if parent is not connection.process:
        yield parent
