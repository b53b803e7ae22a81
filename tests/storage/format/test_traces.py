"""Traces: columns are stored and read as they were gathered, and runs are cut where their blocks end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniqueue.core.cursor.recording import Kind
from miniqueue.storage.format import traces
from miniqueue.storage.format.trace_keys import BLOCK_MESSAGES
from tests.storage.format.test_values import GOLDEN

NOW_MS = 1_700_000_000_000


class Somebody:
    """Who is spelled only when it is stored."""

    def __bytes__(self) -> bytes:
        return b"resp"


def stored(*rows, now_ms: int = NOW_MS):
    """Return the events that are read of what is stored, by block."""
    events = {}
    for block, value in traces.encode_rows(rows, now_ms):
        trace = traces.decode_trace(value)
        assert trace.committed_at_ms == now_ms
        events.setdefault(block, []).extend(map(tuple, trace.events))
    return events


def test_the_bytes_of_a_trace():
    rows = [
        (Kind.DELIVERED, 2049, 4, NOW_MS - 10, b"default", Somebody(), 5),
        (Kind.ACKNOWLEDGED, 2049, 2, NOW_MS, b"default", b"", 0),
    ]
    ((block, value),) = traces.encode_rows(rows, NOW_MS)
    assert (block, value.hex()) == (1, GOLDEN["trace"][1])


def test_the_bytes_of_a_trace_of_one_event():
    row = (Kind.DELIVERED, 2049, 4, NOW_MS - 10, b"default", Somebody(), 5)
    ((block, value),) = traces.encode_rows([row], NOW_MS)
    assert (block, value.hex()) == (
        1,
        "010068e5cf8b0100000100000002000401080000000000000400f667e5cf8b01000000000100050000000000000007000400646566617"
        "56c74726573708d81fd46",
    )


def test_a_run_is_cut_where_its_block_ends():
    start = BLOCK_MESSAGES - 2
    events = stored((Kind.DELIVERED, start, BLOCK_MESSAGES + 3, NOW_MS, b"g", b"a", 100))
    assert {block: [(row[1], row[2], row[6]) for row in rows] for block, rows in events.items()} == {
        0: [(start, 2, 100)],
        1: [(BLOCK_MESSAGES, BLOCK_MESSAGES, 102)],
        2: [(2 * BLOCK_MESSAGES, 1, 102 + BLOCK_MESSAGES)],
    }


def test_many_events_are_more_than_one_value(monkeypatch):
    monkeypatch.setattr(traces, "MAX_EVENTS", 2)
    rows = [(Kind.NACKED, seq, 1, NOW_MS, b"g", b"", 0) for seq in (1, 3, 5, 7, 9)]
    assert len(list(traces.encode_rows(rows, NOW_MS))) == 3
    assert [row[1] for row in stored(*rows)[0]] == [1, 3, 5, 7, 9]


def test_a_long_text_is_cut():
    ((_, *_, who, _),) = stored((Kind.REJECTED, 1, 1, NOW_MS, b"g", b"x" * 5000, 0))[0]
    assert who == b"x" * traces.MAX_TEXT_BYTES


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
    expected = sorted((row[0], seq) for row in rows for seq in (row[1], row[1] + row[2] - 1))
    events = [row for of_block in stored(*rows).values() for row in of_block]
    told = {(kind, seq) for kind, start, count, *_ in events for seq in (start, start + count - 1)}
    assert set(expected) <= told
    assert sum(row[2] for row in events) == sum(row[2] for row in rows)


@pytest.mark.parametrize(("kinds", "begins"), [([Kind.PUBLISHED], True), ([Kind.NACKED, Kind.DUE], True), ([4], False)])
def test_it_can_be_told_when_it_was_and_whether_messages_begin_in_it(kinds, begins):
    rows = [(kind, 1, 1, NOW_MS, b"", b"", 0) for kind in kinds]
    ((_, value),) = traces.encode_rows(rows, NOW_MS)
    assert traces.decode_age(value) == (NOW_MS, begins)
