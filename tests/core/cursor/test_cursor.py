"""The group cursor: every state and act, the order of what comes back, and that a restart changes none of it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miniqueue.core.cursor import cursor as limits
from miniqueue.core.cursor import returning
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import Range
from miniqueue.core.cursor.state import CursorState
from miniqueue.core.message.message import Counts, Record
from miniqueue.errors import NothingOutstandingError
from tests.core.cursor.stored_cursor import StoredCursor

ACTS = {
    "ack": lambda cursor, lease: cursor.ack(lease),
    "nack": returning.nack,
    "disconnect": lambda cursor, lease: returning.nack(cursor, lease, "disconnects"),
    "back": returning.back,
    "dack": lambda cursor, lease: returning.dack(cursor, lease, 100),
}


def stored(*chunks: bytes) -> StoredCursor:
    """Return a cursor on chunks of one-byte messages."""
    made = StoredCursor()
    for chunk in chunks:
        made.publish(*(bytes([byte]) for byte in chunk))
    return made


def has_changes(cursor: GroupCursor) -> bool:
    """Return whether the next commit has something to write of a cursor."""
    changes = cursor.changes
    return bool(changes.records or changes.touched or changes.finished or changes.gaps)


def joined(payloads: list[bytes]) -> bytes:
    return b"".join(payloads)


# --- handing out ----------------------------------------------------------------------------------------------


def test_nothing_comes_from_an_empty_log():
    cursor = StoredCursor().cursor
    assert cursor.take(1, 0) is None
    assert cursor.blocked_on is None


def test_messages_come_in_the_order_of_their_publishing():
    assert stored(b"abc", b"d", b"ef").take_all() == [b"a", b"b", b"c", b"d", b"e", b"f"]


def test_a_run_ends_with_its_chunk():
    some = stored(b"abc", b"de")
    assert [some.take(2).payloads for _ in range(3)] == [[b"a", b"b"], [b"c"], [b"d", b"e"]]
    assert some.cursor.leased_count == 5


def test_every_delivery_has_its_own_receipt():
    some = stored(b"ab")
    first = some.take()
    returning.nack(some.cursor, first)
    assert len({first.receipt, some.take().receipt, some.take().receipt}) == 3


def test_a_returned_message_is_handed_out_alone():
    some = stored(b"abc")
    returning.nack(some.cursor, some.take(2))
    assert some.take(9).payloads == [b"a"]


# --- every way to come back ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("act", "order", "count"),
    [
        ("ack", b"bcd", "none"),
        ("nack", b"abcd", "nacks"),
        ("disconnect", b"abcd", "disconnects"),
        ("back", b"bcda", "backs"),
        ("dack", b"bcd", "dacks"),
    ],
)
@pytest.mark.parametrize("restarts", [False, True])
def test_where_a_message_goes(act, order, count, restarts):
    some = stored(b"ab", b"cd")
    ACTS[act](some.cursor, some.take())
    if restarts:
        some.commit()
        some.restart()
    assert joined(some.take_all(horizon_ms=99)) == order
    assert joined(some.take_all(horizon_ms=100)) == (b"a" if act == "dack" else b"")


@pytest.mark.parametrize("act", sorted(ACTS))
@pytest.mark.parametrize("place", ["log", "front", "back", "delayed"])
def test_every_act_from_every_place_counts_and_moves_the_message(place, act):
    some = stored(b"a")
    before = {"log": None, "front": "nack", "back": "back", "delayed": "dack"}[place]
    if before:
        ACTS[before](some.cursor, some.take())
    ACTS[act](some.cursor, some.take(1, 100))
    some.commit()
    expected_range = {"nack": Range.FRONT, "disconnect": Range.FRONT, "back": Range.BACK, "dack": Range.DELAYED}
    assert [key[0] for key in some.records] == ([expected_range[act]] if act != "ack" else [])
    assert some.chunks == {}
    assert some.cursor.depth == (act != "ack")
    assert (some.cursor.leased_count, some.cursor.waiting_delayed_count) == (0, act == "dack")
    if act != "ack":
        counts = Counts().plus(before + "s") if before else Counts()
        assert some.take(1, 100).counts == counts.plus(act + "s")


class Wait:
    """A policy by which everything that comes back waits for a time."""

    def dead_letter(self, _cursor: GroupCursor, record: Record) -> bool:
        return False

    def due_at_ms(self, record: Record, cause: str) -> int:
        return 100


def test_a_return_that_waits_by_policy_counts_once():
    some = stored(b"abc")
    some.cursor.policy = Wait()
    for _ in range(3):
        returning.nack(some.cursor, some.take(1, 0))
    assert (some.cursor.state.serial, some.cursor.delayed_count) == (3, 3)
    assert [some.take(1, 100).payloads for _ in range(3)] == [[b"a"], [b"b"], [b"c"]]


def test_the_newest_return_to_the_front_comes_first():
    some = stored(b"abc")
    leases = [some.take() for _ in range(3)]
    for lease in leases:
        returning.nack(some.cursor, lease)
    assert joined(some.take_all()) == b"cba"


@pytest.mark.parametrize(("act", "order"), [("nack", b"abcd"), ("disconnect", b"abcd"), ("back", b"dabc")])
def test_a_run_comes_back_in_its_own_order(act, order):
    some = stored(b"abcd")
    ACTS[act](some.cursor, some.take(3))
    assert joined(some.take_all()) == order


def test_a_run_of_delayed_messages_comes_back_in_its_own_order():
    some = stored(b"abcd")
    returning.dack(some.cursor, some.take(3), 10)
    assert some.cursor.waiting_delayed_count == 3
    assert joined(some.take_all(10)) == b"abcd"


def test_delayed_messages_are_never_early_and_come_in_due_order():
    some = stored(b"abcde")
    for due_at_ms in (30, 10, 20, 10):
        returning.dack(some.cursor, some.take(), due_at_ms)
    assert joined(some.take_all(9)) == b"e"
    assert joined(some.take_all(10)) == b"bd"  # first in, first out among equals
    assert joined(some.take_all(19)) == b""
    assert joined(some.take_all(40)) == b"ca"


def test_due_messages_come_before_the_log_and_after_the_front():
    some = stored(b"abc")
    first, second = some.take(), some.take()
    returning.dack(some.cursor, first, 10)
    returning.nack(some.cursor, second)
    assert joined(some.take_all(10)) == b"bac"


def test_back_is_behind_all_that_was_published_before_and_ahead_of_what_comes_after():
    some = stored(b"ab", b"c")
    returning.back(some.cursor, some.take())
    some.publish(b"d")
    assert joined(some.take_all()) == b"bcad"


def test_back_is_first_in_first_out():
    some = stored(b"abc")
    returning.back(some.cursor, some.take())
    returning.back(some.cursor, some.take())
    assert joined(some.take_all()) == b"cab"


def test_back_waits_for_messages_that_were_taken_but_not_yet_settled_no_longer_than_reading_does():
    some = stored(b"ab")
    first, second = some.take(), some.take()
    returning.back(some.cursor, first)
    assert some.take().payloads == [b"a"]
    some.cursor.ack(second)


# --- settling once ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("again", sorted(ACTS))
@pytest.mark.parametrize("first", sorted(ACTS))
def test_a_lease_is_settled_once(first, again):
    some = stored(b"ab")
    lease = some.take()
    ACTS[first](some.cursor, lease)
    with pytest.raises(NothingOutstandingError):
        ACTS[again](some.cursor, lease)
    assert some.cursor.leased_count == 0


@pytest.mark.parametrize("act", sorted(ACTS))
def test_a_revoked_lease_settles_nothing(act):
    some = stored(b"a")
    lease = some.take()
    some.cursor.revoke_all()
    with pytest.raises(NothingOutstandingError):
        ACTS[act](some.cursor, lease)
    assert not has_changes(some.cursor)


def test_a_lease_of_another_cursor_with_the_same_receipt_settles_nothing():
    one, other = stored(b"a"), stored(b"b")
    foreign, own = other.take(), one.take()
    assert foreign.receipt == own.receipt
    with pytest.raises(NothingOutstandingError):
        one.cursor.ack(foreign)


# --- counts, and what a commit writes ---------------------------------------------------------------------------


def test_counts_of_what_is_ready_leased_and_delayed():
    some = stored(b"abcd")
    some.cursor.ack(some.take())
    returning.dack(some.cursor, some.take(), 10)
    some.take()
    assert (some.cursor.depth, some.cursor.leased_count, some.cursor.waiting_delayed_count) == (3, 1, 1)
    some.take(1, 10)
    assert (some.cursor.depth, some.cursor.leased_count, some.cursor.waiting_delayed_count) == (3, 2, 0)


def test_nothing_is_to_be_written_for_a_delivery():
    some = stored(b"ab")
    some.take()
    assert not has_changes(some.cursor)


def test_a_partly_settled_chunk_writes_its_bits_and_a_finished_one_goes():
    some = stored(b"abc")
    leases = [some.take() for _ in range(3)]
    some.cursor.ack(leases[1])
    some.commit()
    assert some.bitmaps == {0: 0b010}
    some.cursor.ack(leases[0])
    returning.nack(some.cursor, leases[2])
    some.commit()
    assert (some.bitmaps, some.chunks, len(some.records)) == ({}, {}, 1)


def test_only_the_last_return_between_two_commits_is_written():
    some = StoredCursor()
    some.publish(b"a", b"b")
    for _ in range(3):
        returning.nack(some.cursor, some.take())
    assert [record.counts.nacks for record in some.cursor.changes.records.values()] == [3]
    some.commit()
    for _ in range(2):
        returning.nack(some.cursor, some.take())
    assert sorted(record.counts.nacks if record else 0 for record in some.cursor.changes.records.values()) == [0, 5]
    some.commit()
    assert [record.counts.nacks for record in some.records.values()] == [5]


def test_a_return_settled_before_the_commit_leaves_only_the_bit_of_its_chunk():
    some = StoredCursor()
    some.publish(b"a", b"b")
    returning.nack(some.cursor, some.take())
    some.cursor.ack(some.take())
    assert (some.cursor.changes.records, [*some.cursor.changes.touched]) == ({}, [0])
    some.commit()
    some.restart()
    assert some.take().payloads == [b"b"]
    assert some.take() is None


def test_finishing_in_order_notes_no_gap():
    some = stored(b"a", b"b")
    some.take_all()
    assert some.cursor.changes.gaps == {}


def test_has_finished():
    some = stored(b"a", b"b")
    lease = some.take()
    assert not some.cursor.has_finished(0)
    some.cursor.ack(lease)
    assert (some.cursor.has_finished(0), some.cursor.has_finished(1)) == (True, False)


def test_state_keeps_the_oldest_open_chunk():
    some = stored(b"a", b"b", b"c")
    straggler = some.take()
    some.cursor.ack(some.take())
    assert some.cursor.state._replace(gone_bytes=0, log_bytes=0) == CursorState(acked_count=1, head_seq=0)
    some.cursor.ack(straggler)
    assert some.cursor.state._replace(gone_bytes=0, log_bytes=0) == CursorState(acked_count=2, head_seq=2)


# --- memory --------------------------------------------------------------------------------------------------------


def test_an_evicted_cursor_keeps_nothing_and_loads_it_again():
    some = stored(*(b"%c" % byte for byte in b"abcdefgh"))
    some.cursor.evict()
    assert some.cursor.size_bytes == 0
    assert joined(some.take_all()) == b"abcdefgh"


def test_windows_larger_than_their_limit_lose_nothing(monkeypatch):
    monkeypatch.setattr(limits, "RECORD_WINDOW_BYTES", 300)
    monkeypatch.setattr(limits, "LOG_WINDOW_BYTES", 100)
    some = stored(*(b"%c" % byte for byte in b"abcdefghij"))
    leases = [some.take() for _ in range(9)]
    for lease in leases[:3]:
        returning.nack(some.cursor, lease)
    for lease in leases[3:6]:
        returning.dack(some.cursor, lease, 10)
    for lease in leases[6:]:
        returning.back(some.cursor, lease)
    assert joined(some.take_all(10)) == b"cbadefjghi"


# --- restart -------------------------------------------------------------------------------------------------------


def test_what_was_leased_comes_again_at_its_place():
    some = stored(b"abc", b"de")
    leases = [some.take() for _ in range(4)]
    some.cursor.ack(leases[1])
    some.commit()
    some.restart()
    assert joined(some.take_all()) == b"acde"


def test_a_straggler_before_finished_chunks_comes_again_and_they_do_not():
    some = stored(b"a", b"b", b"c", b"d", b"e")
    leases = [some.take() for _ in range(4)]
    some.cursor.ack(leases[1])
    some.cursor.ack(leases[3])
    some.commit()
    assert some.gaps == {1: 2, 3: 4}
    some.restart()
    assert joined(some.take_all()) == b"ace"
    some.commit()
    assert (some.gaps, some.chunks, some.state.head_seq) == ({}, {}, 5)


def test_back_is_due_when_reading_has_passed_a_gap_at_the_end_of_the_log():
    some = stored(b"a", b"b", b"c")
    leases = [some.take() for _ in range(3)]
    some.cursor.ack(leases[1])
    returning.back(some.cursor, leases[2])
    some.commit()
    some.restart()
    assert joined(some.take_all()) == b"ac"


def test_orders_of_returns_are_not_used_again_after_a_restart():
    some = stored(b"ab")
    returning.nack(some.cursor, some.take())
    some.commit()
    some.restart()
    first, second = some.take(), some.take()
    returning.nack(some.cursor, second)
    some.commit()
    assert len(some.records) == 2
    some.cursor.ack(first)
    assert joined(some.take_all()) == b"b"


STEP = st.one_of(
    st.tuples(st.just("publish"), st.integers(1, 3)),
    st.tuples(st.just("take"), st.integers(1, 2)),
    st.tuples(st.sampled_from(sorted(ACTS)), st.integers(0, 5)),
    st.just(("commit", 0)),
    st.just(("evict", 0)),
    st.just(("tick", 0)),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(STEP, max_size=40))
def test_a_restart_gives_exactly_the_unsettled_messages_in_the_order_of_their_places(steps):
    some, unsettled, leases, published, horizon_ms = StoredCursor(), set(), [], 0, 0
    for name, number in steps:
        match name:
            case "publish":
                payloads = [b"%d" % n for n in range(published, published + number)]
                published += number
                unsettled |= set(payloads)
                some.publish(*payloads)
            case "take":
                lease = some.take(number, horizon_ms)
                leases += [lease] if lease else []
            case "commit":
                some.commit()
            case "evict":
                some.cursor.evict()
            case "tick":
                horizon_ms += 60
            case "dack" if leases:
                returning.dack(some.cursor, leases.pop(number % len(leases)), horizon_ms + 1 + 30 * number)
            case _ if leases:
                lease = leases.pop(number % len(leases))
                unsettled -= set(lease.payloads) if name == "ack" else set()
                ACTS[name](some.cursor, lease)
    assert some.cursor.depth == len(unsettled)
    some.commit()
    some.restart()
    assert some.cursor.depth == len(unsettled)
    expected = _in_order_of_places(some)
    assert some.take_all(1 << 40) == expected
    assert set(expected) == unsettled
    some.commit()
    assert (some.chunks, some.records, some.bitmaps, some.gaps) == ({}, {}, {}, {})
    assert some.cursor.waiting_delayed_count == 0


def _in_order_of_places(some: StoredCursor) -> list[bytes]:
    """Return what is stored in the order in which it must come: front, due, then the log with the back in it."""
    returned = {place: sorted((o, r.payload) for (p, o), r in some.records.items() if p is place) for place in Range}
    log = [
        ((chunk.first_seq + i) << 64 | 1 << 63, payload)
        for chunk in some.chunks.values()
        for i, payload in enumerate(chunk.payloads)
        if not some.bitmaps.get(chunk.first_seq, 0) >> i & 1
    ]
    merged = sorted(log + returned[Range.BACK])
    return [payload for _, payload in [*returned[Range.FRONT], *returned[Range.DELAYED], *merged]]
