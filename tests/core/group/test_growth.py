"""Which logs wait for which when partitions are added."""

from math import inf

import pytest

from miniqueue.core.cursor import returning
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.recording import Kind
from miniqueue.core.cursor.state import CursorState
from miniqueue.core.group.growth import Growth, OldFirst
from miniqueue.core.message.message import Chunk


def cursors_of(*counts: int) -> list[GroupCursor]:
    """Return one cursor for each partition, with so many messages, a chunk each."""
    made = [GroupCursor(CursorState(), 0, {}, is_new=True, partition=number) for number in range(len(counts))]
    for cursor, count in zip(made, counts, strict=True):
        for seq in range(count):
            cursor.append(Chunk(seq, 1, [b"x"]))
    return made


@pytest.mark.parametrize(
    ("before", "now", "held"),
    [(2, 4, {2, 3}), (1, 3, {1, 2}), (2, 3, {0, 1, 2}), (4, 6, {0, 1, 2, 3, 4, 5}), (2, 6, {2, 3, 4, 5})],
)
def test_a_partition_waits_for_those_with_the_same_rest(before, now, held):
    cursors = cursors_of(*[2] * now)
    old = OldFirst([Growth(before, dict.fromkeys(range(before), 1))], now, cursors, is_ordered=False)
    assert old.held == held


def test_it_goes_on_when_these_are_settled_and_not_before():
    cursors = cursors_of(1, 1, 1, 1)
    old = OldFirst([Growth(2, {0: 1, 1: 1})], 4, cursors, is_ordered=False)
    assert cursors[2].take(1, 0) is None
    lease = cursors[0].take(1, 0)
    assert not old.look()
    returning.nack(cursors[0], lease)
    assert not old.look()
    cursors[0].ack(cursors[0].take(1, 0))
    assert old.look()
    assert old.held == {3}
    assert cursors[2].take(1, 0) is not None
    cursors[1].ack(cursors[1].take(1, 0))
    assert old.look()
    assert old.is_over


@pytest.mark.parametrize("is_ordered", [False, True])
def test_what_is_delayed_is_waited_for_where_keys_are_ordered(is_ordered):
    cursors = cursors_of(1, 1)
    old = OldFirst([Growth(1, {0: 1})], 2, cursors, is_ordered=is_ordered)
    returning.dack(cursors[0], cursors[0].take(1, 0), 1000)
    assert old.look() is not is_ordered


def test_what_is_newer_and_came_back_is_in_nobodys_way():
    cursors = cursors_of(2, 1)
    old = OldFirst([Growth(1, {0: 1})], 2, cursors, is_ordered=True)
    cursors[0].ack(cursors[0].take(1, 0))
    returning.dack(cursors[0], cursors[0].take(1, 0), 1000)
    assert old.look()
    assert old.is_over


def test_nothing_is_held_back_any_more_at_the_end():
    cursors = cursors_of(1, 1)
    old = OldFirst([Growth(1, {0: 1})], 2, cursors, is_ordered=True)
    assert cursors[1].take(1, 0) is None
    old.end()
    assert cursors[1].take(1, 0) is not None


def test_of_two_growths_the_first_stop_counts():
    cursors = cursors_of(3, 3, 3, 3)
    growths = [Growth(1, {0: 1}), Growth(2, {0: 2, 1: 2})]
    old = OldFirst(growths, 4, cursors, is_ordered=True)
    assert [cursor.log.stop for cursor in cursors] == [inf, 0, 0, 0]
    cursors[0].ack(cursors[0].take(1, 0))
    assert old.look()
    assert [cursor.log.stop for cursor in cursors] == [inf, inf, 0, 0]


def test_what_was_dropped_before_it_was_read_is_in_nobodys_way():
    cursors = cursors_of(1, 1)
    old = OldFirst([Growth(1, {0: 1})], 2, cursors, is_ordered=True)
    cursors[0].drop(cursors[0].take(1, 0), Kind.PURGED)
    assert old.look()
    assert cursors[1].take(1, 0) is not None


def test_what_is_not_committed_is_waited_for():
    cursors = cursors_of(0, 1)
    old = OldFirst([Growth(1, {0: 1})], 2, cursors, is_ordered=True)
    assert not old.look()
    cursors[0].append(Chunk(0, 1, [b"x"]))
    assert not old.look()
    cursors[0].ack(cursors[0].take(1, 0))
    assert old.look()


def test_it_is_known_whether_another_would_hold_back_the_same():
    cursors, growths = cursors_of(1, 1), [Growth(1, {0: 1})]
    old = OldFirst(growths, 2, cursors, is_ordered=True)
    assert old.is_for(growths, 2, cursors, is_ordered=True)
    assert not old.is_for(growths, 2, cursors, is_ordered=False)
    assert not old.is_for(growths, 2, list(cursors), is_ordered=True)
    growths.append(Growth(2, {0: 1}))
    assert not old.is_for(growths, 2, cursors, is_ordered=True)
    assert not old.is_for(growths[:1], 3, cursors, is_ordered=True)
