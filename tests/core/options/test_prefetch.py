import pytest

from miniqueue.core.options.consume import MAX_PREFETCH, check_prefetch, parse_prefetch
from miniqueue.errors import InvalidPrefetchError


@pytest.mark.parametrize(("word", "prefetch"), [(b"1", 1), (b"007", 7), (b"%d" % MAX_PREFETCH, MAX_PREFETCH)])
def test_numbers_in_range_are_prefetches(word, prefetch):
    assert parse_prefetch(word) == check_prefetch(prefetch) == prefetch


@pytest.mark.parametrize(
    "word", [b"", b"0", b"-1", b"+1", b"1.0", b"1_0", b" 1", b"x", b"%d" % (MAX_PREFETCH + 1), b"0" * 9 + b"1"]
)
def test_anything_else_is_no_prefetch(word):
    with pytest.raises(InvalidPrefetchError):
        parse_prefetch(word)
