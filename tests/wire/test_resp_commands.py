"""What bytes mean: one table, run through the strict parser and the fast reader, split in every way."""

import pytest

from miniqueue.wire.resp_limits import STRANGER, USUAL, Limits
from miniqueue.wire.resp_parser import StrictParser
from miniqueue.wire.resp_reader import CommandReader, RunTransaction

LIMITS = {
    "max_words": 1000,
    "max_words_of_many": 1005,
    "max_bulk_bytes": 20,
    "max_command_bytes": 50,
    "max_inline_bytes": 60,
    "inline_words": frozenset({b"PING", b"P", b"PUB", b"P" * 60}),
    "many_words": frozenset({b"ACK"}),
}
PING = b"*1\r\n$4\r\nPING\r\n"
MULTI = b"*1\r\n$5\r\nMULTI\r\n"
EXEC = b"*1\r\n$4\r\nEXEC\r\n"
BAD_COUNT = "Protocol error: invalid multibulk length"
BAD_SIZE = "Protocol error: invalid bulk length"
UNBALANCED = "Protocol error: unbalanced quotes in request"
NO_CRLF = "Protocol error: expected CRLF after a bulk string"
NOT_INLINE = f"Protocol error: only P, PING, {'P' * 60}, PUB can be sent inline, other commands as arrays"
FOREIGN = "The bytes belong to another protocol than that of this port"


def bulks(*arguments):
    return b"*%d\r\n" % len(arguments) + b"".join(b"$%d\r\n%b\r\n" % (len(a), a) for a in arguments)


TABLE = [
    # arrays
    (b"", [], None),
    (PING, [[b"PING"]], None),
    (PING * 3, [[b"PING"]] * 3, None),
    (bulks(b"PUBLISH", b"t", b"payload"), [[b"PUBLISH", b"t", b"payload"]], None),
    (bulks(b"P", b"", b"\r\n"), [[b"P", b"", b"\r\n"]], None),
    (bulks(b"P", b"\n*100000\r\n"), [[b"P", b"\n*100000\r\n"]], None),
    (bulks(b"P", b"\r\n~9999\r\n|1") * 2, [[b"P", b"\r\n~9999\r\n|1"]] * 2, None),
    (bulks(b"P", b"\n$99999999\r\n+(=") * 2, [[b"P", b"\n$99999999\r\n+(="]] * 2, None),
    (bulks(b"P", PING), [[b"P", PING]], None),
    (bulks(*[b"a"] * 40), [[b"a"] * 40], None),
    # runs
    (bulks(b"P", b"t", b"x") * 3, [[b"P", b"t", b"x"]] * 3, None),
    (bulks(b"P", b"t", b"x") + bulks(b"P", b"t", b"a" * 12), [[b"P", b"t", b"x"], [b"P", b"t", b"a" * 12]], None),
    (bulks(b"P", b"t", b"") + bulks(b"P", b"t", b"\r\n"), [[b"P", b"t", b""], [b"P", b"t", b"\r\n"]], None),
    (
        bulks(b"P", b"t", b"x") + bulks(b"P", b"u", b"x") + PING,
        [[b"P", b"t", b"x"], [b"P", b"u", b"x"], [b"PING"]],
        None,
    ),
    (bulks(b"P", b"t", b"x") + b"*3\r\n$1\r\nP\r\n", [[b"P", b"t", b"x"]], None),
    (bulks(b"P", b"t", b"x")[:-2] + b"XY" + PING, [], NO_CRLF),
    (bulks(b"P", b"t", b"x") * 2 + bulks(b"P", b"t", b"x")[:-2] + b"XY" + PING, [[b"P", b"t", b"x"]] * 2, NO_CRLF),
    (bulks(b"P", b"t", b"x") + b"*3\r\n$1\r\nP\r\n$1\r\nt\r\n$01\r\nx\r\n", [[b"P", b"t", b"x"]], BAD_SIZE),
    # transactions of runs
    (MULTI + bulks(b"P", b"t", b"x") * 2 + EXEC, [[b"MULTI"], *[[b"P", b"t", b"x"]] * 2, [b"EXEC"]], None),
    (MULTI.lower() + bulks(b"P", b"t", b"") + EXEC, [[b"multi"], [b"P", b"t", b""], [b"EXEC"]], None),
    (MULTI + EXEC, [[b"MULTI"], [b"EXEC"]], None),
    (MULTI + PING + EXEC, [[b"MULTI"], [b"PING"], [b"EXEC"]], None),
    (MULTI + bulks(b"P", b"t", b"x") + PING + EXEC, [[b"MULTI"], [b"P", b"t", b"x"], [b"PING"], [b"EXEC"]], None),
    (MULTI + bulks(b"P", b"t", EXEC), [[b"MULTI"], [b"P", b"t", EXEC]], None),
    (MULTI + bulks(b"P", b"t", b"x")[:-2] + EXEC, [[b"MULTI"]], NO_CRLF),
    (MULTI + bulks(b"P", b"t", b"x") + EXEC + PING, [[b"MULTI"], [b"P", b"t", b"x"], [b"EXEC"], [b"PING"]], None),
    # nothing asked for, nothing answered
    (b"*0\r\n" + PING, [[b"PING"]], None),
    (b"*-1\r\n" + PING, [[b"PING"]], None),
    (b"\r\n\n\r\n" + PING + b"*0\r\n", [[b"PING"]], None),
    # the two bytes after a bulk
    (b"*2\r\n$1\r\naXY$1\r\nb\r\n" + PING, [], NO_CRLF),
    (PING + b"*1\r\n$1\r\na\n*" + PING, [[b"PING"]], NO_CRLF),
    (b"*1\r\n$0\r\n\r\r" + PING, [], NO_CRLF),
    (b"*1\r\n$1\r\na\n\r" + PING, [], NO_CRLF),
    (b"*1\r\n$3\r\na\r\n" + PING, [], NO_CRLF),  # a size that was miscounted
    # unfinished
    (PING + b"*", [[b"PING"]], None),
    (PING + b"*2\r\n", [[b"PING"]], None),
    (PING + b"*2\r\n$1\r\na\r\n", [[b"PING"]], None),
    (PING + b"*1\r\n$4\r\nPIN", [[b"PING"]], None),
    (PING + b"*0\r\n*1\r\n$4\r\nPIN", [[b"PING"]], None),
    (PING + b"PIN", [[b"PING"]], None),
    # counts and sizes
    (PING + b"*01\r\n", [[b"PING"]], BAD_COUNT),
    (b"*+3\r\n", [], BAD_COUNT),
    (b"*abc\r\n", [], BAD_COUNT),
    (b"*\r\n", [], BAD_COUNT),
    (b"*-2\r\n", [], BAD_COUNT),
    (b"* 1\r\n", [], BAD_COUNT),
    (b"*1006\r\n", [], BAD_COUNT),
    (b"*1001\r\n", [], None),
    (b"*1001\r\n$4\r\nPING\r\n", [], BAD_COUNT),
    (b"*1001\r\n$3\r\nack\r\n", [], None),
    (PING + b"*1005\r\n$3\r\nACK\r\n" + b"$1\r\n1\r\n" * 1004, [[b"PING"]], BAD_SIZE),
    (b"*2147483647\r\n", [], BAD_COUNT),
    (b"*" + b"1" * 40, [], BAD_COUNT),
    (b"*" + b"0" * 40 + b"\r\n", [], BAD_COUNT),
    (b"*1\r\n$-1\r\n", [], BAD_SIZE),
    (b"*1\r\n$01\r\na\r\n", [], BAD_SIZE),
    (b"*1\r\n$\r\n\r\n", [], BAD_SIZE),
    (b"*1\r\n$21\r\n", [], BAD_SIZE),
    (PING + bulks(b"x" * 21), [[b"PING"]], BAD_SIZE),
    (b"*1\r\n$" + b"9" * 40, [], BAD_SIZE),
    (bulks(*[b"x" * 20] * 3), [], BAD_SIZE),
    (PING + bulks(*[b"x" * 20] * 2, b"x" * 10), [[b"PING"], [b"x" * 20, b"x" * 20, b"x" * 10]], None),
    # other types
    (PING + b"*1\r\n:1\r\n", [[b"PING"]], "Protocol error: expected '$', got ':'"),
    (b"*1\r\n*1\r\n$1\r\na\r\n", [], "Protocol error: expected '$', got '*'"),
    (b"*1\r\n+a\r\n", [], "Protocol error: expected '$', got '+'"),
    (b"*2\r\n$1\r\naXY+a\r\n", [], NO_CRLF),
    (b"*2\r\n$1\r\na\r\n+a\r\n", [], "Protocol error: expected '$', got '+'"),
    (b"*2\r\n$1\r\naXY*2147483647\r\n", [], NO_CRLF),
    (b"*2\r\n$1\r\na\r\n*2147483647\r\n", [], "Protocol error: expected '$', got '*'"),
    (b"*2\r\n$1\r\naXY>2147483647\r\n", [], NO_CRLF),
    (b"*2\r\n$1\r\na\r\n>2147483647\r\n", [], "Protocol error: expected '$', got '>'"),
    (b"*1\r\n=5\r\ntxt:a\r\n", [], "Protocol error: expected '$', got '='"),
    (b"*1\r\n%1\r\n*1\r\n", [], "Protocol error: expected '$', got '%'"),
    (b"*1\r\n#t\r\n", [], "Protocol error: expected '$', got '#'"),
    (b"*1\r\n\r\n", [], "Protocol error: expected '$', got '\\r'"),
    (PING + b"~1\r\n$1\r\na\r\n", [[b"PING"]], "Protocol error: expected '*', got '~'"),
    (PING + b">1\r\n$1\r\na\r\n", [[b"PING"]], "Protocol error: expected '*', got '>'"),
    (PING + b"%0\r\n", [[b"PING"]], "Protocol error: expected '*', got '%'"),
    (PING + b"|1\r\n", [[b"PING"]], "Protocol error: expected '*', got '|'"),
    (PING + b"$0\r\n\r\n" + PING, [[b"PING"]], "Protocol error: expected '*', got '$'"),
    (b"\xff\n", [], "Protocol error: expected '*', got '\\xff'"),
    (b" PING\r\n", [], "Protocol error: expected '*', got ' '"),
    (PING + b"\rPING\n", [[b"PING"]], "Protocol error: expected '*', got '\\r'"),
    # inline
    (b"PING\r\n", [[b"PING"]], None),
    (b"PING\n" + PING + b"ping me \r\n", [[b"PING"], [b"PING"], [b"ping", b"me"]], None),
    (b"PUB t\t two  words\n", [[b"PUB", b"t", b"two", b"words"]], None),
    (rb'P "a b" "\x41\n\r\t\b\a\"\\\q\x4" c"d"' + b"\n", [[b"P", b"a b", b'A\n\r\t\b\a"\\qx4', b"cd"]], None),
    (rb"P 'a \'b\' \n' '' ''" + b"\r\n", [[b"P", b"a 'b' \\n", b"", b""]], None),
    (b"P \xff\xfe\n", [[b"P", b"\xff\xfe"]], None),
    (b'P "a\r\n' + PING, [], UNBALANCED),
    (b'P "a"b\n', [], UNBALANCED),
    (b"P \"a\"'b'\n", [], UNBALANCED),
    (b"P 'a\\'\n", [], UNBALANCED),
    (b'P "a\\"\n', [], UNBALANCED),
    (b'P a"\n', [], UNBALANCED),
    (b"P" * 60 + b"\n", [[b"P" * 60]], None),
    (b"P" * 61 + b"\n", [], "Protocol error: too big inline request"),
    (b"P" * 61, [], "Protocol error: too big inline request"),
    (b"PUBLISH t x\r\n", [], NOT_INLINE),
    (PING + b"AUTH secret\n" + PING, [[b"PING"]], NOT_INLINE),
    (b"PUBLISH 'open\n", [], NOT_INLINE),
    (b"PINGS\n", [], NOT_INLINE),
    (b"PUBLISH t x", [], None),
    # other protocols, known by their first bytes
    (b"GET", [], None),
    (b"GET ", [], FOREIGN),
    (b"GETS x\n", [], NOT_INLINE),
    (PING + b"GET / HTTP/1.1\r\n" + PING, [[b"PING"]], FOREIGN),
    (b"POST /publish/t HTTP/1.1\r\n", [], FOREIGN),
    (b"post ", [], FOREIGN),
    (b"PUT x", [], FOREIGN),
    (b"DELETE /t\r\n", [], FOREIGN),
    (b"HEAD /t\r\n", [], FOREIGN),
    (b"OPTIONS * HTTP/1.1\r\n", [], FOREIGN),
    (b"PATCH /t HTTP/1.1\r\n", [], FOREIGN),
    (b"CONNECT localhost:6379 HTTP/1.1\r\n", [], FOREIGN),
    (b"TRACE / HTTP/1.1\r\n", [], FOREIGN),
    (b"\r\nHost: localhost\r\n", [], FOREIGN),
    (b"host:", [], FOREIGN),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [], FOREIGN),
    (PING + b"\x16\x03\x01\x02\x00", [[b"PING"]], FOREIGN),
]


def spread(found):
    """The commands of what was read, one by one."""
    if isinstance(found, list):
        return [found]
    if isinstance(found, RunTransaction):
        return [found.first, *spread(found.run), found.last]
    assert found.lasts
    return [[*found.head, last] for last in found.lasts]


def read_all(reader, piece):
    """Read a piece, in as many turns as it takes."""
    if (again := reader.read_again(piece)) is not None:
        return [again]
    commands = reader.read(piece)
    while reader.is_stopped:
        commands += reader.read(b"")
    return commands


def run(parser, pieces):
    """All commands, and the text of the error."""
    commands = []
    for piece in pieces:
        if isinstance(parser, StrictParser):
            parser.feed(piece)
            commands += parser.all_commands()
        else:
            for command in read_all(parser, piece):
                commands += spread(command)
    return commands, str(parser.error) if parser.error else None


RUN_WORDS = frozenset({b"P", b"a", b"PUBLISH"})


def reader_of_runs(limits):
    return CommandReader(limits, run_words=RUN_WORDS)


def reader_in_turns(limits):
    """Reads as little as it can at a time, where it reads strictly."""
    return CommandReader(limits, run_words=RUN_WORDS, max_strict_words=1, max_read_bytes=40)


def reader_in_pieces(limits):
    """Has the many words of a command in pieces that are worth looking at."""
    return CommandReader(limits, run_words=RUN_WORDS, max_read_bytes=200)


READERS = [CommandReader, reader_of_runs, reader_in_turns, reader_in_pieces]


@pytest.fixture(params=[StrictParser, *READERS], ids=["strict", "fast", "runs", "turns", "pieces"])
def new_parser(request):
    return lambda **limits: request.param(Limits(**(LIMITS | limits)))


def test_table_whole(new_parser):
    for stream, commands, error in TABLE:
        assert run(new_parser(), [stream]) == (commands, error), stream


def test_table_byte_by_byte(new_parser):
    for stream, commands, error in TABLE:
        assert run(new_parser(), [stream[i : i + 1] for i in range(len(stream))]) == (commands, error), stream


@pytest.mark.slow
def test_table_split_in_two_at_every_point(new_parser):
    for stream, commands, error in TABLE:
        for i in range(len(stream)):
            assert run(new_parser(), [stream[:i], stream[i:]]) == (commands, error), (stream, i)


def test_table_with_the_usual_limits():
    for stream, _, _ in TABLE:
        assert run(CommandReader(), [stream]) == run(StrictParser(), [stream]), stream


def test_complete_entries_with_trailing_bytes(new_parser):
    for stream, commands, error in TABLE:
        complete = stream.endswith(b"\n") and run(new_parser(), [stream, PING])[0] != commands
        if error or complete:
            trailing = [] if error else [[b"PING"], [b"P"]]
            assert run(new_parser(), [stream + PING + b"P\n"]) == (commands + trailing, error), stream


def test_argument_of_exactly_the_limit_is_kept(new_parser):
    assert run(new_parser(), [bulks(b"x" * 20)]) == ([[b"x" * 20]], None)


def test_few_words_allowed(new_parser):
    assert run(new_parser(max_words=2), [PING + bulks(b"a", b"b")])[1] is None
    assert run(new_parser(max_words=2), [PING + bulks(b"a", b"b", b"c")]) == ([[b"PING"]], BAD_COUNT)
    assert run(new_parser(max_words=2), [PING + bulks(b"ack", b"b", b"c")]) == ([[b"PING"], [b"ack", b"b", b"c"]], None)
    assert run(new_parser(max_words=2), [b"P b\nP b c\n"]) == ([[b"P", b"b"]], BAD_COUNT)


@pytest.mark.parametrize("new", [StrictParser, *READERS])
@pytest.mark.parametrize(
    ("limits", "most", "one_more"),
    [
        (USUAL, b"*1024\r\n$4\r\nPING\r\n", b"*1025\r\n$4\r\nPING\r\n"),
        (USUAL, b"*10002\r\n$4\r\nDACK\r\n", b"*10003\r\n"),
        (USUAL, b"*3\r\n$1048576\r\n", b"*3\r\n$1048577\r\n"),
        (USUAL, b"PING " + b"x" * 1019, b"PING " + b"x" * 1020),
        (STRANGER, b"*10\r\n$4\r\nDACK\r\n", b"*11\r\n"),
        (STRANGER, b"*1\r\n$16384\r\n", b"*1\r\n$16385\r\n"),
        (STRANGER, b"PING " + b"x" * 1019, b"PING " + b"x" * 1020),
    ],
)
def test_limits_are_kept_on_the_line_that_announces_a_size(new, limits, most, one_more):
    assert run(new(limits), [most]) == ([], None)
    commands, error = run(new(limits), [one_more])
    assert (commands, error.startswith("Protocol error: ")) == ([], True)


@pytest.mark.parametrize("new", [StrictParser, *READERS])
def test_a_command_is_at_most_2_mib(new):
    half = b"$1048576\r\n" + bytes(1 << 20) + b"\r\n"
    assert run(new(USUAL), [b"*2\r\n" + half * 2])[1] is None
    assert run(new(USUAL), [b"*3\r\n" + half * 2 + b"$1\r\n"]) == ([], BAD_SIZE)


def test_what_is_read_strictly_at_a_time_is_bounded():
    for stream, each in ((b"PING\n", 1), (b"*0\r\n", 0), (bulks(*[b"a"] * 9), 9)):
        reader = CommandReader(max_strict_words=100)
        turns = [reader.read(b"PING\n" + stream * 1000 + b"*1000\r\n")]  # which is why nothing of it is for hiredis
        while reader.is_stopped:
            turns.append(reader.read(b""))
        assert len(turns) >= 1000 * (1 + each) // 110
        assert max(sum(1 + len(command) for command in commands) for commands in turns) <= 110


def test_many_empty_lines_are_read_as_one_but_not_all_at_once():
    reader = CommandReader(max_strict_words=10)
    commands, turns = reader.read(b"PING\n" + b"\n\r\n" * 10_000 + b"PING\n"), 1
    while reader.is_stopped:
        commands += reader.read(b"")
        turns += 1
    assert commands == [[b"PING"], [b"PING"]]
    assert 4 < turns < 20


def test_a_read_is_read_in_pieces_up_to_where_a_command_ends():
    reader = CommandReader(max_read_bytes=100)
    long = b"*2\r\n$4\r\nECHO\r\n$700\r\n" + b"x" * 700 + b"\r\n"
    assert reader.read(long + PING * 50) == [[b"ECHO", b"x" * 700], *[[b"PING"]] * 5]
    commands = []
    while reader.is_stopped:
        piece = reader.read(b"")
        assert len(piece) <= 8
        commands += piece
    assert commands == [[b"PING"]] * 45


def test_what_comes_behind_pieces_is_read_behind_them():
    reader = CommandReader(max_read_bytes=20)
    commands = reader.read(PING * 5 + b"*1\r\n$4\r\nQU")
    commands += reader.read(b"IT\r\n")
    reader.keep(b"*1\r\n$4\r\nECHO\r\n")
    while reader.is_stopped:
        commands += reader.read(b"")
    assert commands == [*[[b"PING"]] * 5, [b"QUIT"], [b"ECHO"]]


def test_nothing_is_read_behind_an_error_in_a_piece():
    reader = CommandReader(max_read_bytes=20)
    commands = reader.read(PING + b"!" + PING * 10)
    while reader.is_stopped and reader.error is None:
        commands += reader.read(b"")
    assert commands == [[b"PING"]]
    assert reader.error is not None
    assert not reader.is_stopped
    assert reader.read(PING) == []


def test_what_is_kept_is_read_first():
    reader = CommandReader()
    reader.keep(PING + b"*1\r\n$4\r\nQU")
    assert reader.read(b"IT\r\n") == [[b"PING"], [b"QUIT"]]
    assert not reader.is_stopped


@pytest.mark.parametrize("spelling", [b"*1\r\n$3\r\nACK\r\n", b"QUIT\r\n", b"\r\nQUIT\n", b"*1\r\n$4\r\nPING\r\n"])
def test_the_same_word_in_each_read(spelling):
    reader = CommandReader()
    reads = [spelling, spelling, b"*1\r\n$4\r\nPING\r\n", spelling, spelling[:-3], spelling, spelling, spelling]
    pieces = [reader.read(read) for read in reads]
    expected = StrictParser()
    for read, commands in zip(reads, pieces, strict=True):
        expected.feed(read)
        assert commands == expected.all_commands()
        for command in commands:
            command.append(b"a change of the caller's list")


def test_nothing_is_read_after_an_error(new_parser):
    parser = new_parser()
    assert run(parser, [b"*x\r\n"]) == ([], BAD_COUNT)
    error = parser.error
    assert run(parser, [PING, PING]) == ([], BAD_COUNT)
    assert parser.error is error


SIGN_IN = "Protocol error: only AUTH, HELLO, PING, QUIT can be sent inline, other commands as arrays"
TYPED = [
    (b"PUB t 'two words'\r\nGET t\r\n", [[b"PUB", b"t", b"two words"], [b"GET", b"t"]], None),
    (
        b"sub t\nACK\nack t\nNACK\nBACK\nDACK 1\n",
        [[b"sub", b"t"], [b"ACK"], [b"ack", b"t"], [b"NACK"], [b"BACK"], [b"DACK", b"1"]],
        None,
    ),
    (b"AUTH user secret\nHELLO 3\n", [[b"AUTH", b"user", b"secret"], [b"HELLO", b"3"]], None),
    (b"GET ", [], None),
    (b"GET  t", [], None),
    (b"GET\n", [[b"GET"]], None),
    (b"GET /", [], FOREIGN),
    (b"get  /index.html", [], FOREIGN),
    (b"GET http:/", [], FOREIGN),
    (b"GET * HTTP/1.1\r\n", [], FOREIGN),
    (b"GET t\r\nHost: localhost\r\n", [[b"GET", b"t"]], FOREIGN),
    (b"PUB /t HTTP/1.1\r\n", [], FOREIGN),
    (b"SUB x http/2\n", [], FOREIGN),
    (b"ACK\tHTTP/1.0 \n", [], FOREIGN),
    (b'PUB t "a line of HTTP/1.1"\n', [[b"PUB", b"t", b"a line of HTTP/1.1"]], None),
    (b"POST t x\n", [], FOREIGN),
]


@pytest.mark.parametrize(("stream", "commands", "error"), TYPED)
def test_what_people_type(stream, commands, error):
    for size in (1, 3, len(stream)):
        pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
        assert run(StrictParser(USUAL), pieces) == (commands, error)
        assert run(CommandReader(USUAL), pieces) == (commands, error)


@pytest.mark.parametrize("line", [b"PUB t x\n", b"SUB t\n", b"ACK t\n", b"PUBLISH t x\n"])
def test_a_stranger_types_who_it_is_and_nothing_else(line):
    assert run(StrictParser(STRANGER), [b"AUTH user secret\nHELLO\n"])[1] is None
    assert run(StrictParser(STRANGER), [line]) == ([], SIGN_IN)
    assert run(StrictParser(STRANGER), [b"GET t\n"]) == ([], FOREIGN)


@pytest.mark.parametrize("line", [b"PUBLISH t x\n", b"TOPIC DELETE t\n", b"RECEIVE t\n", b"REDRIVE t\n"])
def test_other_commands_are_not_typed(line):
    _, error = run(StrictParser(USUAL), [line])
    assert error.startswith("Protocol error: only ACK, AUTH, BACK, DACK, GET, HELLO, NACK, PING, PUB, QUIT, SUB can be")
