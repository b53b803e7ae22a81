"""Traces: columns are stored and read as they were gathered, and runs are cut where their blocks end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniqueue.core.tracing import Gathered, Kind
from miniqueue.storage import trace_records
from miniqueue.storage.trace_keys import BLOCK_MESSAGES
from tests.storage.test_records import GOLDEN

NOW_MS = 1_700_000_000_000


class Somebody:
    """Who is spelled only when it is stored."""

    def __bytes__(self) -> bytes:
        return b"resp"


def gathered(*rows) -> Gathered:
    found = Gathered()
    for *row, number in rows:
        found.add(*row, number=number)
    return found


def stored(found: Gathered, now_ms: int = NOW_MS):
    """Return the events that are read of what is stored, by block."""
    events = {}
    for block, value in trace_records.encode_gathered(found, now_ms):
        trace = trace_records.decode_trace(block, value)
        assert trace.committed_at_ms == now_ms
        events.setdefault(block, []).extend(map(tuple, trace.events))
    return events


def test_the_bytes_of_a_trace():
    who = Somebody()
    found = gathered(
        (Kind.DELIVERED, 2049, 3, NOW_MS - 10, b"default", who, 5),
        (Kind.DELIVERED, 2052, 1, NOW_MS - 5, b"default", who, 8),
        (Kind.ACKNOWLEDGED, 2049, 2, NOW_MS, b"default", b"", 0),
    )
    ((block, value),) = trace_records.encode_gathered(found, NOW_MS)
    assert (block, value.hex()) == (1, GOLDEN["trace"][1])


def test_a_run_goes_on_only_with_what_follows_it():
    found = gathered(
        (Kind.DELIVERED, 1, 1, 7, b"g", b"a", 1),
        (Kind.DELIVERED, 2, 1, 7, b"g", b"a", 2),
        (Kind.DELIVERED, 3, 1, 7, b"g", b"a", 9),  # another receipt
        (Kind.DELIVERED, 4, 1, 7, b"g", b"b", 10),  # another consumer
        (Kind.DELIVERED, 6, 1, 7, b"g", b"a", 10),  # not the next message
        (Kind.DELIVERED, 7, 2, 7, b"h", b"a", 11),  # another group
    )
    assert [row[1:3] for row in stored(found, 7)[0]] == [(1, 2), (3, 1), (4, 1), (6, 1), (7, 2)]


def test_a_run_is_cut_where_its_block_ends():
    start = BLOCK_MESSAGES - 2
    events = stored(gathered((Kind.DELIVERED, start, BLOCK_MESSAGES + 3, NOW_MS, b"g", b"a", 100)))
    assert {block: [(row[1], row[2], row[6]) for row in rows] for block, rows in events.items()} == {
        0: [(start, 2, 100)],
        1: [(BLOCK_MESSAGES, BLOCK_MESSAGES, 102)],
        2: [(2 * BLOCK_MESSAGES, 1, 102 + BLOCK_MESSAGES)],
    }


def test_many_events_are_more_than_one_value(monkeypatch):
    monkeypatch.setattr(trace_records, "MAX_EVENTS", 2)
    found = gathered(*[(Kind.NACKED, seq, 1, NOW_MS, b"g", b"", 0) for seq in (1, 3, 5, 7, 9)])
    assert len(list(trace_records.encode_gathered(found, NOW_MS))) == 3
    assert [row[1] for row in stored(found)[0]] == [1, 3, 5, 7, 9]


def test_a_long_text_is_cut():
    ((_, *_, who, _),) = stored(gathered((Kind.REJECTED, 1, 1, NOW_MS, b"g", b"x" * 5000, 0)))[0]
    assert who == b"x" * trace_records.MAX_TEXT_BYTES


@pytest.mark.parametrize(("at_ms", "told_ms"), [(NOW_MS + 5, NOW_MS), (0, NOW_MS - 0xFFFFFFFF)])
def test_a_clock_that_was_set_makes_times_that_can_be_told(at_ms, told_ms):
    assert [row[3] for row in stored(gathered((Kind.NACKED, 1, 1, at_ms, b"g", b"", 0)))[0]] == [told_ms]


ROWS = st.tuples(
    st.sampled_from(Kind),
    st.integers(0, 3 * BLOCK_MESSAGES),
    st.integers(1, BLOCK_MESSAGES),
    st.integers(NOW_MS - 1000, NOW_MS),
    st.sampled_from([b"", b"g"]),
    st.sampled_from([b"", b"g", b"w"]),
    st.integers(0, 2**63),
)


@given(st.lists(ROWS, min_size=1, max_size=20))
def test_every_message_has_what_happened_to_it(rows):
    found = Gathered()
    for row in rows:
        found.append(row)
    expected = sorted((row[0], seq) for row in rows for seq in (row[1], row[1] + row[2] - 1))
    events = [row for of_block in stored(found).values() for row in of_block]
    told = {(kind, seq) for kind, start, count, *_ in events for seq in (start, start + count - 1)}
    assert set(expected) <= told
    assert sum(row[2] for row in events) == sum(row[2] for row in rows)


@pytest.mark.parametrize(("kinds", "begins"), [([Kind.PUBLISHED], True), ([Kind.NACKED, Kind.DUE], True), ([4], False)])
def test_it_can_be_told_when_it_was_and_whether_messages_begin_in_it(kinds, begins):
    found = gathered(*[(kind, 1, 1, NOW_MS, b"", b"", 0) for kind in kinds])
    ((_, value),) = trace_records.encode_gathered(found, NOW_MS)
    assert trace_records.decode_age(value) == (NOW_MS, begins)
