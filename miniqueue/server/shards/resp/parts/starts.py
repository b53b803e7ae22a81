"""GROUP CREATE and SEEK on a spread topic: where the group begins in each part.

FROM earliest, latest, a time     the same in each part
FROM 1024-5                       this message in part 1; in the others, its commit time
FROM 0-17,1024-5                  these messages in parts 0 and 1; the earliest ones in the others
"""

from collections.abc import Sequence
from typing import Final

from miniqueue.core.message.parts import part_of_id
from miniqueue.core.options.start import FromMessage, FromMessages, parse_start
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
    starts = [start] * part_count if start is None else await _starts(ask, part_count, command[2], start)
    first = 0 if start is None else part_of_id(start) % part_count  # it is the one that can refuse an id
    answers: dict[int, bytes] = {}
    for number in sorted(range(part_count), key=lambda number: number != first):
        answers[number] = await ask(number, _starting_at(command, starts[number], is_seek=is_seek))
        if number == first and answers[number].startswith(b"-") and not answers[number].startswith(_GOES_ON):
            return answers[number]
    in_order = [answers[number] for number in range(part_count)]
    created = [answer for answer in in_order if not answer.startswith(b"-GROUPEXISTS ")]
    return merged(created or in_order, figures if is_seek else last, protocol)


def _from(command: Command) -> bytes | None:
    words = [word for word in command if word.upper() != b"EPHEMERAL"]
    return option_of(words, _AT, b"FROM")


def _starting_at(command: Command, start: bytes | None, *, is_seek: bool) -> Command:
    if start is None:
        return command
    if is_seek:
        return [*command[:_AT], start, *command[_AT + 1 :]]
    flags = [word for word in command[_AT:] if word.upper() == b"EPHEMERAL"]
    options = [word for word in command[_AT:] if word.upper() != b"EPHEMERAL"]
    return with_option([*command[:_AT], *options, *flags], _AT, b"FROM", start)


async def _starts(ask: AskPart, part_count: int, topic: bytes, start: bytes) -> Sequence[bytes]:
    """Return the start in each part; raises RequestError."""
    parsed_start = parse_start(start)
    if isinstance(parsed_start, FromMessages):
        by_part: dict[int, list[bytes]] = {}
        for message_id in start.split(b","):
            by_part.setdefault(part_of_id(message_id) % part_count, []).append(message_id)
        return [b",".join(by_part.get(number, [b"earliest"])) for number in range(part_count)]
    if not isinstance(parsed_start, FromMessage):
        return [start] * part_count
    number = part_of_id(start) % part_count
    partition, _, seq = start.partition(b"-")
    read = await ask(number, [b"READ", topic, partition, seq, b"COUNT", b"1"])
    messages = [] if read.startswith(b"-") else map_of(parsed(read))[b"messages"]
    others = b"%d" % map_of(messages[0][2])[b"published_at_ms"] if messages else b"latest"
    return [start if each == number else others for each in range(part_count)]
