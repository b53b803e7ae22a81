"""Commands that a spread topic carries out as a whole: which parts are asked, and how their replies become one.

LEN, PARTITIONS, STATS, GROUP LIST, MEMBERS, HOLDERS, DELETE        all at the same time; `merging`
PAUSE and RESUME of a group                                         the same
GROUP CREATE, SEEK                                                  each at its own start; `starts`
PEEK, SEARCH, LEASES                                                one after the other; `pages`
MESSAGES, REDRIVE, PURGE                                            the same, or as tasks; `acts`
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from miniqueue.errors.requests import SpreadTopicError
from miniqueue.server.shards.resp.parts import acts, merging, pages, starts
from miniqueue.server.shards.resp.parts.merging import Merge, merged
from miniqueue.server.shards.resp.parts.pages import AskPart
from miniqueue.server.shards.resp.parts.parting import topic_at
from miniqueue.server.shards.resp.parts.words import option_of
from miniqueue.wire.resp_parser import Command

#: Asks the parts, and returns the reply of the whole topic; raises MiniqueueError.
Work: TypeAlias = Callable[[AskPart], Awaitable[bytes]]
#: Does that for a number of parts, a version of the protocol, and a command.
_Worker: TypeAlias = Callable[[AskPart, int, int, Command], Awaitable[bytes]]


def work_of(command: Command, part_count: int, protocol: int) -> Work:
    """Return how the parts carry out a command together; raises SpreadTopicError if they cannot."""
    word = command[0].upper()
    name = b"%b %b" % (word, command[1].upper()) if word in (b"GROUP", b"TOPIC") else word
    worker = _WORKERS.get(name, _first if word == b"GROUP" else None)
    if worker is None:
        raise SpreadTopicError(command[topic_at(command)], name.decode("utf-8", "replace"))
    return lambda ask: worker(ask, part_count, protocol, command)


def _all(merge: Merge) -> _Worker:
    """Return what asks all parts at the same time, and merges their replies."""

    async def ask_all(ask: AskPart, part_count: int, protocol: int, command: Command) -> bytes:
        answers = await asyncio.gather(*[ask(number, command) for number in range(part_count)])
        return merged(answers, merge, protocol)

    return ask_all


async def _stats(ask: AskPart, part_count: int, protocol: int, command: Command) -> bytes:
    is_of_group = option_of(command, 2, b"GROUP") is not None
    return await _all(merging.group_figures if is_of_group else merging.figures)(ask, part_count, protocol, command)


async def _first(ask: AskPart, _part_count: int, _protocol: int, command: Command) -> bytes:
    """Return the reply of one part, which refuses the command."""
    return await ask(0, command)


_WORKERS: Final[Mapping[bytes, _Worker]] = {
    b"LEN": _all(merging.summed),
    b"PARTITIONS": _all(merging.joined),
    b"STATS": _stats,
    b"TOPIC GET": _all(merging.last),  # the dead letters have no settings of their own
    b"GROUP LIST": _all(merging.groups),
    b"GROUP MEMBERS": _all(merging.members),
    b"GROUP HOLDERS": _all(merging.holders),
    b"GROUP DELETE": _all(merging.last),
    b"GROUP CREATE": starts.begin,
    b"GROUP SEEK": starts.begin,
    b"PAUSE": _all(merging.last),
    b"RESUME": _all(merging.last),
    b"PEEK": pages.peek,
    b"SEARCH": pages.search,
    b"LEASES": pages.leases,
    b"MESSAGES": acts.act,
    b"REDRIVE": acts.act,
    b"PURGE": acts.act,
}
