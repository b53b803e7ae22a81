"""The topics of a request for messages of several: which names and patterns are valid, and what fits them."""

import pytest

from miniqueue.core.options.topic_choice import MAX_TOPICS, TopicChoice, parse_choice
from miniqueue.errors import InvalidTopicError
from miniqueue.errors.requests import InvalidOptionError

EXISTING = sorted(
    [b"a", b"jobs", b"jobs.", b"jobs.eu", b"jobs.us", b"jobs/".replace(b"/", b"0"), "jobs.é".encode(), b"z"]
)


def test_names_and_patterns_are_kept_once():
    assert parse_choice([b"b", b"a", b"b"], [b"jobs.*", b"jobs.*"]) == TopicChoice((b"b", b"a"), (b"jobs.",))


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ([b"jobs.*"], [b"jobs.", b"jobs.eu", b"jobs.us", "jobs.é".encode()]),
        ([b"*"], EXISTING),
        ([b"x*"], []),
        ([b"z*", b"a*"], [b"z", b"a"]),
        ([b"jobs.e*", b"jobs.*"], [b"jobs.eu", b"jobs.", b"jobs.us", "jobs.é".encode()]),
    ],
)
def test_what_fits_the_patterns(patterns, expected):
    choice = parse_choice([], patterns)
    assert choice.among(EXISTING) == expected
    assert [name for name in EXISTING if choice.fits(name)] == sorted(expected)


def test_a_name_fits_only_itself():
    choice = parse_choice([b"jobs"], [])
    assert [choice.fits(name) for name in (b"jobs", b"jobs.eu", b"job")] == [True, False, False]
    assert choice.among(EXISTING) == []


@pytest.mark.parametrize(
    ("names", "patterns", "error"),
    [
        ([], [], InvalidOptionError),
        ([b"a b"], [], InvalidTopicError),
        ([b""], [], InvalidTopicError),
        ([], [b"a b*"], InvalidTopicError),
        ([], [b"jobs"], InvalidOptionError),
        ([], [b"*.dlq"], InvalidOptionError),
        ([], [b"a*b*"], InvalidOptionError),
        ([], [b""], InvalidOptionError),
        ([b"%d" % n for n in range(MAX_TOPICS + 1)], [], InvalidOptionError),
        ([], [b"%d*" % n for n in range(MAX_TOPICS + 1)], InvalidOptionError),
    ],
)
def test_what_makes_no_sense_is_refused(names, patterns, error):
    with pytest.raises(error):
        parse_choice(names, patterns)


def test_as_many_as_may_be():
    assert len(parse_choice([b"%d" % n for n in range(MAX_TOPICS)], [b"*"]).names) == MAX_TOPICS
