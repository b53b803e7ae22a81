from miniqueue.core.cursor import returning
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.state import CursorState
from miniqueue.core.group.turns import LaneTurns, PartitionTurns, by_priority, turns_among
from miniqueue.core.message.lanes import Priority, lane
from miniqueue.core.message.message import Chunk

HIGH, NORMAL, LOW = b"h", b"n", b"l"


def cursor_with(word: bytes, count: int) -> GroupCursor:
    cursor = GroupCursor(CursorState(), 0, {}, is_new=True)
    if count:
        cursor.append(Chunk(0, 1, [word] * count))
    return cursor


def lanes(high: int, normal: int, low: int) -> LaneTurns:
    counts = zip((HIGH, NORMAL, LOW), (high, normal, low), strict=True)
    return LaneTurns([PartitionTurns([cursor_with(*one)]) for one in counts])


def taken(turns: LaneTurns, max_count: int = 1) -> bytes:
    words = []
    while (one := turns.take(max_count, 0)) is not None:
        words += one[1].payloads
    return b"".join(words)


def test_a_lane_goes_before_all_that_are_lower():
    assert taken(lanes(5, 5, 5)) == b"hhhhhnnnnnlllll"
    assert taken(lanes(0, 2, 3), 100) == b"nnlll"


def test_one_of_32_is_low_while_it_waits_and_one_is_normal():
    for max_count in (1, 7, 1000):
        words = taken(lanes(200, 5, 5), max_count)
        assert words[:32] == b"h" * 30 + b"nl"
        assert all({*words[start : start + 32]} >= {*b"nl"} for start in range(32 * 3))


def test_what_comes_later_does_not_go_first_for_that_others_went_before_it():
    high, normal, low = cursor_with(HIGH, 40), cursor_with(NORMAL, 0), cursor_with(LOW, 0)
    turns = LaneTurns([PartitionTurns([cursor]) for cursor in (high, normal, low)])
    taken(turns)
    low.append(Chunk(0, 2, [LOW]))
    high.append(Chunk(40, 2, [HIGH]))
    assert taken(turns) == b"hl"


def test_what_must_be_loaded_is_waited_for():
    lacking = GroupCursor(CursorState(), 3, {})
    turns = LaneTurns([PartitionTurns([lacking]), PartitionTurns([cursor_with(NORMAL, 1)])])
    assert turns.take(1, 0) is None
    assert lacking.blocked_on is not None


def test_what_comes_back_goes_to_the_front_of_its_own_lane():
    turns = lanes(2, 2, 0)
    cursor, lease = turns.take(1, 0)
    returning.nack(cursor, lease)
    assert taken(turns) == b"hhnn"


def test_a_lane_may_have_many_partitions():
    high, normal = [cursor_with(HIGH, 2), cursor_with(HIGH, 1)], [cursor_with(NORMAL, 1), cursor_with(NORMAL, 2)]
    assert taken(LaneTurns([PartitionTurns(high), PartitionTurns(normal)])) == b"hhhnnn"


def test_cursors_are_grouped_by_priority_and_sorted_by_partition_in_it():
    numbers = [lane(number, priority) for priority in Priority for number in range(3)]
    cursors = [GroupCursor(CursorState(), 0, {}, is_new=True, partition=number) for number in numbers]
    found = by_priority(sorted(cursors, key=lambda cursor: cursor.partition * 7 % 11))
    assert found == [cursors[0:3], cursors[3:6], cursors[6:9]]
    assert by_priority(cursors[6:] + cursors[:3]) == [cursors[0:3], cursors[6:9]]
    assert isinstance(turns_among(cursors[:3]), PartitionTurns)
    assert isinstance(turns_among(cursors), LaneTurns)
    assert turns_among(()).take(1, 0) is None
