from miniqueue.core.cursor import returning
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.state import CursorState
from miniqueue.core.group.turns import MAX_POLLED, CursorsInTurn, PartitionTurns
from miniqueue.core.message.message import Chunk


def cursor_with(word: bytes, count: int) -> GroupCursor:
    cursor = GroupCursor(CursorState(), 0, {}, is_new=True)
    if count:
        cursor.append(Chunk(0, 1, [word] * count))
    return cursor


def taken(turns: PartitionTurns, max_count: int = 1, horizon_ms: int = 0) -> bytes:
    words = []
    while (one := turns.take(max_count, horizon_ms)) is not None:
        words += one[1].payloads
    return b"".join(words)


def test_partitions_have_one_turn_after_the_other():
    turns = PartitionTurns([cursor_with(b"a", 3), cursor_with(b"b", 1), cursor_with(b"c", 2)])
    assert taken(turns) == b"abcaca"
    assert turns.take(1, 0) is None


def test_a_turn_is_a_run():
    assert taken(PartitionTurns([cursor_with(b"a", 4), cursor_with(b"b", 4)]), 2) == b"aabbaabb"


def test_what_comes_to_an_idle_partition_is_found_among_many():
    cursors = [cursor_with(b"", 0) for _ in range(1000)]
    turns = PartitionTurns(cursors)
    assert turns.take(1, 0) is None
    for number in (999, 0, 500):
        cursors[number].append(Chunk(0, 1, [b"%d" % number]))
        cursor, lease = turns.take(1, 0)
        assert (cursor, lease.payloads) == (cursors[number], [b"%d" % number])


def test_a_busy_partition_does_not_keep_others_waiting():
    cursors = [cursor_with(b"a", 10_000), *[cursor_with(b"", 0) for _ in range(100)]]
    turns = PartitionTurns(cursors)
    assert turns.take(1, 0)[0] is cursors[0]
    cursors[77].append(Chunk(0, 1, [b"b"]))
    assert b"b" in b"".join(turns.take(1, 0)[1].payloads[0] for _ in range(100 // MAX_POLLED + 2))


def test_what_must_be_loaded_of_one_does_not_hold_up_the_others():
    lacking = GroupCursor(CursorState(), 3, {})
    turns = PartitionTurns([lacking, cursor_with(b"a", 2)])
    assert turns.take(1, 0)[1].payloads == [b"a"]
    assert taken(turns) == b"a"
    assert turns.is_blocked
    assert lacking.blocked_on is not None


def test_what_comes_back_goes_to_the_front_of_its_own_partition():
    turns = PartitionTurns([cursor_with(b"a", 1), cursor_with(b"b", 1)])
    cursor, lease = turns.take(1, 0)
    returning.nack(cursor, lease)
    assert taken(turns) == b"ba"


def test_what_is_delayed_is_taken_when_it_is_due():
    turns = PartitionTurns([cursor_with(b"a", 1), cursor_with(b"b", 0)])
    cursor, lease = turns.take(1, 0)
    returning.dack(cursor, lease, 5)
    assert taken(turns, horizon_ms=4) == b""
    assert taken(turns, horizon_ms=5) == b"a"


def test_all_cursors_are_looked_at_for_who_waits_otherwise_some_in_turn():
    cursors, waiters = [cursor_with(b"", 0) for _ in range(3 * MAX_POLLED)], []
    looks = CursorsInTurn(cursors, waiters)
    assert [*looks, *looks, *looks] == cursors
    assert len([*CursorsInTurn(cursors[:2], waiters)]) == 2
    waiters.append("a waiter")
    assert [*looks] == cursors
