"""PEEK, SEARCH, and LEASES of a spread topic: pages of what its parts have."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from miniqueue.broker.inspect.peek import DEFAULT_COUNT
from miniqueue.broker.inspect.peeked import parse_count
from miniqueue.broker.inspect.positions import DEFAULT_SCAN, parse_scan
from miniqueue.broker.leases.listing import MAX_COUNT
from miniqueue.core.message.parts import part_of_id
from miniqueue.server.shards.parts.paging import PartPage, Wanted, page_of, start_of
from miniqueue.server.shards.resp.parts.merging import ABSENT, joined, map_of, parsed
from miniqueue.server.shards.resp.parts.words import option_of, with_option, without_option
from miniqueue.wire.resp_parser import Command
from miniqueue.wire.resp_replies import encode

#: Asks a part, by its number, to carry out a command, in which its name takes the place of that of the topic.
AskPart: TypeAlias = Callable[[int, Command], Awaitable[bytes]]

#: Words before the options.
_WORDS: Final = 2


async def peek(ask: AskPart, part_count: int, _protocol: int, command: Command) -> bytes:
    """Return the reply to PEEK; raises RequestError."""
    if (message_id := option_of(command, _WORDS, b"ID")) is not None:
        return await ask(part_of_id(message_id) % part_count, command)
    after = option_of(command, _WORDS, b"AFTER")
    first = 0 if after is None else part_of_id(after) % part_count
    following = without_option(command, _WORDS, b"AFTER")
    return await _array(ask, range(first, part_count), command, following, DEFAULT_COUNT)


async def leases(ask: AskPart, part_count: int, _protocol: int, command: Command) -> bytes:
    """Return the reply to LEASES; raises RequestError.

    Receipts of a part are above those of the parts before it, so AFTER is right for all of them.
    """
    return await _array(ask, range(part_count), command, command, MAX_COUNT)


async def _array(ask: AskPart, parts: range, command: Command, following: Command, default_count: int) -> bytes:
    """Return an array of what parts have: the first one is asked with `command`, the others with `following`."""

    def ask_part(number: int, wanted: Wanted) -> Awaitable[bytes]:
        own = command if wanted.is_first else following
        return ask(number, with_option(own, _WORDS, b"COUNT", b"%d" % wanted.max_count))

    def page_in(answer: bytes) -> PartPage | None:
        return (
            None if answer.startswith(b"-") else PartPage(answer, int(answer[1 : answer.index(b"\r\n")]), len(answer))
        )

    word = option_of(command, _WORDS, b"COUNT")
    count = default_count if word is None else parse_count(word)
    page = await page_of(parts, ask_part, page_in, _is_absent, count)
    return joined(page.contents) if page.error is None else page.error


async def search(ask: AskPart, part_count: int, protocol: int, command: Command) -> bytes:
    """Return the reply to SEARCH; raises RequestError."""
    words = {name: option_of(command, _WORDS, name) for name in (b"COUNT", b"SCAN", b"AFTER")}
    count = DEFAULT_COUNT if words[b"COUNT"] is None else parse_count(words[b"COUNT"])
    scan = DEFAULT_SCAN if words[b"SCAN"] is None else parse_scan(words[b"SCAN"])
    after = words[b"AFTER"]
    first = 0 if after is None else part_of_id(after) % part_count
    following = without_option(command, _WORDS, b"AFTER")

    def ask_part(number: int, wanted: Wanted) -> Awaitable[bytes]:
        own = command if wanted.is_first and after != start_of(number) else following
        own = with_option(own, _WORDS, b"COUNT", b"%d" % wanted.max_count)
        return ask(number, with_option(own, _WORDS, b"SCAN", b"%d" % wanted.scan))

    def page_in(answer: bytes) -> PartPage | None:
        if answer.startswith(b"-"):
            return None
        content = map_of(parsed(answer))
        messages = content[b"messages"]
        return PartPage(messages, len(messages), len(answer), content[b"scanned"], content[b"next"])

    page = await page_of(range(first, part_count), ask_part, page_in, _is_absent, count, scan)
    if page.error is not None:
        return page.error
    messages = [message for content in page.contents for message in content]
    return encode({"messages": messages, "next": page.following, "scanned": page.scanned}, protocol)


def _is_absent(error: bytes) -> bool:
    return error.startswith(ABSENT)
