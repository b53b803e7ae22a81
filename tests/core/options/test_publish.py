"""Options of a publish: the same from words, texts and JSON; what is unknown, doubled or wrong is refused."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniqueue.core.message.attributes import Attributes
from miniqueue.core.message.lanes import Priority
from miniqueue.core.options.publish import (
    NO_OPTIONS,
    PublishOptions,
    check_batch_id,
    parse_members,
    parse_texts,
    parse_words,
)
from miniqueue.errors import InvalidAttributesError, InvalidDelayError, RequestError

KEYS = st.binary(min_size=1, max_size=20)
NAMES = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=20).map(str.encode)
HEADERS = st.lists(st.tuples(NAMES, st.binary(max_size=20)), max_size=4).map(tuple)
#: Name, value as it is written, field, value as it is understood.
GOOD = [
    ("delay", b"1.5", "delay_seconds", 1.5),
    ("delay", b"0", "delay_seconds", 0.0),
    ("at", b"1700000000000", "at_ms", 1_700_000_000_000),
    ("priority", b"HIGH", "priority", Priority.HIGH),
    ("priority", b"low", "priority", Priority.LOW),
    ("key", b"\xff\x00", "key", b"\xff\x00"),
    ("key", b"k" * 1024, "key", b"k" * 1024),
    ("ttl", b"0.001", "ttl_seconds", 0.001),
    ("dedup", b"17", "dedup_id", b"17"),
    ("unique", b"u", "unique_key", b"u"),
]
BAD = [
    ("delay", b"-1"),
    ("delay", b"nan"),
    ("delay", b"1e3"),
    ("delay", b"9" * 400),
    ("at", b"1.5"),
    ("at", b"-1"),
    ("at", b"9" * 19),
    ("at", b""),
    ("priority", b"urgent"),
    ("key", b""),
    ("key", b"k" * 1025),
    ("ttl", b"0"),
    ("ttl", b"-1"),
    ("ttl", b"inf"),
    ("ttl", b"10000000001"),
    ("dedup", b""),
    ("dedup", b"?digest=5f0c"),
    ("dedup", b"?digest="),
    ("unique", b"u" * 1025),
    ("header", b"x"),
    ("nonsense", b"1"),
    ("", b"1"),
]


@pytest.mark.parametrize(("name", "value", "field", "understood"), GOOD)
def test_words_and_texts_say_the_same(name, value, field, understood):
    wanted = PublishOptions(**{field: understood})
    assert parse_texts([(name, value)]) == wanted
    assert parse_words([name.upper().encode(), value]) == wanted
    assert parse_words([name.title().encode(), value]) == wanted


@pytest.mark.parametrize(("name", "value"), BAD)
def test_what_makes_no_sense_is_refused(name, value):
    with pytest.raises(RequestError) as caught:
        parse_texts([(name, value)])
    assert caught.value.code in ("BADOPTION", "BADDELAY")
    with pytest.raises(RequestError):
        parse_words([name.encode(), value])


def test_replace_is_a_word_without_a_value_and_needs_a_unique_key():
    options = PublishOptions(unique_key=b"u", is_replacing=True)
    assert parse_words([b"UNIQUE", b"u", b"REPLACE"]) == parse_words([b"replace", b"unique", b"u"]) == options
    assert parse_texts([("unique", b"u"), ("replace", b"true")]) == parse_members({"unique": "u", "replace": True})
    assert parse_texts([("unique", b"u"), ("replace", b"1")]) == options  # every switch of HTTP accepts it
    assert parse_members({"unique": "u", "replace": False}) == PublishOptions(unique_key=b"u")
    assert parse_texts([("replace", b"false")]) == PublishOptions()
    for words in ([b"REPLACE"], [b"UNIQUE", b"u", b"REPLACE", b"REPLACE"], [b"UNIQUE", b"u", b"REPLACE", b"true"]):
        with pytest.raises(RequestError):
            parse_words(words)
    with pytest.raises(RequestError, match="replace is true or false"):
        parse_texts([("unique", b"u"), ("replace", b"yes")])


@pytest.mark.parametrize("name", ["delay", "at", "priority", "key", "ttl", "dedup", "unique"])
def test_an_option_is_given_once_and_has_a_value(name):
    value = next(value for good, value, *_ in GOOD if good == name)
    with pytest.raises(RequestError, match="given twice"):
        parse_texts([(name, value)] * 2)
    with pytest.raises(RequestError, match=f"the option {name} needs a value"):
        parse_words([name.encode()])


def test_a_message_has_a_delay_or_a_time():
    with pytest.raises(RequestError, match="not both"):
        parse_words([b"DELAY", b"1", b"AT", b"5"])
    due = [parse_words(words).due_at_ms(7) for words in ([], [b"DELAY", b"0"], [b"DELAY", b"1.0001"], [b"AT", b"5"])]
    assert due == [7, 7, 1008, 7]
    assert parse_words([b"AT", b"1700000000000"]).due_at_ms(7) == 1700000000000


def test_a_wrong_delay_is_told_as_everywhere():
    with pytest.raises(InvalidDelayError):
        parse_words([b"DELAY", b"soon"])


def test_headers_keep_their_order_and_may_repeat():
    pairs = ((b"b", b"1"), (b"a", b"\xff"), (b"b", b""))
    words = [word for pair in pairs for word in (b"header", *pair)]
    assert parse_words([*words, b"KEY", b"k"]) == PublishOptions(headers=pairs, key=b"k")
    assert parse_texts([("key", b"k")], pairs) == PublishOptions(headers=pairs, key=b"k")


@pytest.mark.parametrize("words", [[b"HEADER"], [b"HEADER", b"name"]])
def test_a_header_has_a_name_and_a_value(words):
    with pytest.raises(RequestError, match="the option header needs a value"):
        parse_words(words)


@pytest.mark.parametrize("name", [b"", b"a b", b"\xff", b"x" * 256])
def test_the_name_of_a_header_is_looked_at(name):
    with pytest.raises(InvalidAttributesError):
        parse_words([b"HEADER", name, b"value"])


def test_an_unknown_option_is_named_in_a_line_that_can_be_shown():
    with pytest.raises(RequestError, match=r"there is no option dely; there are delay, .*, unique, replace, header$"):
        parse_words([b"DELY", b"5"])
    with pytest.raises(RequestError) as caught:
        parse_words([b"a\r\nb\x1b" + b"x" * 5000, b"5"])
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


def test_members_are_strings_or_numbers():
    members = {"delay": 1.5, "priority": "high", "key": "ä", "ttl": 60, "dedup": "1", "unique": "u"}
    wanted = PublishOptions(
        key="ä".encode(), ttl_seconds=60, dedup_id=b"1", unique_key=b"u", priority=Priority.HIGH, delay_seconds=1.5
    )
    assert parse_members(members) == wanted
    assert parse_members({**members, "delay": "1.5", "ttl": "60"}) == wanted
    assert parse_members({"at": 1_700_000_000_000}).at_ms == 1_700_000_000_000


@pytest.mark.parametrize("headers", [{"a": "1", "b": "2"}, [["a", "1"], ["b", "2"]]])
def test_members_have_headers_as_an_object_or_as_pairs(headers):
    assert parse_members({"headers": headers}).headers == ((b"a", b"1"), (b"b", b"2"))


@pytest.mark.parametrize(
    "members",
    [
        {"key": 7},
        {"key": None},
        {"delay": True},
        {"delay": -1},
        {"delay": 1e30},
        {"at": 1.5},
        {"ttl": [1]},
        {"priority": 1},
        {"headers": "a: 1"},
        {"headers": {"a": 1}},
        {"headers": [["a"]]},
        {"headers": None},
        {"dely": 1},
    ],
)
def test_members_of_another_kind_are_refused(members):
    with pytest.raises(RequestError):
        parse_members(members)


def test_the_id_of_a_batch_has_the_same_limits_and_may_be_empty():
    assert (check_batch_id(b""), check_batch_id(b"x" * 1024)) == (b"", b"x" * 1024)
    with pytest.raises(RequestError, match="dedup is 1 to 1024 bytes"):
        check_batch_id(b"x" * 1025)
    with pytest.raises(RequestError, match=r"dedup has no id before \?digest="):
        check_batch_id(b"?digest=5f0c")


@given(HEADERS, KEYS, st.floats(0.001, 1e9), KEYS)
def test_what_stays_with_the_message(headers, key, ttl_seconds, dedup_id):
    options = PublishOptions(headers, key, ttl_seconds, dedup_id, b"u", Priority.LOW, 5.0)
    assert options.attributes(1000) == Attributes(
        headers, key, 1000 + round(ttl_seconds * 1000), dedup_id, unique_key=b"u"
    )
    assert NO_OPTIONS.attributes(1000) == Attributes()


@given(st.lists(st.binary(max_size=12), max_size=8))
def test_any_words_are_understood_or_refused(words):
    with contextlib.suppress(RequestError):
        assert isinstance(parse_words(words), PublishOptions)
