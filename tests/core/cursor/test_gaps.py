"""Gaps: what was finished behind an open chunk."""

from hypothesis import given
from hypothesis import strategies as st

from miniqueue.core.cursor.lease import Gaps


def test_nothing_is_noted_when_nothing_before_is_open():
    assert Gaps({}).add(0, 10, head_seq=10) == {}


def test_what_finishes_behind_an_open_chunk_is_noted():
    gaps = Gaps({})
    assert gaps.add(10, 20, head_seq=0) == {10: 20}
    assert (gaps.end_of(10), gaps.end_of(20), gaps.end_of(0)) == (20, 20, 0)


def test_gaps_that_touch_become_one():
    gaps = Gaps({10: 20, 30: 40})
    assert gaps.add(20, 30, head_seq=0) == {30: None, 10: 40}
    assert gaps.end_of(10) == 40


def test_a_gap_goes_when_what_was_open_before_it_is_finished():
    gaps = Gaps({10: 20})
    assert gaps.add(0, 10, head_seq=20) == {10: None}
    assert gaps.end_of(10) == 10


def test_a_gap_that_grew_to_the_head_is_deleted_under_its_first_start():
    gaps = Gaps({})
    gaps.add(10, 20, head_seq=0)
    assert gaps.add(20, 30, head_seq=30) == {10: None}


@given(st.permutations(range(12)), st.integers(0, 12))
def test_the_stored_entries_say_what_is_finished_and_are_never_more_than_the_open_chunks(order, restart_at):
    """Chunk i holds the numbers 10i to 10i + 9; they finish in any order, with a restart in between."""
    gaps, stored, open_chunks = Gaps({}), {}, set(range(12))
    for step, number in enumerate(order):
        if step == restart_at:
            gaps = Gaps(dict(stored))
        open_chunks.remove(number)
        head_seq = 10 * min(open_chunks, default=12)
        for start, stop in gaps.add(10 * number, 10 * number + 10, head_seq).items():
            stored.pop(start, None)
            if stop is not None:
                stored[start] = stop
        covered = {seq for start, stop in stored.items() for seq in range(start, stop)}
        assert covered == {seq for seq in range(head_seq, 120) if seq // 10 not in open_chunks}
        assert covered == {seq for seq in range(head_seq, 120) if gaps.covers(seq)}
        assert gaps.runs() == sorted(stored.items())
        assert len(stored) <= len(open_chunks)
    assert stored == {}
