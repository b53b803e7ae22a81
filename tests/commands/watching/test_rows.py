"""The rows of `miniqueue top`, their order, and the pages."""

import pytest

from miniqueue.commands.watching.rows import ORDERS, dead_letter_topic, ranked
from miniqueue.commands.watching.view import View, page_count, pressed, within

ROWS = [
    {"topic": "b", "lag": 5, "oldest_seconds": None, "dead": 0},
    {"topic": "a", "lag": 5, "oldest_seconds": 3.5, "dead": None},
    {"topic": "c", "lag": 70, "oldest_seconds": 0.1, "dead": 2},
    {"topic": "d"},
]


@pytest.mark.parametrize(
    ("order", "is_reversed", "topics"),
    [
        ("lag", False, "cabd"),
        ("lag", True, "abcd"),
        ("topic", False, "abcd"),
        ("topic", True, "dcba"),
        ("oldest", False, "acbd"),
        ("dead", False, "cbad"),
    ],
)
def test_rows_are_ranked_and_what_is_not_known_comes_last(order, is_reversed, topics):
    assert "".join(row["topic"] for row in ranked(ROWS, order, is_reversed=is_reversed)) == topics


def test_the_topic_of_dead_letters_is_a_setting():
    assert dead_letter_topic("a", None) == "a.dlq"
    assert dead_letter_topic("a", {"dead_letter_topic": "default"}) == "a.dlq"
    assert dead_letter_topic("a", {"dead_letter_topic": "letters"}) == "letters"


def test_keys_choose_the_order_and_the_page():
    view = View()
    assert pressed(view, "t") == View("topic")
    assert pressed(View("topic", page=3), "t") == View("topic", is_reversed=True)
    assert pressed(View("topic", is_reversed=True), "l") == View("lag")
    assert pressed(view, "n") == pressed(view, "\x1b[B") == View(page=1)
    assert pressed(View(page=1), "p") == View(page=0)
    assert pressed(view, "p") == view
    assert pressed(view, "x") == view
    assert pressed(view, "q") is None


def test_every_order_has_a_key():
    assert {view.order for key in "ltdaio" if (view := pressed(View("none"), key))} == set(ORDERS)


def test_pages_end_with_the_rows():
    assert [page_count(count, 10) for count in (0, 1, 10, 11)] == [1, 1, 1, 2]
    assert within(View(page=9), 2) == View(page=1)
