"""What bytes mean: one table, run through the strict parser and the fast reader, split in every way."""

import pytest

from miniqueue.wire.resp_parser import Oversized, StrictParser
from miniqueue.wire.resp_reader import CommandReader
from miniqueue.wire.resp_runs import Run

LIMITS = {
    "max_arguments": 1000,
    "max_payload_bytes": 20,
    "max_bulk_bytes": 100,
    "max_command_bytes": 50,
    "max_inline_bytes": 60,
}
PING = b"*1\r\n$4\r\nPING\r\n"
BAD_COUNT = "Protocol error: invalid multibulk length"
BAD_SIZE = "Protocol error: invalid bulk length"
UNBALANCED = "Protocol error: unbalanced quotes in request"
HTTP = "Protocol error: HTTP request on the RESP port"


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
    (bulks(b"P", b"t", b"x")[:-2] + b"XY" + PING, [[b"P", b"t", b"x"], [b"PING"]], None),
    (bulks(b"P", b"t", b"x") + b"*3\r\n$1\r\nP\r\n$1\r\nt\r\n$01\r\nx\r\n", [[b"P", b"t", b"x"]], BAD_SIZE),
    # nothing asked for, nothing answered
    (b"*0\r\n" + PING, [[b"PING"]], None),
    (b"*-1\r\n" + PING, [[b"PING"]], None),
    (b"\r\n\n\r\n" + PING + b"*0\r\n", [[b"PING"]], None),
    # the two bytes after a bulk are not looked at
    (b"*2\r\n$1\r\naXY$1\r\nb\r\n" + PING, [[b"a", b"b"], [b"PING"]], None),
    (b"*1\r\n$1\r\na\n*" + PING, [[b"a"], [b"PING"]], None),
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
    (b"*1001\r\n", [], BAD_COUNT),
    (b"*2147483647\r\n", [], BAD_COUNT),
    (b"*" + b"1" * 40, [], BAD_COUNT),
    (b"*" + b"0" * 40 + b"\r\n", [], BAD_COUNT),
    (b"*1\r\n$-1\r\n", [], BAD_SIZE),
    (b"*1\r\n$01\r\na\r\n", [], BAD_SIZE),
    (b"*1\r\n$\r\n\r\n", [], BAD_SIZE),
    (b"*1\r\n$101\r\n", [], BAD_SIZE),
    (b"*1\r\n$" + b"9" * 40, [], BAD_SIZE),
    (bulks(*[b"x" * 20] * 3), [], "Protocol error: too big command"),
    (PING + bulks(*[b"x" * 20] * 2, b"x" * 10), [[b"PING"], [b"x" * 20, b"x" * 20, b"x" * 10]], None),
    # other types
    (PING + b"*1\r\n:1\r\n", [[b"PING"]], "Protocol error: expected '$', got ':'"),
    (b"*1\r\n*1\r\n$1\r\na\r\n", [], "Protocol error: expected '$', got '*'"),
    (b"*1\r\n+a\r\n", [], "Protocol error: expected '$', got '+'"),
    (b"*2\r\n$1\r\naXY+a\r\n", [], "Protocol error: expected '$', got '+'"),
    (b"*2\r\n$1\r\naXY*2147483647\r\n", [], "Protocol error: expected '$', got '*'"),
    (b"*2\r\n$1\r\naXY>2147483647\r\n", [], "Protocol error: expected '$', got '>'"),
    (b"*1\r\n=5\r\ntxt:a\r\n", [], "Protocol error: expected '$', got '='"),
    (b"*1\r\n%1\r\n*1\r\n", [], "Protocol error: expected '$', got '%'"),
    (b"*1\r\n#t\r\n", [], "Protocol error: expected '$', got '#'"),
    (b"*1\r\n\r\n", [], "Protocol error: expected '$', got '\\r'"),
    (PING + b"~1\r\n$1\r\na\r\n", [[b"PING"]], "Protocol error: expected '*', got '~'"),
    (PING + b">1\r\n$1\r\na\r\n", [[b"PING"]], "Protocol error: expected '*', got '>'"),
    (PING + b"%0\r\n", [[b"PING"]], "Protocol error: expected '*', got '%'"),
    (PING + b"|1\r\n", [[b"PING"]], "Protocol error: expected '*', got '|'"),
    (PING + b"$0\r\n\r\n" + PING, [[b"PING"]], "Protocol error: expected '*', got '$'"),
    (b"\x16\x03\x01\x02\x00", [], "Protocol error: expected '*', got '\\x16'"),
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
    # other protocols
    (b"GET topic\r\n", [[b"GET", b"topic"]], None),
    (b"TRACE topic id\r\n", [[b"TRACE", b"topic", b"id"]], None),
    (PING + b"GET / HTTP/1.1\r\n" + PING, [[b"PING"]], HTTP),
    (b"POST /publish/t HTTP/1.1\r\n", [], HTTP),
    (b"PUT x\r\n", [], HTTP),
    (b"DELETE /t\r\n", [], HTTP),
    (b"HEAD /t\r\n", [], HTTP),
    (b"OPTIONS * HTTP/1.1\r\n", [], HTTP),
    (b"PATCH /t HTTP/1.1\r\n", [], HTTP),
    (b"Host: localhost\r\n", [], HTTP),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [], HTTP),
]


def spread(found):
    """The commands of a run, one by one."""
    assert found.lasts
    return [[*found.head, last] for last in found.lasts]


def run(parser, pieces):
    """All commands, and the text of the error."""
    commands = []
    for piece in pieces:
        if isinstance(parser, StrictParser):
            parser.feed(piece)
            commands += parser.all_commands()
        else:
            for command in parser.read(piece):
                commands += spread(command) if isinstance(command, Run) else [command]
    return commands, str(parser.error) if parser.error else None


def reader_of_runs(**limits):
    return CommandReader(run_words=frozenset({b"P", b"a", b"PUBLISH"}), **limits)


@pytest.fixture(params=[StrictParser, CommandReader, reader_of_runs], ids=["strict", "fast", "runs"])
def new_parser(request):
    return lambda **limits: request.param(**(LIMITS | limits))


def test_table_whole(new_parser):
    for stream, commands, error in TABLE:
        assert run(new_parser(), [stream]) == (commands, error), stream


def test_table_byte_by_byte(new_parser):
    for stream, commands, error in TABLE:
        assert run(new_parser(), [stream[i : i + 1] for i in range(len(stream))]) == (commands, error), stream


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
            trailing = [] if error else [[b"PING"], [b"x"]]
            assert run(new_parser(), [stream + PING + b"x\n"]) == (commands + trailing, error), stream


def test_oversized_argument_is_skipped_and_the_connection_lives_on(new_parser):
    stream = bulks(b"P", b"x" * 21, b"y") + PING
    for pieces in ([stream], [stream[i : i + 1] for i in range(len(stream))], [stream[:20], stream[20:]]):
        commands, error = run(new_parser(), pieces)
        assert (commands, error) == ([[b"P", b"", b"y"], [b"PING"]], None)
        argument = commands[0][1]
        assert isinstance(argument, Oversized)
        assert argument.size_bytes == 21


def test_oversized_arguments_do_not_count_as_kept(new_parser):
    commands, error = run(new_parser(), [bulks(*[b"x" * 90] * 3) + PING])
    assert [len(command) for command in commands] == [3, 1]
    assert error is None


def test_oversized_argument_in_a_read_of_short_lines(new_parser):
    commands, error = run(new_parser(max_command_bytes=1000), [bulks(b"x" * 21) + PING])
    assert (commands, error) == ([[b""], [b"PING"]], None)
    assert commands[0][0].size_bytes == 21


def test_argument_of_exactly_the_limit_is_kept(new_parser):
    assert run(new_parser(), [bulks(b"x" * 20)]) == ([[b"x" * 20]], None)


def test_few_arguments_allowed(new_parser):
    assert run(new_parser(max_arguments=2), [PING + bulks(b"a", b"b")])[1] is None
    assert run(new_parser(max_arguments=2), [PING + bulks(b"a", b"b", b"c")]) == ([[b"PING"]], BAD_COUNT)
    assert run(new_parser(max_arguments=2), [b"a b\na b c\n"]) == ([[b"a", b"b"]], BAD_COUNT)


@pytest.mark.parametrize("spelling", [b"*1\r\n$3\r\nACK\r\n", b"ACK\r\n", b"\r\nACK\n", b"*1\r\n$3\r\nACKxx"])
def test_the_same_word_in_each_read(spelling):
    reader = CommandReader()
    reads = [spelling, spelling, b"*1\r\n$4\r\nPING\r\n", spelling, spelling[:-3], spelling, spelling, spelling]
    pieces = [reader.read(read) for read in reads]
    expected = StrictParser()
    for read, commands in zip(reads, pieces, strict=True):
        expected.feed(read)
        assert commands == expected.all_commands()
        for command in commands:
            command.append(b"whose list it is is nobody else's business")


def test_nothing_is_read_after_an_error(new_parser):
    parser = new_parser()
    assert run(parser, [b"*x\r\n"]) == ([], BAD_COUNT)
    error = parser.error
    assert run(parser, [PING, PING]) == ([], BAD_COUNT)
    assert parser.error is error
