"""Leases by receipt and by deadline, against a plain dict of messages."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miniqueue.core.cursor.lease_book import LeaseBook
from miniqueue.core.cursor.receipts import parse_prefixed, which
from tests.core.cursor.stored_cursor import StoredCursor


class Shop:
    """A cursor with messages 0, 1, 2 …, and a book of what was taken from it."""

    def __init__(self, message_count: int = 20, prefix: bytes = b"p-") -> None:
        self.stored = StoredCursor()
        self.stored.publish(*[b"%d" % n for n in range(message_count)])
        self.book = LeaseBook(prefix)

    def lease(self, count: int, deadline: float) -> range:
        """Lease the next messages; return their receipts."""
        lease = self.stored.take(count)
        self.book.add(self.stored.cursor, lease, deadline)
        return range(lease.receipt, lease.receipt + lease.count)


def payloads(leases) -> list[bytes]:
    return [payload for _, lease in leases for payload in lease.payloads]


def test_what_is_named_is_given_up_and_nothing_else():
    shop = Shop()
    shop.lease(10, deadline=1)
    assert payloads(shop.book.take([3, 4, 99, 1, 0, 4])) == [b"2", b"3", b"0"]
    assert shop.book.count == 7
    assert payloads(shop.book.take(range(1, 11))) == [b"1", b"4", b"5", b"6", b"7", b"8", b"9"]
    assert shop.book.count == 0


def test_a_lease_is_over_at_its_deadline_and_not_before():
    shop = Shop()
    shop.lease(2, deadline=10.0)
    shop.lease(2, deadline=5.0)
    assert shop.book.expire(4.999, 100) == []
    assert payloads(shop.book.expire(5.0, 100)) == [b"2", b"3"]
    assert payloads(shop.book.expire(1e9, 100)) == [b"0", b"1"]
    assert shop.book.count == 0


def test_what_was_cut_off_keeps_its_deadline():
    shop = Shop()
    shop.lease(5, deadline=10.0)
    shop.book.take([3])
    assert payloads(shop.book.expire(10.0, 100)) == [b"0", b"1", b"3", b"4"]


@pytest.mark.parametrize("deadline", [2.0, 30.0])
def test_a_deadline_can_be_put_off_or_brought_forward(deadline):
    shop = Shop()
    shop.lease(5, deadline=10.0)
    assert payloads(shop.book.extend([2, 3, 77], deadline)) == [b"1", b"2"]
    first, second = ([b"1", b"2"], [b"0", b"3", b"4"])[:: 1 if deadline < 10 else -1]
    assert payloads(shop.book.expire(min(10.0, deadline), 100)) == first
    assert payloads(shop.book.expire(30.0, 100)) == second


def test_those_over_are_given_up_in_parts_the_oldest_first():
    shop = Shop()
    for deadline in (3, 1, 2):
        shop.lease(2, deadline)
    assert payloads(shop.book.expire(9, 3)) == [b"2", b"3", b"4"]
    assert payloads(shop.book.expire(9, 3)) == [b"0", b"1", b"5"]


def test_leases_are_found_and_stay():
    shop = Shop()
    for count in (5, 1, 4):
        shop.lease(count, deadline=1)
    assert shop.book.find_runs(range(1, 11), 10) == ([(1, 5), (6, 1), (7, 4)], 3, 0)
    assert shop.book.find_runs([9, 2, 3, 77, 2], 10) == ([(9, 1), (2, 2), (2, 1)], 4, 3)
    assert shop.book.find_runs(range(1, 11, 2), 2).seen_count == 3
    assert LeaseBook(b"p-").find_runs([4, 2, 9, 7], 2).seen_count == 3
    assert payloads(shop.book.take(range(1, 11))) == [b"%d" % number for number in range(10)]


def test_extending_for_ever_does_not_pile_up():
    shop = Shop()
    shop.lease(1, deadline=1)
    for n in range(1000):
        shop.book.extend([1], 2.0 + n)
    assert len(shop.book._deadlines) < 100
    assert len(shop.book._starts) < 100


STEP = st.one_of(
    st.tuples(st.just("lease"), st.integers(1, 6), st.integers(0, 9)),
    st.tuples(st.sampled_from(["take", "extend"]), st.lists(st.integers(0, 40), max_size=8), st.integers(0, 9)),
    st.tuples(st.just("range"), st.integers(1, 30), st.integers(1, 12)),
    st.tuples(st.just("expire"), st.integers(0, 9), st.integers(1, 6)),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(STEP, max_size=25))
def test_whatever_happens_it_is_a_dict_of_messages(steps):
    shop, model = Shop(40), {}
    for act, first, second in steps:
        match act:
            case "lease":
                if shop.stored.cursor.next_receipt + first <= 40:
                    model |= dict.fromkeys(shop.lease(first, second), second)
            case "take" | "range":
                names = first if act == "take" else range(first, first + second)
                runs, _, _ = shop.book.find_runs(names, 1000)
                found = [receipt for first, count in runs for receipt in range(first, first + count)]
                assert found == [receipt for receipt in names if receipt in model]
                wanted = [receipt for receipt in dict.fromkeys(names) if receipt in model]
                assert payloads(shop.book.take(names)) == [b"%d" % (receipt - 1) for receipt in wanted]
                for receipt in wanted:
                    del model[receipt]
            case "extend":
                model |= {receipt: second for receipt in first if receipt in model}
                shop.book.extend(first, second)
            case "expire":
                over = {receipt for receipt, deadline in model.items() if deadline <= first}
                expired = [receipt for _, lease in shop.book.expire(first, 1000) for receipt in
                           range(lease.receipt, lease.receipt + lease.count)]  # fmt: skip
                assert expired == sorted(over)
                for receipt in over:
                    del model[receipt]
        assert shop.book.count == len(model)


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        ([], []),
        ([b"p-1"], [1]),
        ([b"p-1", b"q-2", b"p-", b"p-x", b"p-01", b"p--1", b"", b"1", b"p-" + b"9" * 20], [1, 0, 0, 0, 0, 0, 0, 0, 0]),
        ([b"p-%d" % n for n in range(95, 1105)], range(95, 1105)),
        ([b"p-%d" % n for n in [*range(95, 110), 300]], [*range(95, 110), 300]),
        ([b"p-1"] + [b"q-%d" % n for n in range(2, 12)], [1] + [0] * 10),
        ([b"p-\xb2"], [0]),
        ([b"p-3", b"p-01"], [3, 0]),
        ([b"p-3", b"p-"], [3, 0]),
        ([b"p-30", b"p-" + b"9" * 20], [30, 0]),
    ],
)
def test_receipts_are_read_behind_their_prefix(words, numbers):
    assert parse_prefixed(words, b"p-") == numbers


def test_which_of_the_receipts_were_found():
    assert which([5, 6, 7], [(5, 3)]) == [True] * 3
    assert which([9, 5, 6, 5, 7], [(5, 2), (7, 1)]) == [False, True, True, False, True]
    assert which([1, 2], []) == [False, False]
