"""Bytes on the RESP port: commands are the same however they are cut, by both parsers; replies can be read.

Documented: nothing is raised; what makes no sense is in `error`, a ProtocolError.
"""

from random import Random

import hiredis

from miniqueue.errors import ProtocolError
from miniqueue.wire import resp_replies
from miniqueue.wire.resp_limits import STRANGER, USUAL
from miniqueue.wire.resp_parser import StrictParser
from miniqueue.wire.resp_reader import CommandReader
from tests.fuzz.engine import Target, chance_of
from tests.fuzz.pieces import cut, payload, some
from tests.wire.test_resp_commands import READERS, bulks, run
from tests.wire.test_resp_fuzz import FEW, HOSTILE, LOW

_WORDS = (
    b"PUBLISH",
    b"publish",
    b"PUBPACKED",
    b"MULTI",
    b"EXEC",
    b"P",
    b"a",
    b"ACK",
    b"PING",
    b"orders",
    b"t",
    b"",
    b"\r\n",
    b"12",
)
_LINES = (b"PING\r\n", b"PUBLISH t x\n", b'PUBLISH t "a b"\r\n', b"PUBLISH t 'it\\'s'\r\n", b'P "\\x41\\n"\n', b"\r\n")


def _make(chance: Random) -> bytes:
    match chance.randrange(5):
        case 0:
            run = b"".join(bulks(b"PUBLISH", b"t", payload(chance)) for _ in range(chance.randint(1, 6)))
            return bulks(b"MULTI") + run + bulks(b"EXEC") if chance.randrange(3) == 0 else run
        case 1:
            start = chance.randint(0, 1010)
            return bulks(b"ACK", *(b"%d" % receipt for receipt in range(start, start + 20)))
        case 2:
            return b"".join(some(chance, _LINES, 5))
        case 3:
            return b"".join(some(chance, HOSTILE, 8))
        case _:
            commands = [[*some(chance, _WORDS, 4), payload(chance)] for _ in range(chance.randint(1, 6))]
            return b"".join(bulks(*command) for command in commands)


def _check(stream: bytes) -> None:
    chance = chance_of(stream)
    limits = chance.choice((USUAL, LOW, FEW, STRANGER))
    strict = StrictParser(limits)
    expected = run(strict, [stream])
    assert isinstance(strict.error, ProtocolError | None)
    pieces = cut(chance, stream)
    assert run(StrictParser(limits), pieces) == expected
    for new_reader in READERS:
        assert run(new_reader(limits), [stream]) == expected
        assert run(new_reader(limits), pieces) == expected
    encoded = b"".join(bulks(*command) for command in expected[0])
    assert run(CommandReader(), [encoded]) == (expected[0], None)
    _check_replies(chance, stream)


def _check_replies(chance: Random, content: bytes) -> None:
    """A client reads what was encoded; errors and statuses of any text stay one line."""
    protocol = chance.choice((resp_replies.RESP2, resp_replies.RESP3))
    reader = hiredis.Reader()
    value = [content, [len(content), -1], None, [content[:3]]]
    reader.feed(resp_replies.encode(value, protocol))
    assert reader.gets() == value
    text = content.decode("utf-8", "surrogateescape")
    for line in (resp_replies.simple(text), resp_replies.error("ERR", text)):
        assert line.count(b"\n") == line.count(b"\r") == 1
        reader.feed(line)
        assert reader.gets() is not False
    assert reader.gets() is False


TARGET = Target("resp_reading", _make, _check, tokens=(*HOSTILE, *_WORDS), quick_inputs=1500)
