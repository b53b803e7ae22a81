"""A word that has many messages may be as long as its command, whoever reads it."""

import pytest

from miniqueue.wire.resp_limits import STRANGER, USUAL, Limits
from miniqueue.wire.resp_parser import StrictParser
from tests.wire.test_resp_commands import BAD_SIZE, PING, READERS, bulks, run

LOW = Limits(max_bulk_bytes=20, max_command_bytes=50, packed_words=frozenset({b"PACK"}))
TABLE = [
    (bulks(b"PACK", b"a" * 21, b"b" * 25) + PING, [[b"PACK", b"a" * 21, b"b" * 25], [b"PING"]], None),
    (bulks(b"pack", b"a" * 46), [[b"pack", b"a" * 46]], None),
    (bulks(b"pack", b"a" * 47), [], BAD_SIZE),
    (bulks(b"PACK", b"a" * 21) + bulks(b"P", b"a" * 21), [[b"PACK", b"a" * 21]], BAD_SIZE),
    (bulks(b"P", b"a" * 21), [], BAD_SIZE),
    (bulks(b"P" * 21, b"a"), [], BAD_SIZE),
]


@pytest.mark.parametrize("new", [StrictParser, *READERS])
@pytest.mark.parametrize(("stream", "commands", "error"), TABLE)
def test_a_word_is_as_long_as_its_command_where_it_is_packed(new, stream, commands, error):
    assert run(new(LOW), [stream]) == (commands, error)
    assert run(new(LOW), [stream[i : i + 1] for i in range(len(stream))]) == (commands, error)
    for i in range(len(stream)):
        assert run(new(LOW), [stream[:i], stream[i:]]) == (commands, error)


@pytest.mark.parametrize("new", [StrictParser, *READERS])
@pytest.mark.parametrize(("limits", "most"), [(USUAL, (2 << 20) - 9), (STRANGER, 16 << 10)])
def test_what_is_longer_is_refused_on_the_line_that_announces_it(new, limits, most):
    announced = b"*2\r\n$9\r\nPUBPACKED\r\n$%d\r\n"
    assert run(new(limits), [announced % most]) == ([], None)
    assert run(new(limits), [announced % (most + 1)]) == ([], BAD_SIZE)
