"""The loaded head of a range: what it knows, what it forgets, and that nothing is lost or doubled in between."""

from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from miniqueue.core.cursor.window import Window


class Item(NamedTuple):
    size_bytes: int


ITEM = Item(10)


def window(*orders: int, max_bytes: int = 1000, resume_at: int | None = None) -> Window[Item]:
    made: Window[Item] = Window(max_bytes=max_bytes, resume_at=None)
    for order in orders:
        made.add(order, ITEM)
    if resume_at is not None:
        made.resume_at = resume_at
    return made


def taken_orders(window: Window[Item]) -> list[int]:
    return [window.take()[0] for _ in range(len(window))]


@pytest.mark.parametrize("orders", [(1, 2, 3), (3, 2, 1), (2, 3, 1), (1, 3, 2)])
def test_items_are_taken_in_order_however_they_were_added(orders):
    assert taken_orders(window(*orders)) == [1, 2, 3]


def test_the_first_item_from_an_order_on_is_loaded_or_beyond_what_is():
    some = window(1, 3, 5)
    assert [some.first_from(order) for order in (0, 3, 4, 6)] == [1, 3, 5, None]
    some.take()
    some.resume_at = 7
    assert [some.first_from(order) for order in (0, 6, 8)] == [3, 7, 8]


def test_size_follows_adding_and_taking():
    some = window(1, 2)
    assert some.size_bytes == 20
    some.take()
    assert some.size_bytes == 10


def test_an_empty_range_lacks_nothing_and_has_no_head():
    nothing = window()
    assert (nothing.is_lacking, nothing.wants_more, nothing.head, len(nothing)) == (False, False, None, 0)


def test_what_is_held_back_is_not_to_be_taken_nor_loaded():
    some = window(1, 5, resume_at=9)
    some.stop = 5
    assert some.has_next
    some.take()
    assert (some.has_next, some.is_lacking, some.head) == (False, False, 5)
    some.stop = 10
    assert some.has_next
    some.take()
    assert (some.has_next, some.is_lacking) == (False, True)
    some.stop = 9
    assert not some.is_lacking


def test_a_range_not_loaded_yet_is_lacking_and_its_head_is_a_lower_bound():
    unloaded = window(resume_at=7)
    assert (unloaded.is_lacking, unloaded.wants_more, unloaded.head) == (True, True, 7)


def test_adding_over_the_limit_drops_the_last_items_and_remembers_where():
    some = window(1, 2, 3, 4, max_bytes=30)
    assert (len(some), some.resume_at, some.size_bytes) == (3, 4, 30)
    some.add(0, ITEM)
    assert some.resume_at == 3
    assert taken_orders(some) == [0, 1, 2]


def test_one_item_stays_however_large():
    large: Window[Item] = Window(max_bytes=5, resume_at=None)
    large.add(1, Item(100))
    assert (len(large), large.resume_at) == (1, None)


def test_an_item_behind_what_is_loaded_is_left_to_the_store():
    some = window(1, resume_at=5)
    some.add(5, ITEM)
    some.add(9, ITEM)
    some.add(4, ITEM)
    assert taken_orders(some) == [1, 4]


def test_more_is_wanted_below_a_quarter_and_not_while_loading():
    some = window(1, 2, resume_at=5, max_bytes=80)
    assert not some.wants_more
    some.take()
    assert some.wants_more
    some.begin_load()
    assert not some.wants_more


def test_loading_merges_what_the_store_has():
    some = window(1, resume_at=5)
    assert some.begin_load() == 5
    some.load([(5, ITEM), (6, ITEM)], 9)
    assert some.resume_at == 9
    assert taken_orders(some) == [1, 5, 6]


def test_what_is_added_during_a_load_appears_once_whether_the_scan_saw_it_or_not():
    some = window(resume_at=5)
    some.begin_load()
    some.add(8, ITEM)
    some.add(7, ITEM)
    some.add(2, ITEM)
    some.load([(5, ITEM), (7, ITEM)], None)
    assert some.resume_at is None
    assert taken_orders(some) == [2, 5, 7, 8]


def test_what_is_added_during_a_load_behind_its_end_is_left_to_the_next():
    some = window(resume_at=5)
    some.begin_load()
    some.add(8, ITEM)
    some.load([(5, ITEM)], 6)
    assert taken_orders(some) == [5]
    assert some.begin_load() == 6


def test_a_load_is_void_when_something_was_dropped_meanwhile():
    some = window(1, 2, 3, resume_at=5)
    some.begin_load()
    some.evict()
    some.load([(5, ITEM)], None)
    assert taken_orders(some) == []
    assert some.begin_load() == 1


def test_a_load_over_the_limit_is_trimmed():
    some = window(resume_at=0, max_bytes=20)
    some.begin_load()
    some.load([(n, ITEM) for n in range(5)], None)
    assert (len(some), some.resume_at) == (2, 2)


def test_eviction_drops_everything_and_remembers_where():
    some = window(1, 2, 3)
    some.evict()
    assert (len(some), some.resume_at, some.size_bytes) == (0, 1, 0)
    some.evict()
    assert some.is_lacking
    window().evict()


def test_an_abandoned_load_leaves_the_window_as_it_was():
    some = window(1, resume_at=5)
    some.begin_load()
    some.add(7, ITEM)
    some.abandon_load()
    some.add(8, ITEM)
    assert some.wants_more
    assert some.begin_load() == 5
    some.load([], 6)
    assert taken_orders(some) == [1]


def test_a_taken_item_does_not_reappear_when_the_store_still_has_it():
    some = window(5)
    some.take()
    some.resume_at = 3
    some.begin_load()
    some.load([(3, ITEM), (5, ITEM)], None)
    assert taken_orders(some) == [3]


def test_an_item_settled_during_a_load_does_not_reappear_from_a_scan_that_saw_it():
    some = window(5)
    some.take()
    some.resume_at = 3
    some.begin_load()
    some.settle(5)
    some.load([(3, ITEM), (5, ITEM)], None)
    assert taken_orders(some) == [3]


def test_a_settled_order_is_forgotten():
    some = window(5)
    some.take()
    some.settle(5)
    assert some.taken == set()


class WindowMachine(RuleBasedStateMachine):
    """A window on a fake store, against the sorted list of what is there.

    Changes reach the store with `commit`; a load begins with one, and scans at any time before it ends.
    """

    def __init__(self) -> None:
        super().__init__()
        self.window: Window[Item] = Window(max_bytes=50, resume_at=None)
        self.store: set[int] = set()
        self.pending: dict[int, bool] = {}
        self.ready: set[int] = set()  # the model
        self.taken: set[int] = set()
        self.used: set[int] = set()
        self.load_start: int | None = None
        self.seen: list[int] | None = None

    @rule(order=st.integers(0, 200))
    def add(self, order):
        if order in self.used:
            return
        self.used.add(order)
        self.pending[order] = True
        self.ready.add(order)
        self.window.add(order, ITEM)

    @precondition(lambda self: len(self.window))
    @rule()
    def take(self):
        order, _ = self.window.take()
        assert order == min(self.ready)
        self.ready.remove(order)
        self.taken.add(order)

    @precondition(lambda self: self.taken)
    @rule(choice=st.integers(0, 10))
    def settle(self, choice):
        order = sorted(self.taken)[choice % len(self.taken)]
        self.taken.remove(order)
        self.pending[order] = False
        self.window.settle(order)

    @rule()
    def commit(self):
        for order, is_there in self.pending.items():
            (self.store.add if is_there else self.store.discard)(order)
        self.pending.clear()

    @precondition(lambda self: self.load_start is None and self.window.resume_at is not None)
    @rule()
    def begin_load(self):
        self.load_start = self.window.begin_load()
        self.commit()

    @precondition(lambda self: self.load_start is not None and self.seen is None)
    @rule()
    def scan(self):
        self.seen = sorted(order for order in self.store if order >= self.load_start)

    @precondition(lambda self: self.seen is not None)
    @rule(count=st.integers(1, 4))
    def load(self, count):
        page = self.seen[:count]
        is_cut = len(page) == count
        self.window.load([(order, ITEM) for order in page], page[-1] + 1 if is_cut else None)
        self.load_start = self.seen = None

    @precondition(lambda self: self.load_start is not None)
    @rule()
    def abandon_load(self):
        self.window.abandon_load()
        self.load_start = self.seen = None

    @rule()
    def evict(self):
        self.window.evict()

    @invariant()
    def agrees(self):
        loaded = [order for order, _ in self.window._items]
        assert self.window.taken == self.taken
        assert self.window.size_bytes == 10 * len(loaded)
        resume_at = self.window.resume_at
        assert loaded == sorted(order for order in self.ready if resume_at is None or order < resume_at)


WindowMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestWindowAgreesWithASortedList = pytest.mark.slow(WindowMachine.TestCase)


def test_items_are_forgotten_loaded_or_not_and_also_by_a_load_under_way():
    loaded = window(1, 2, 3, resume_at=10)
    began_at = loaded.begin_load()
    loaded.add(12, ITEM)
    loaded.forget({2, 11, 12, 99})
    assert loaded.size_bytes == 20
    loaded.load([(11, ITEM), (13, ITEM)], None)
    assert began_at == 10
    assert taken_orders(loaded) == [1, 3, 13]


def test_an_item_that_was_let_go_and_taken_again_is_not_there_a_second_time():
    some = window(1, 2, 3)
    some.take()
    some.let_go(1)
    some.give_back((), 0)  # all of it is loaded once more, even what another reader knows
    some.begin_load()
    some.load([(1, ITEM), (2, ITEM), (3, ITEM)], None)
    some.take_again(1)
    assert (some.size_bytes, some.taken) == (20, {1})
    assert taken_orders(some) == [2, 3]


def test_what_is_loaded_is_not_looked_through_for_an_item_in_front_of_it():
    some = window(1, 5, 7)
    some.take()
    some.let_go(1)
    loaded = some._items
    some.take_again(1)
    assert some._items is loaded  # or many that are due would take as long as all that are not, each
    assert taken_orders(some) == [5, 7]


def test_what_is_given_back_is_loaded_again_from_where_it_begins():
    some = window(1, 2, 3, 4)
    for _ in range(3):
        some.take()
    some.give_back((2, 3), 2)
    assert (some.size_bytes, some.taken, some.resume_at) == (0, {1}, 2)
    some.begin_load()
    some.load([(1, ITEM), (2, ITEM), (3, ITEM), (4, ITEM)], None)
    assert taken_orders(some) == [2, 3, 4]


def test_a_load_under_way_does_not_count_when_something_before_it_was_given_back():
    some = window(1, 2, resume_at=3)
    some.take()
    some.begin_load()
    some.give_back((1,), 1)
    some.load([(3, ITEM)], None)
    assert (some.resume_at, len(some)) == (1, 0)
