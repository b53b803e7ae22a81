"""PEEK, SEARCH, and LEASES of a spread topic: its parts are asked one after the other, until the page is full.

    PEEK orders COUNT 10 ─▶ part 0: COUNT 10 ─ 4 messages ─▶ part 1: COUNT 6 ─ 6 messages ─▶ the reply
    PEEK orders COUNT 10 AFTER 1024-7 ─▶ part 1: AFTER 1024-7 ─▶ part 2 …

Ids, receipts, and positions contain the part, so that a page continues where the one before has ended.
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from miniqueue.broker.inspect.peek import DEFAULT_COUNT, MAX_BYTES
from miniqueue.broker.inspect.peeked import parse_count
from miniqueue.broker.inspect.positions import DEFAULT_SCAN, parse_scan
from miniqueue.broker.leases.listing import MAX_COUNT
from miniqueue.core.message.parts import PART_BITS, part_of_id
from miniqueue.server.shards.resp.parts.merging import ABSENT, joined, map_of, parsed
from miniqueue.server.shards.resp.parts.words import option_of, with_option, without_option
from miniqueue.wire.resp_parser import Command
from miniqueue.wire.resp_replies import Value, encode

#: Asks a part, by its number, to carry out a command, in which its name takes the place of that of the topic.
AskPart: TypeAlias = Callable[[int, Command], Awaitable[bytes]]

#: Words before the options.
_WORDS: Final = 2


async def peek(ask: AskPart, part_count: int, _protocol: int, command: Command) -> bytes:
    """Return the reply to PEEK; raises RequestError."""
    if (message_id := option_of(command, _WORDS, b"ID")) is not None:
        return await ask(part_of_id(message_id) % part_count, command)
    word = option_of(command, _WORDS, b"COUNT")
    count = DEFAULT_COUNT if word is None else parse_count(word)
    after = option_of(command, _WORDS, b"AFTER")
    return await _page(ask, part_count, command, count, None if after is None else part_of_id(after))


async def leases(ask: AskPart, part_count: int, _protocol: int, command: Command) -> bytes:
    """Return the reply to LEASES; raises RequestError.

    Receipts of a part are above those of the parts before it, so AFTER is right for all of them.
    """
    word = option_of(command, _WORDS, b"COUNT")
    return await _page(ask, part_count, command, MAX_COUNT if word is None else parse_count(word))


async def _page(ask: AskPart, part_count: int, command: Command, count: int, only_first: int | None = None) -> bytes:
    """Return an array of the elements that the parts have, at most `count`.

    If AFTER concerns one part, this is `only_first`, with which the page begins.
    """
    answers, errors, size_bytes = list[bytes](), list[bytes](), 0
    for number in range((only_first or 0) % part_count, part_count):
        answer = await ask(number, with_option(command, _WORDS, b"COUNT", b"%d" % count))
        if only_first is not None:
            command = without_option(command, _WORDS, b"AFTER")
        if answer.startswith(b"-"):
            if not answer.startswith(ABSENT):
                return answer
            errors.append(answer)
            continue
        answers.append(answer)
        size_bytes += len(answer)
        count -= int(answer[1 : answer.index(b"\r\n")])
        if count <= 0 or size_bytes >= MAX_BYTES:  # so much may be less than what the part has
            break
    return joined(answers) if answers else errors[0]


async def search(ask: AskPart, part_count: int, protocol: int, command: Command) -> bytes:
    """Return the reply to SEARCH; raises RequestError."""
    words = {name: option_of(command, _WORDS, name) for name in (b"COUNT", b"SCAN", b"AFTER")}
    count = DEFAULT_COUNT if words[b"COUNT"] is None else parse_count(words[b"COUNT"])
    scan = DEFAULT_SCAN if words[b"SCAN"] is None else parse_scan(words[b"SCAN"])
    after = words[b"AFTER"]
    first = 0 if after is None else part_of_id(after) % part_count
    if after == _start_of(first):
        command = without_option(command, _WORDS, b"AFTER")
    messages, scanned, following, size_bytes = list[Value](), 0, None, 0
    errors = list[bytes]()
    for number in range(first, part_count):
        if count <= len(messages) or scan <= scanned or size_bytes >= MAX_BYTES:
            following = _start_of(number)
            break
        own = with_option(command, _WORDS, b"COUNT", b"%d" % (count - len(messages)))
        answer = await ask(number, with_option(own, _WORDS, b"SCAN", b"%d" % (scan - scanned)))
        command = without_option(command, _WORDS, b"AFTER")
        if answer.startswith(b"-"):
            if not answer.startswith(ABSENT):
                return answer
            errors.append(answer)
            continue
        page = map_of(parsed(answer))
        messages += page[b"messages"]
        scanned += page[b"scanned"]
        size_bytes += len(answer)
        following = page[b"next"]
        if following is not None:
            break
    if len(errors) == part_count:
        return errors[0]
    return encode({"messages": messages, "next": following, "scanned": scanned}, protocol)


def _start_of(number: int) -> bytes:
    """Return a position before all of a part, which no message has."""
    return b"%d-0-0" % (number << PART_BITS)
