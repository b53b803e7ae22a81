"""Refusals name what does not exist, or the role that is missing."""

import pytest

from miniqueue.commands.shell.refusals import explained
from miniqueue_client import RefusedError

NO_TOPIC = RefusedError("NOTOPIC", "There is no such topic")
NO_GROUP = RefusedError("NOGROUP", "The topic has no such group")
NO_MESSAGE = RefusedError("NOMESSAGE", "There is no such message")
NO_SCHEDULE = RefusedError("NOSCHEDULE", "There is no such schedule")
NO_RIGHT = RefusedError("NOPERM", "ada may not")


@pytest.mark.parametrize(
    ("refused", "words", "rest"),
    [
        (NO_TOPIC, ("PEEK", "orders"), ": orders"),
        (NO_TOPIC, ("PEEK", "bücher".encode()), ": bücher"),
        (NO_TOPIC, ("GROUP", "HOLDERS", "orders", "audit"), ": orders"),
        (NO_TOPIC, ("STATS",), ""),
        (NO_GROUP, ("GROUP", "SEEK", "orders", "audit", "latest"), ": audit"),
        (NO_GROUP, ("GROUP", "HOLDERS", "orders", "au\ndit"), r": au\ndit"),
        (NO_GROUP, ("PEEK", "GROUP", "GROUP", "audit", "COUNT", 1), ": audit"),
        (NO_GROUP, ("LEASES", "orders"), ""),
        (NO_MESSAGE, ("MESSAGE", "DELETE", "orders", "0-17"), "; the id was 0-17"),
        (NO_MESSAGE, ("PEEK", "orders", "ID", "0-17", "GROUP", "audit"), "; the id was 0-17"),
        (NO_MESSAGE, ("SEARCH", "orders", "AFTER", "0-3-17"), "; the id was 0-3-17"),
        (NO_MESSAGE, ("TRACE", "orders", b"0-17"), "; the id was 0-17"),
        (NO_MESSAGE, ("TRACE", "orders"), ""),
        (NO_SCHEDULE, ("SCHEDULE", "FIRE", "nightly"), ": nightly"),
        (NO_SCHEDULE, ("SCHEDULE", "GET", "a\x1b"), r": a\x1b"),
        (NO_RIGHT, ("TRACE", "orders", "0-17"), "; it requires the role monitor on orders"),
        (NO_RIGHT, ("GROUP", "HOLDERS", "orders", "audit"), "; it requires the role monitor on *"),
        (NO_RIGHT, ("TASK", "LIST"), ""),
        (NO_RIGHT, ("what",), ""),
    ],
)
def test_a_refusal_names_what_is_missing(refused, words, rest):
    error = explained(refused, words)
    assert str(error) == f"the broker refused: {refused}{rest}"
    assert error.code == refused.code


def test_a_group_that_a_setting_forbids_is_named_once():
    refused = RefusedError("NOGROUP", "group audit: there is none, and using one does not make it; create it first")
    assert str(explained(refused, ("RECEIVE", "orders", "GROUP", "audit"))) == f"the broker refused: {refused}"
