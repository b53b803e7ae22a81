"""What comes back together: in its order, whatever becomes of each message."""

import pytest

from miniqueue.core.cursor import returning
from miniqueue.core.cursor.cursor import FRONT_START, GroupCursor
from miniqueue.core.cursor.lease import Range
from miniqueue.core.message.message import Record
from tests.core.cursor.stored_cursor import StoredCursor


class Fates:
    """A policy by which some messages die, and some wait until a time."""

    def __init__(self, dying: bytes = b"", waiting: dict[bytes, int] | None = None) -> None:
        self.dead: list[bytes] = []
        self._dying = dying
        self._waiting = waiting or {}

    def dead_letter(self, _cursor: GroupCursor, record: Record) -> bool:
        if record.payload not in self._dying:
            return False
        self.dead.append(record.payload)
        return True

    def due_at_ms(self, record: Record, cause: str) -> int | None:
        return self._waiting.get(record.payload)


def held(*chunks: bytes) -> tuple[StoredCursor, list]:
    """Return a cursor all of whose messages are held, with the leases, one for each chunk."""
    made = StoredCursor()
    for chunk in chunks:
        made.publish(*(b"%c" % byte for byte in chunk))
    return made, [(made.cursor, made.take(len(chunk))) for chunk in chunks]


def test_leases_that_come_back_together_are_in_their_order_at_the_front():
    some, (one, two, three) = held(b"ab", b"c", b"de")
    assert returning.nack_all([three, one, two]) == 5
    some.publish(b"f")
    assert b"".join(some.take_all()) == b"deabcf"


def test_leases_that_came_back_before_do_too():
    some, leases = held(b"a", b"b", b"c")
    for _ in range(3):
        returning.nack_all(leases)
        leases = [(some.cursor, some.take()) for _ in leases]
        assert b"".join(lease.payloads[0] for _, lease in leases) == b"abc"


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("cause", ["nacks", "timeouts", "disconnects", ""])
def test_each_keeps_its_order_where_it_goes(cause, restarts):
    some, leases = held(b"abcd", b"efg", b"hi")
    some.cursor.policy = fates = Fates(b"ceh", {b"b": 20, b"d": 10, b"f": 10, b"i": 10})
    assert returning.nack_all(leases, cause) == 9
    assert b"".join(fates.dead) == b"ceh"
    some.commit()
    if restarts:
        some.restart()
    assert b"".join(some.take_all(0)) == b"ag"
    assert b"".join(some.take_all(10)) == b"dfi"
    assert b"".join(some.take_all(20)) == b"b"
    some.commit()
    assert (some.cursor.depth, some.records, some.chunks) == (0, {}, {})


def test_a_delay_that_is_given_takes_precedence():
    some, ((_, lease),) = held(b"abc")
    some.cursor.policy = fates = Fates(b"b", {b"a": 20})
    returning.dack(some.cursor, lease, 10, "nacks", b"why")
    assert b"".join(fates.dead) == b"b"
    assert b"".join(some.take_all(9)) == b""
    assert b"".join(some.take_all(10)) == b"ac"


@pytest.mark.parametrize("act", [returning.nack, returning.back])
def test_a_lease_does_too(act):
    some, ((_, lease),) = held(b"abcdef")
    some.cursor.policy = fates = Fates(b"bd", {b"a": 20, b"f": 20})
    act(some.cursor, lease)
    assert b"".join(fates.dead) == b"bd"
    assert b"".join(some.take_all(19)) == b"ce"
    assert b"".join(some.take_all(20)) == b"af"


def test_no_two_returns_have_the_same_number():
    some, leases = held(b"abc", b"de")
    some.cursor.policy = Fates(b"b", {b"c": 10, b"d": 10})
    returning.nack_all(leases)
    orders = [order for _, order in some.cursor.changes.records]
    serials = [abs(order - (FRONT_START if order >> 100 else 10 << 64)) for order in orders]
    assert len(set(serials)) == 4
    assert max(serials) <= some.cursor.state.serial == 5


def test_a_lease_that_is_over_does_not_keep_the_others_from_coming_back():
    some, (one, two, three) = held(b"a", b"b", b"c")
    some.cursor.ack(two[1])
    assert returning.nack_all([one, two, three]) == 2
    some.commit()
    assert [key[0] for key in some.records] == [Range.FRONT] * 2
    assert b"".join(some.take_all()) == b"ac"


@pytest.mark.parametrize("restarts", [False, True])
def test_parts_that_come_back_one_after_the_other_keep_their_order_too(restarts):
    some, (one, two, three) = held(b"abc", b"de", b"f")
    places = returning.FrontPlaces(6)
    assert returning.nack_all([two], places=places) == 2
    assert some.take().payloads == [b"d"]
    some.commit()
    returning.nack(*three)
    assert returning.nack_all([one], places=places) == 3
    some.commit()
    if restarts:
        some.restart()
        assert b"".join(some.take_all()) == b"fdeabc"
    else:
        assert b"".join(some.take_all()) == b"feabc"


def test_parts_of_several_partitions_are_in_order_in_each():
    (some, leases), (others, more) = held(b"a", b"b", b"c"), held(b"x", b"y", b"z")
    places = returning.FrontPlaces(6)
    for pair in zip(leases, more, strict=True):
        returning.nack_all(pair, places=places)
    assert (b"".join(some.take_all()), b"".join(others.take_all())) == (b"abc", b"xyz")
