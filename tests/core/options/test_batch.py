"""Options of the messages of a batch mean what they mean for a single message, however they are spelled."""

from struct import pack

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from miniqueue.core.options.batch import MAX_PACKED, NO_BATCH_OPTIONS, BatchOptions, parse_each, parse_packed
from miniqueue.core.options.publish import MAX_KEY_BYTES, PublishOptions, parse_words
from miniqueue.errors import RequestError
from miniqueue.errors.requests import InvalidOptionError

NOW_MS = 1_700_000_000_000
KEYED = [b"2", b"KEY", b"k"]
#: The number of the words of a message's options, and these.
OPTIONS = st.sampled_from(
    [
        KEYED,
        KEYED,
        [b"2", b"KEY", b"2"],
        [b"2", b"KEY", b"x" * MAX_KEY_BYTES],
        [b"0"],
        [b"00000"],
        [b"02", b"KEY", b"k"],
        [b"2", b"key", b"k"],
        [b"2", b"TTL", b"60"],
        [b"4", b"KEY", b"k", b"TTL", b"60"],
        [b"5", b"HEADER", b"h", b"v", b"KEY", b"k"],
    ]
)
WRONG = [
    [b"2", b"KEY", b""],
    [b"2", b"KEY", b"x" * (MAX_KEY_BYTES + 1)],
    [b"4", b"KEY", b"k", b"KEY", b"k"],
    [b"2", b"COLOUR", b"red"],
    [b"1", b"KEY"],
    [b"2", b"KEY"],
    [b"-1"],
    [b"+2", b"KEY", b"k"],
    [b"2\n", b"KEY", b"k"],
    [b"100000"],
    [b""],
    [],
]


def words_of(messages):
    return [word for place, options in enumerate(messages) for word in (b"m%d" % place, *options)]


def attributes_one_by_one(messages):
    return [parse_words(options[1:]).attributes(NOW_MS).encode() for options in messages]


@given(st.lists(OPTIONS, max_size=6))
@example([KEYED] * 3)
@example([[b"0"]] * 3)
def test_a_message_of_a_batch_has_the_attributes_that_it_would_have_alone(messages):
    payloads, each = parse_each(words_of(messages))
    assert payloads == [b"m%d" % place for place in range(len(messages))]
    alone = attributes_one_by_one(messages)
    assert each.attributes(NOW_MS) == (alone if any(alone) else None)
    if any(alone):
        assert list(each.keys) == [parse_words(options[1:]).key for options in messages]


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("before", [0, 1, 2])
@pytest.mark.parametrize("behind", [0, 1])
def test_one_that_is_wrong_is_refused_wherever_it_stands(wrong, before, behind):
    with pytest.raises(InvalidOptionError):
        parse_each(words_of([*[KEYED] * before, wrong, *[KEYED] * behind]))


@pytest.mark.parametrize("wrong", [one for one in WRONG if one[:1] in ([b"2"], [b"4"]) and len(one) > 2])
def test_it_is_refused_with_the_error_of_a_single_message(wrong):
    with pytest.raises(RequestError) as alone:
        parse_words(wrong[1:])
    with pytest.raises(type(alone.value)) as together:
        parse_each(words_of([KEYED, wrong]))
    assert str(together.value) == str(alone.value)


def test_a_batch_without_options_has_no_attributes():
    assert NO_BATCH_OPTIONS.attributes(NOW_MS) is None
    assert BatchOptions([b"", b""]).attributes(NOW_MS) is None


def test_options_of_single_messages_are_refused():
    options = PublishOptions(key=b"k", delay_seconds=1)
    with pytest.raises(InvalidOptionError, match="headers, key and ttl, and no other options"):
        BatchOptions([b"k"], {0: options}).attributes(NOW_MS)


def packed(*strings):
    return [pack(f"<{len(strings)}I", *map(len, strings)), b"".join(strings)]


@given(st.lists(st.tuples(st.binary(max_size=9), st.sampled_from([b"", b"k", b"x" * MAX_KEY_BYTES])), min_size=1))
def test_messages_in_one_word_are_those_that_have_a_word_each(messages):
    payloads, keys = zip(*messages, strict=True)
    found, each = parse_packed([*packed(*payloads), *packed(*keys)])
    words = [word for payload, key in messages for word in (payload, *([b"2", b"KEY", key] if key else [b"0"]))]
    expected, expected_each = parse_each(words)
    assert (found, each.attributes(NOW_MS)) == (expected, expected_each.attributes(NOW_MS))
    assert parse_packed(packed(*payloads)) == (list(payloads), NO_BATCH_OPTIONS)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (packed(), "1 to 9999 messages, not 0"),
        (packed(*[b""] * (MAX_PACKED + 1)), "1 to 9999 messages, not 10000"),
        ([b"\1\0\0\0" * 500_000, b"x" * 10], "1 to 9999 messages, not 500000"),
        ([*packed(b"x"), b"\0\0\0\0" * 500_000, b""], "behind the messages is nothing"),
        ([b"\1\0\0\0", b""], "all sizes together"),
        ([b"\1\0\0", b"x"], "a size is 4 bytes"),
        ([b"\xff\xff\xff\xff", b"x"], "all sizes together"),
        ([*packed(b"x"), b""], "behind the messages is nothing"),
        ([*packed(b"x"), *packed()], "behind the messages is nothing"),
        ([*packed(b"x"), *packed(b"k", b"")], "behind the messages is nothing"),
        ([*packed(b"x"), *packed(b"k"), *packed(b"k")], "behind the messages is nothing"),
        ([*packed(b"x"), b"\1\0\0\0", b""], "all sizes together"),
        ([*packed(b"x"), *packed(b"x" * (MAX_KEY_BYTES + 1))], "key is 1 to 1024 bytes"),
    ],
)
def test_sizes_that_are_wrong_are_refused(words, text):
    """What is too many is not even split: half a million kept the event loop for 20 ms."""
    with pytest.raises(InvalidOptionError, match=text):
        parse_packed(words)
