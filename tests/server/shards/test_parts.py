"""What both protocols do alike with the parts of a spread topic."""

import asyncio

from miniqueue.broker.inspect.peek import MAX_BYTES
from miniqueue.server.shards.parts.paging import Page, PartPage, Wanted, page_of
from miniqueue.server.shards.parts.starts import begin_in_parts


def page(parts, answers, count, scan=100):
    """Return a page of parts with these answers, texts for errors, and what they were asked."""
    asked = []

    async def ask(number, wanted):
        asked.append((number, wanted))
        return answers[number]

    def page_in(answer):
        return None if isinstance(answer, str) else answer

    return asyncio.run(page_of(parts, ask, page_in, lambda error: error == "absent", count, scan)), asked


def test_a_part_is_asked_for_what_those_before_it_did_not_have():
    answers = {1: PartPage("b", 4, 10, scanned=30), 2: PartPage("c", 6, 10, scanned=1), 3: PartPage("d", 1, 10)}
    result, asked = page(range(1, 4), answers, 10)
    assert result == Page(["b", "c"], None, 31, b"%d-0-0" % (3 << 10))
    assert asked == [(1, Wanted(10, 100, is_first=True)), (2, Wanted(6, 70, is_first=False))]


def test_a_page_is_as_large_as_that_of_one_topic():
    result, asked = page(range(2), {0: PartPage("a", 1, MAX_BYTES), 1: PartPage("b", 1, 1)}, 10)
    assert result.contents == ["a"]
    assert len(asked) == 1


def test_a_search_continues_in_the_part_in_which_it_stopped():
    result, _ = page(range(2), {0: PartPage("a", 1, 10, 100, b"0-0-9"), 1: PartPage("b", 1, 1)}, 10)
    assert result == Page(["a"], None, 100, b"0-0-9")


def test_a_part_that_has_nothing_is_left_out_unless_none_has():
    assert page(range(2), {0: "absent", 1: PartPage("b", 1, 1)}, 10)[0] == Page(["b"])
    assert page(range(2), {0: "absent", 1: "absent"}, 10)[0] == Page([], "absent")


def test_any_other_error_of_a_part_is_that_of_the_page():
    assert page(range(2), {0: PartPage("a", 1, 1), 1: "broken"}, 10)[0] == Page([], "broken")


def begin(start, *, committed_at_ms=None, refusing=()):
    """Return the answers of three parts that begin at a start; each is its number and its start."""

    async def commit_time_of(number, partition, seq):
        assert (number, partition, seq) == (1, b"1024", b"5")
        return committed_at_ms

    async def ask(number, own_start):
        return (number, own_start)

    return asyncio.run(begin_in_parts(start, 3, commit_time_of, ask, lambda answer: answer[0] in refusing))


def test_a_group_begins_in_all_parts_at_the_commit_time_of_a_message():
    assert begin(b"1024-5", committed_at_ms=77) == [(0, b"77"), (1, b"1024-5"), (2, b"77")]
    assert begin(b"1024-5") == [(0, b"latest"), (1, b"1024-5"), (2, b"latest")]


def test_a_group_begins_at_a_message_of_each_part_or_with_the_earliest():
    assert begin(b"1024-5,2048-7") == [(0, b"earliest"), (1, b"1024-5"), (2, b"2048-7")]


def test_the_part_that_can_refuse_an_id_is_asked_first_and_alone():
    assert begin(b"1024-5", refusing=(1,)) == [(1, b"1024-5")]
    assert begin(b"latest", refusing=(1,)) == [(0, b"latest"), (1, b"latest"), (2, b"latest")]
