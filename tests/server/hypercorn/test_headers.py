"""The short way to a yes about headers: it must say yes to nothing that h2 refuses, and to what clients send."""

import h2.utilities
import pytest
from h2.exceptions import ProtocolError
from h2.utilities import HeaderValidationFlags
from hypothesis import example, given
from hypothesis import strategies as st

from miniqueue.server.hypercorn.headers import is_plain_reply, is_plain_request, normalize_sent, validate, validate_sent

REQUEST = HeaderValidationFlags(is_client=False, is_trailer=False, is_response_header=False, is_push_promise=False)
TRAILER = REQUEST._replace(is_trailer=True)
REPLY = REQUEST._replace(is_response_header=True)
PSEUDO_FIELDS = [
    (b":method", b"POST"),
    (b":scheme", b"https"),
    (b":authority", b"localhost"),
    (b":path", b"/publish/t"),
]

names = st.sampled_from(
    [
        b":method",
        b":scheme",
        b":authority",
        b":path",
        b":protocol",
        b":status",
        b"te",
        b"host",
        b"connection",
        b"",
        b"x",
    ]
) | st.binary(max_size=3)
values = st.sampled_from([b"", b"POST", b"CONNECT", b"/", b"trailers", b"localhost"]) | st.binary(max_size=4)
fields = st.tuples(names, values)


@given(st.permutations(PSEUDO_FIELDS), st.lists(fields, max_size=3), st.integers(0, 4))
@example(PSEUDO_FIELDS, [(b"x", b" ")], 4)
@example(PSEUDO_FIELDS, [(b"x", b"a\n")], 4)
@example(PSEUDO_FIELDS, [(b"x\n", b"a")], 4)
@example(PSEUDO_FIELDS, [(b":path", b"/")], 4)
def test_nothing_is_plain_that_h2_refuses(pseudo, others, kept):
    request = pseudo[:kept] + others
    if is_plain_request(request):
        assert list(h2.utilities.validate_headers(request, REQUEST)) == request


@given(st.lists(fields, max_size=6))
def test_any_fields_are_plain_only_if_h2_takes_them(request):
    if is_plain_request(request):
        assert list(h2.utilities.validate_headers(request, REQUEST)) == request


@pytest.mark.parametrize(
    "others",
    [
        [],
        [(b"content-type", b"application/x-ndjson"), (b"content-length", b"10")],
        [(b"user-agent", b"curl/8.0 (x86)"), (b"accept", b"*/*"), (b"authorization", b"Basic eDp5"), (b"empty", b"")],
        [(b"x", "\N{SNOWMAN}".encode()), (b"x!#$%&'*+-.^_`|~", b"a\tb c")],
    ],
)
def test_what_clients_send_is_plain(others):
    assert is_plain_request(PSEUDO_FIELDS + others)


@pytest.mark.parametrize("field", [(b"X", b""), (b"te", b"gzip"), (b"x", b"\r\n"), (b"", b""), (b":x", b"")])
def test_what_is_not_in_order_is_still_refused(field):
    with pytest.raises(ProtocolError):
        list(validate(iter([*PSEUDO_FIELDS, field]), REQUEST))


def test_fields_of_a_request_are_refused_behind_its_body():
    with pytest.raises(ProtocolError):
        list(validate(iter(PSEUDO_FIELDS), TRAILER))


def test_the_unusual_is_looked_at_by_h2():
    request = [*PSEUDO_FIELDS, (b"te", b"trailers"), (b"host", b"localhost")]
    assert not is_plain_request(request)
    assert list(validate(iter(request), REQUEST)) == request


reply_names = st.sampled_from(
    [b"content-length", b"date", b"message-id", b"Date", b"connection", b"te", b"cookie", b"authorization", b"x", b"X"]
)


def sent(reply, normalize, validate_all):
    """Return what goes out, or None where it is refused."""
    try:
        return list(validate_all(normalize(reply, REPLY), REPLY))
    except ProtocolError:
        return None


@given(st.lists(st.tuples(reply_names, st.sampled_from([b"0", b"", b"a b"])), max_size=5))
@example([(b"content-length", b"0"), (b"date", b"Sun, 06 Nov 1994 08:49:37 GMT")])
def test_what_is_sent_is_what_h2_would_send(others):
    reply = [(b":status", b"201"), *others]
    expected = sent(reply, h2.utilities.normalize_outbound_headers, h2.utilities.validate_outbound_headers)
    assert sent(reply, normalize_sent, validate_sent) == expected
    if is_plain_reply(reply, REPLY):
        assert expected == reply


def test_a_reply_with_a_length_and_a_date_is_plain():
    assert is_plain_reply([(b":status", b"201"), (b"content-length", b"0"), (b"date", b"now")], REPLY)


@pytest.mark.parametrize("flags", [REQUEST, TRAILER])
def test_only_the_beginning_of_a_reply_is_plain(flags):
    assert not is_plain_reply([(b":status", b"201")], flags)
