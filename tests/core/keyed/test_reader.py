"""Messages by their keys: one at a time in order, in turns, within limits."""

from dataclasses import replace

import pytest

from miniqueue.core.cursor import returning
from miniqueue.core.cursor.holding import split
from miniqueue.core.cursor.lease import Range
from miniqueue.core.group import view
from miniqueue.core.keyed import log_index, returns_index
from miniqueue.core.keyed.key_queue import KeyRules
from miniqueue.core.keyed.reader import LateReader, arrange, arrange_all, keyed_of
from miniqueue.core.message.attributes import Attributes, key_of
from tests.core.keyed.stored_keys import FAIR, ORDERED, StoredKeys


def stored(*chunks: str, rules: KeyRules | None = ORDERED) -> StoredKeys:
    some = StoredKeys(rules)
    for keys in chunks:
        some.publish_keys(keys)
    return some


def nexts(some: StoredKeys, count: int, horizon_ms: int = 0) -> list[str | None]:
    return [some.next(horizon_ms) for _ in range(count)]


# --- keys -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attributes", "key"),
    [
        (Attributes(), b""),
        (Attributes(key=b"k"), b"k"),
        (Attributes(headers=((b"a", b"b"), (b"c", b"d"))), b""),
        (Attributes(headers=((b"a", b"b"), (b"c", b"d")), key=b"k" * 300, dedup_id=b"x"), b"k" * 300),
        (Attributes(dedup_id=b"x"), b""),
    ],
)
def test_the_key_is_found_among_the_attributes(attributes, key):
    assert key_of(attributes.encode()) == key


# --- order ------------------------------------------------------------------------------------------------------


def test_a_key_has_one_message_out_and_others_go_on():
    some = stored("aab", "ab")
    assert nexts(some, 3) == ["a0", "b2", None]


def test_the_next_of_a_key_comes_when_the_one_before_is_settled():
    some = stored("aaa")
    for payload in (b"a0", b"a1", b"a2"):
        lease = some.take(10)
        assert lease.payloads == [payload]
        assert some.take(10) is None
        some.cursor.ack(lease)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("way", ["nack", "back", "disconnects", "timeouts"])
def test_what_came_back_comes_before_what_follows_it(way, restarts):
    some = stored("ab", "ab", "a")
    lease = some.take()
    if way == "back":
        returning.back(some.cursor, lease)
    else:
        returning.nack(some.cursor, lease, "nacks" if way == "nack" else way)
    if restarts:
        some.commit()
        some.restart()
    assert sorted(nexts(some, 2)) == ["a0", "b1"]
    assert some.next() is None


@pytest.mark.parametrize("restarts", [False, True])
def test_what_waits_for_its_time_is_in_the_way_of_its_key(restarts):
    some = stored("ab", "ab", "a")
    returning.dack(some.cursor, some.take(), 100)
    if restarts:
        some.commit()
        some.restart()
    assert nexts(some, 2, horizon_ms=99) == ["b1", None]
    assert nexts(some, 2, horizon_ms=100) == ["a0", None]


def test_what_waits_for_its_time_is_in_the_way_after_the_clock_was_set_back():
    some = stored("aa")
    assert some.next(1000) == "a0"
    returning.dack(some.cursor, next(iter(some.cursor.leases.values())), 500)
    assert nexts(some, 2, horizon_ms=400) == [None, None]
    assert some.next(500) == "a0"


def test_messages_without_a_key_are_not_ordered():
    some = stored("AAA")
    first, second = some.take(), some.take()
    returning.dack(some.cursor, first, 100)
    some.cursor.ack(second)
    assert nexts(some, 2, 99) == ["A2", None]
    assert some.next(100) == "A0"


def test_a_message_given_up_is_not_in_the_way():
    some = stored("aa")
    some.cursor.drop(some.take())
    assert some.next() == "a1"


def test_order_holds_beyond_what_is_looked_at(monkeypatch):
    monkeypatch.setattr(log_index, "MAX_AHEAD_BYTES", 1)
    some = stored("ab", "ab", "ab")
    held = some.take()
    assert nexts(some, 3) == ["b1", "b3", None] or nexts(some, 1)  # a chunk at a time is looked at
    returning.nack(some.cursor, held)
    assert some.next() == "a0"


def test_keys_that_may_not_go_on_and_fill_what_is_looked_at_hold_others_back_until_they_do(monkeypatch):
    monkeypatch.setattr(log_index, "MAX_AHEAD_BYTES", 100)
    some = stored("a", "aaa", "b", "c")
    for payload in (b"a0", b"a1", b"a2"):
        lease = some.take()
        assert lease.payloads == [payload]
        assert some.take() is None
        some.cursor.ack(lease)
    assert nexts(some, 4) == ["a3", "b4", "c5", None]


def test_messages_of_many_keys_come_as_one_lease():
    some = stored("abcAab")
    assert some.next(max_count=10) == "a0 b1 c2 A3"
    assert some.next(max_count=10) is None


# --- turns ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rules", [ORDERED, FAIR], ids=["ordered", "fair"])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_key_with_many_messages_delays_no_other_by_more_than_one(rules, restarts):
    some = stored("a" * 500, "A", "a" * 500, "b", rules=rules)
    if restarts:
        some.restart()
    came = []
    for _ in range(3):
        lease = some.take()
        came += lease.payloads
        some.cursor.ack(lease)
    assert came == [b"a0", b"A500", b"b1001"]


def test_a_key_that_is_new_has_its_turn_behind_the_others():
    some = stored("aaa", "bbb", rules=FAIR)
    assert nexts(some, 3) == ["a0", "b3", "a1"]
    some.publish_keys("c")
    assert nexts(some, 3) == ["b4", "a2", "c6"]


def test_what_came_back_has_the_turn_of_its_key():
    some = stored("aab", rules=FAIR)
    lease = some.take()
    returning.nack(some.cursor, lease)
    assert nexts(some, 4) == ["b2", "a0", "a1", None]


def test_delayed_messages_let_others_of_their_key_go_where_keys_are_not_ordered():
    some = stored("aa", rules=FAIR)
    returning.dack(some.cursor, some.take(), 100)
    assert nexts(some, 2, 99) == ["a1", None]
    assert some.next(100) == "a0"


def test_back_is_behind_what_was_there_of_its_key():
    some = stored("aab", rules=FAIR)
    returning.back(some.cursor, some.take())
    some.publish_keys("a")
    assert nexts(some, 4) == ["b2", "a1", "a0", "a3"]


# --- limits -----------------------------------------------------------------------------------------------------


def test_a_key_has_no_more_leases_than_it_may():
    some = stored("aaaab", rules=replace(FAIR, max_leased=2))
    leases = [some.take() for _ in range(3)]
    assert [lease.payloads[0] for lease in leases] == [b"a0", b"b4", b"a1"]
    assert some.take() is None
    some.cursor.ack(leases[0])
    assert nexts(some, 2) == ["a2", None]


def test_a_key_goes_no_faster_than_it_may():
    some = stored("aaabbb", rules=replace(FAIR, per_second=2))
    some.at_time(10)
    assert nexts(some, 3) == ["a0", "b3", None]
    assert some.cursor.keyed.turns.opens_at == pytest.approx(10.4)
    some.at_time(10.3)
    assert some.next() is None
    some.at_time(10.5)
    assert nexts(some, 3) == ["a1", "b4", None]


def test_a_key_does_not_lose_its_pace_when_it_is_empty():
    some = stored("a", rules=replace(FAIR, per_second=1))
    some.cursor.ack(some.take())
    some.publish_keys("a")
    assert some.next() is None
    some.at_time(1)
    assert some.next() == "a1"
    some.at_time(100)
    assert some.next() is None
    assert some.cursor.keyed.turns.queues == {}


# --- changing the rules -------------------------------------------------------------------------------------------


def test_leases_in_flight_block_their_keys_when_order_begins():
    some = stored("aab", "ab", rules=None)
    first, second = some.take(1), some.take(1)
    some.arrange(ORDERED)
    assert nexts(some, 2) == ["b2", None]
    some.cursor.ack(second)
    assert some.next() is None
    returning.nack(some.cursor, first)
    assert some.next() == "a0"


def test_all_comes_when_order_ends():
    some = stored("aab", "aab", "A")
    held = some.take(5)
    returning.dack(some.cursor, split(some.cursor, held, held.receipt, held.receipt + 1)[0], 50)
    some.arrange(None)
    assert sorted(nexts(some, 6, 50)) == sorted(["a0", "a1", "b2", "a3", "a4", "b5"])
    assert some.next(50) == "A6"
    assert some.cursor.keyed is None


def test_the_same_rules_change_nothing():
    some = stored("a")
    reader = some.cursor.keyed
    arrange(some.cursor, replace(ORDERED))
    assert some.cursor.keyed is reader
    arrange(some.cursor, FAIR)
    assert some.cursor.keyed is not reader


def test_a_reader_begins_with_its_first_take_and_counts_leases_before_it():
    some = stored("aab", "ab", rules=None)
    first = some.take(1)
    some.arrange_late(ORDERED)
    assert keyed_of(some.cursor) is None
    assert nexts(some, 2) == ["b2", None]
    some.cursor.ack(first)
    assert some.next() == "a1"


def test_a_cursor_without_a_reader_has_none_after_the_rules_end():
    some = stored("aab", rules=None)
    some.arrange_late(ORDERED)
    some.arrange_late(None)
    assert some.cursor.keyed is None
    assert some.next(max_count=3) == "a0 a1 b2"


def test_only_readers_at_work_are_replaced_at_once():
    some, idle = stored("ab", rules=None), stored("a", rules=None)
    for each in (some, idle):
        each.arrange_late(ORDERED)
        each.next()
    idle.cursor.ack(next(iter(idle.cursor.leases.values())))
    reader = some.cursor.keyed
    late = LateReader(FAIR)
    arrange_all([some.cursor, idle.cursor], late)
    assert idle.cursor.keyed is late
    assert keyed_of(some.cursor) not in (None, reader)
    arrange_all([some.cursor], LateReader(replace(FAIR)))
    assert keyed_of(some.cursor).rules == FAIR


def test_a_late_reader_begins_at_the_time_of_its_group():
    some = stored("aa", rules=None)
    late = LateReader(replace(FAIR, per_second=1))
    late.now = 1000.0
    arrange_all([some.cursor], late)
    assert nexts(some, 2) == ["a0", None]
    assert some.cursor.keyed.turns.opens_at > 1000


# --- memory -------------------------------------------------------------------------------------------------------


def test_eviction_gives_back_what_nobody_holds_and_loses_nothing():
    some = stored("ab", "ab", "cd")
    some.cursor.ack(some.take())
    assert some.cursor.size_bytes > 0
    some.commit()
    some.cursor.evict()
    assert some.cursor.size_bytes == 0
    assert some.cursor.keyed.turns.index_bytes == 0
    assert nexts(some, 5) == ["b1", "a2", "c4", "d5", None]


def test_payloads_of_what_came_back_are_loaded_when_their_turn_comes(monkeypatch):
    monkeypatch.setattr(returns_index, "MAX_RETURNED_BYTES", 130)
    some = stored("abcd")
    lease = some.take(4)
    assert lease.count == 4
    returning.nack(some.cursor, lease)
    some.restart()
    some.publish_keys("e")
    assert sorted(nexts(some, 5)) == ["a0", "b1", "c2", "d3", "e4"]


# --- looking ------------------------------------------------------------------------------------------------------


def test_a_look_finds_what_waits_behind_others():
    some = stored("aabA", "a")
    some.take(), some.take()
    cursor = some.cursor
    assert view.ready_seq(cursor) == 0
    assert list(view.ready_in(cursor, some.chunks[0], 0)) == [1, 3]
    assert list(view.ready_in(cursor, some.chunks[4], 0)) == [0]
    assert view.may_have_next(cursor, 0)


def test_a_look_finds_what_came_back():
    some = stored("ab")
    returning.nack(some.cursor, some.take())
    some.commit()
    assert not view.is_empty(some.cursor, Range.FRONT)
    assert some.next() == "b1"  # a0 is known now, and is not leased
    ((_, order),) = some.records
    assert view.is_waiting(some.cursor, Range.FRONT, order)
    assert not view.is_empty(some.cursor, Range.FRONT)
    assert some.next() == "a0"
    assert not view.is_waiting(some.cursor, Range.FRONT, order)
