"""The short way to a yes about headers: it must say yes to nothing that h2 refuses, and to what clients send."""

import h2.utilities
import pytest
from h2.exceptions import ProtocolError
from h2.utilities import HeaderValidationFlags
from hypothesis import example, given
from hypothesis import strategies as st

from miniqueue.server.h2guard.headers import is_plain_request, validate

REQUEST = HeaderValidationFlags(is_client=False, is_trailer=False, is_response_header=False, is_push_promise=False)
TRAILER = REQUEST._replace(is_trailer=True)
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
