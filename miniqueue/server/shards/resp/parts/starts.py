"""GROUP CREATE and SEEK on a spread topic."""

from collections.abc import Awaitable
from functools import partial
from typing import Final

from miniqueue.server.shards.parts.starts import begin_in_parts
from miniqueue.server.shards.resp.parts.merging import figures, last, map_of, merged, parsed
from miniqueue.server.shards.resp.parts.pages import AskPart
from miniqueue.server.shards.resp.parts.words import option_of, with_option
from miniqueue.wire.resp_parser import Command

#: Where the options of GROUP CREATE begin, and where the start of GROUP SEEK is.
_AT: Final = 4
#: Errors of one part after which the other parts are asked: they can have the group, or lack it.
_GOES_ON: Final = (b"-NOGROUP ", b"-GROUPEXISTS ")


async def begin(ask: AskPart, part_count: int, protocol: int, command: Command) -> bytes:
    """Return the reply to GROUP CREATE or SEEK; raises RequestError."""
    is_seek = command[1].upper() == b"SEEK"
    start = (command[_AT] if len(command) > _AT else None) if is_seek else _from(command)

    def ask_part(number: int, own_start: bytes) -> Awaitable[bytes]:
        return ask(number, _starting_at(command, own_start, is_seek=is_seek))

    if start is None:
        answers = [await ask(number, command) for number in range(part_count)]
    else:
        commit_time_of = partial(_commit_time_of, ask, command[2])
        answers = list(await begin_in_parts(start, part_count, commit_time_of, ask_part, _is_refusal))
    created = [answer for answer in answers if not answer.startswith(b"-GROUPEXISTS ")]
    return merged(created or answers, figures if is_seek else last, protocol)


def _is_refusal(answer: bytes) -> bool:
    return answer.startswith(b"-") and not answer.startswith(_GOES_ON)


def _from(command: Command) -> bytes | None:
    words = [word for word in command if word.upper() != b"EPHEMERAL"]
    return option_of(words, _AT, b"FROM")


def _starting_at(command: Command, start: bytes, *, is_seek: bool) -> Command:
    if is_seek:
        return [*command[:_AT], start, *command[_AT + 1 :]]
    flags = [word for word in command[_AT:] if word.upper() == b"EPHEMERAL"]
    options = [word for word in command[_AT:] if word.upper() != b"EPHEMERAL"]
    return with_option([*command[:_AT], *options, *flags], _AT, b"FROM", start)


async def _commit_time_of(ask: AskPart, topic: bytes, number: int, partition: bytes, seq: bytes) -> int | None:
    read = await ask(number, [b"READ", topic, partition, seq, b"COUNT", b"1"])
    messages = [] if read.startswith(b"-") else map_of(parsed(read))[b"messages"]
    return int(map_of(messages[0][2])[b"published_at_ms"]) if messages else None
