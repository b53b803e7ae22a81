"""Replies are split where they end, whatever they contain."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniqueue.errors import ProtocolError
from miniqueue.wire import resp_replies
from miniqueue.wire.resp_replies import OK, RESP2, RESP3
from miniqueue.wire.resp_splitting import split_replies

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.binary(max_size=8)
    | st.sampled_from([b"\r\n", b"$3\r\nabc\r\n"]),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.binary(max_size=3), values, max_size=2),
    max_leaves=6,
)
ENCODED = st.builds(resp_replies.encode, VALUES, st.sampled_from([RESP2, RESP3]))
#: The reply to a settle of several messages.
ALL_OK = b"*3\r\n" + OK * 3
REPLIES = (
    st.sampled_from([OK, b"+QUEUED\r\n", b":17\r\n", b"-LIMIT no room\r\n", b"$-1\r\n", b"*-1\r\n", ALL_OK]) | ENCODED
)
IDS = st.binary(max_size=12).filter(lambda payload: b"\r\n" not in payload).map(resp_replies.bulk)


@given(st.lists(st.lists(REPLIES, min_size=1, max_size=3), max_size=5))
def test_replies_are_split_where_they_end(groups):
    data = b"".join(b"".join(group) for group in groups)
    assert split_replies(data, [len(group) for group in groups]) == [b"".join(group) for group in groups]


@given(st.lists(st.lists(IDS, min_size=1, max_size=3), max_size=5))
def test_ids_are_split_where_they_end(groups):
    data = b"".join(b"".join(group) for group in groups)
    assert split_replies(data, [len(group) for group in groups]) == [b"".join(group) for group in groups]


@given(st.lists(REPLIES, min_size=1, max_size=3), st.integers(1, 5))
def test_replies_that_are_not_whole_or_too_many_are_an_error(replies, cut):
    data = b"".join(replies)
    for wrong in (data[: max(0, len(data) - cut)], data + OK):
        with pytest.raises(ProtocolError):
            split_replies(wrong, [len(replies)])
