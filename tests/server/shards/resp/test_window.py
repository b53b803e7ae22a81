"""The window of a stream over parts: no more than are wanted, none twice, and the oldest of each part first."""

import random

import pytest

from miniqueue.server.shards.links.window import Window, shares


@pytest.mark.parametrize("part_count", [1, 2, 3, 8, 64])
@pytest.mark.parametrize("prefetch", [1, 2, 3, 7, 8, 9, 100, 10_000])
def test_the_shares_of_a_prefetch_are_even_and_make_it_up(prefetch, part_count):
    each = shares(prefetch, part_count)
    assert len(each) == part_count
    assert max(each) - min(each) <= 1
    assert sum(each) == max(prefetch, part_count)
    assert min(each) >= 1


@pytest.mark.parametrize("seed", range(20))
def test_a_client_never_has_more_messages_than_it_wants_and_gets_all(seed):
    chance = random.Random(seed)
    part_count, size, rounds = chance.randint(1, 6), chance.randint(1, 6), 40
    window, left = Window(size), [rounds] * part_count
    held: dict[bytes, int] = {}  # what the client has, with its part
    given = [0] * part_count  # how many messages a part has given that are not settled
    delivered: list[bytes] = []

    def take() -> None:
        for message in window.take():
            held[message] = int(message.split(b":")[0])
            delivered.append(message)
        assert len(held) <= size
        assert window.receipts == [*held]

    while any(left) or held:
        free = [part for part in range(part_count) if left[part] and not given[part]]
        if free and (not held or chance.random() < 0.6):
            part = chance.choice(free)
            message = b"%d:%d" % (part, rounds - left[part])
            left[part] -= 1
            given[part] += 1
            window.add(part, message, message)
        else:
            settled = chance.choice([*held])
            given[held.pop(settled)] -= 1
            window.remove(settled)
        take()
    of_parts = [[message for message in delivered if message.startswith(b"%d:" % part)] for part in range(part_count)]
    assert of_parts == [[b"%d:%d" % (part, number) for number in range(rounds)] for part in range(part_count)]


def test_a_message_whose_lease_has_expired_makes_room_for_the_next_one_of_its_part():
    window = Window(1)
    window.add(0, b"1", b"a")
    assert window.take() == [b"a"]
    window.add(1, b"2", b"b")
    assert window.take() == []
    window.add(1, b"3", b"c")  # in place of the former, which was never delivered
    window.add(0, b"4", b"d")
    assert window.take() == [b"c"]
    window.remove(b"1")  # it is known no more
    assert window.take() == []
    window.remove(b"3")
    assert window.take() == [b"d"]
