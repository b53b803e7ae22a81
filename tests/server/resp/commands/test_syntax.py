"""The syntax of RESP commands: what COMMAND DOCS and errors tell, and that it is what the documents say."""

import re
from collections.abc import Iterator, Sequence

import pytest

from miniqueue.server.resp.commands.table import COMMANDS, Entry
from miniqueue.wire.resp_syntax import Argument, parse
from tests.fakes import settle_down
from tests.meta.modules import ROOT
from tests.server.resp.clients import started_server

SPANS = re.findall(r"`([^`\n]+)`", (ROOT / "docs/protocol.md").read_text().partition("### Commands")[2])


def lines_of(name: str, entry: Entry) -> Iterator[str]:
    """Yield the syntax of a command with its name, or that of each of its subcommands."""
    if isinstance(entry.syntax, str):
        yield f"{name} {entry.syntax}".rstrip()
    else:
        yield from (f"{name} {word} {line}".rstrip() for word, line in entry.syntax.items())


LINES = [line for name, entry in COMMANDS.items() for line in lines_of(name.decode(), entry)]
PLAIN = {name: entry for name, entry in COMMANDS.items() if isinstance(entry.syntax, str)}


def bulks(*words: bytes) -> bytes:
    return b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


def fewest_words(arguments: Sequence[Argument]) -> int:
    """Return how many words a command has besides its name, at least."""
    return sum(fewest_words_of(argument) for argument in arguments if "optional" not in argument.flags)


def fewest_words_of(argument: Argument) -> int:
    has_token = argument.token != "" and argument.type != "pure-token"
    match argument.type:
        case "oneof":
            return has_token + min(map(fewest_words_of, argument.arguments))
        case "block":
            return fewest_words(argument.arguments)
        case _:
            return has_token + 1


def varies(argument: Argument) -> bool:
    return argument.flags != () or any(map(varies, argument.arguments))


@pytest.mark.parametrize("line", LINES)
def test_the_syntax_is_that_of_the_protocol(line):
    documented = {span.replace("\\|", "|").replace("…", "...") for span in SPANS}
    assert line in documented


@pytest.mark.parametrize("name", sorted(PLAIN))
def test_the_syntax_has_the_number_of_words_that_is_checked(name):
    arguments, arity = parse(str(PLAIN[name].syntax)), PLAIN[name].arity
    assert fewest_words(arguments) + 1 == abs(arity)
    assert (arity > 0) is not any(map(varies, arguments)) or name == b"QUIT"  # some clients send it with words


@pytest.mark.parametrize(
    ("syntax", "arguments"),
    [
        ("", []),
        ("topic", [Argument("topic", "string")]),
        ("message...", [Argument("message", "string", flags=("multiple",))]),
        ("[COUNT n]", [Argument("n", "integer", "COUNT", ("optional",))]),
        ("[AUTOACK]", [Argument("autoack", "pure-token", "AUTOACK", ("optional",))]),
        (
            "[SIDE in|out]",
            [
                Argument(
                    "side",
                    "oneof",
                    "SIDE",
                    ("optional",),
                    (Argument("in", "pure-token", "in"), Argument("out", "pure-token", "out")),
                )
            ],
        ),
        (
            "[HEADER name value]...",
            [
                Argument(
                    "header",
                    "block",
                    flags=("optional", "multiple"),
                    arguments=(Argument("name", "string", "HEADER"), Argument("value", "string")),
                )
            ],
        ),
        (
            "(offset | TIME ms)",
            [
                Argument(
                    "offset",
                    "oneof",
                    arguments=(Argument("offset", "integer"), Argument("ms", "unix-time", "TIME")),
                )
            ],
        ),
    ],
)
def test_arguments_of(syntax, arguments):
    assert parse(syntax) == arguments


async def test_docs_have_arguments_in_the_form_of_redis():
    topic = b"*6\r\n" + bulks(b"name", b"topic", b"type", b"string", b"display_text", b"topic")
    group = b"*10\r\n" + bulks(b"name", b"g", b"type", b"string", b"token", b"GROUP", b"display_text", b"g", b"flags")
    arguments = b"*2\r\n" + topic + group + b"*1\r\n+optional\r\n"

    async with started_server() as (_world, _server, client):
        reply = await client.say(b"COMMAND DOCS len")
        assert reply.startswith(b"*2\r\n$3\r\nlen\r\n*6\r\n$7\r\nsummary\r\n")
        assert reply.endswith(bulks(b"group", b"miniqueue", b"arguments") + arguments)
        await client.say(b"HELLO 3")
        reply = await client.say(b"COMMAND DOCS len")
        assert reply.startswith(b"%1\r\n$3\r\nlen\r\n%3\r\n$7\r\nsummary\r\n")
        assert reply.endswith(bulks(b"flags") + b"~1\r\n+optional\r\n")


async def test_docs_have_subcommands_in_the_form_of_redis(client):
    reply = await client.say(b"COMMAND DOCS config")
    assert bulks(b"subcommands") + b"*2\r\n" + bulks(b"config|get") + b"*6\r\n" in reply
    assert reply.endswith(b"*1\r\n+multiple\r\n")
    assert b"arguments" not in await client.say(b"COMMAND DOCS topics")


@pytest.mark.parametrize(
    ("line", "syntax"),
    [
        (b"LEN", b"LEN topic [GROUP g]"),
        (b"topic set t", b"TOPIC SET topic (name value)..."),
        (b"TOPIC", b"TOPIC CREATE|SET|GET|DELETE|HELP ..."),
        (
            b"SUBSCRIBE t PREFETCH",
            b"SUBSCRIBE topic [PREFETCH n] [GROUP g] [MEMBER m [SESSION seconds]] [LEASE seconds]",
        ),
        (b"PING a b", b"PING [text]"),
        (b"STATS a b c d e", b"STATS [topic [GROUP g]]"),
        (b"EXEC x", b"EXEC"),
    ],
)
async def test_an_error_about_the_number_of_words_shows_the_syntax(line, syntax, client):
    reply = await client.say(line)
    assert reply.startswith(b"-ERR invalid number of args, want: ")
    assert reply.endswith(b"; syntax: %b\r\n" % syntax)


async def test_so_does_one_that_comes_after_a_commit(world, client):
    world.store.may_write.clear()
    client.send(b"PUBLISH", b"t", b"a")
    client.send(b"GROUP", b"SEEK", b"t")
    await settle_down()
    assert client.transport.take() == b""
    world.store.may_write.set()
    await settle_down()
    assert client.transport.take().endswith(b"at least 5; syntax: GROUP SEEK topic group start [DRYRUN]\r\n")
