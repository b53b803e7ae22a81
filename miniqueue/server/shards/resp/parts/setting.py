"""TOPIC, PAUSE, and RESUME on a spread topic: its home shard first, then all others and the parts.

    TOPIC SET orders … ─▶ home: TOPIC SET orders … ─▶ COMPLETE orders ─▶ every shard, every part
    TOPIC CREATE orders … ─▶ home: TOPIC CREATE orders … ─▶ CREATE orders … ─▶ the same
                                   └─ EXISTS ─▶ RETRY orders …: completes it if the same creation got TRYAGAIN
    TOPIC SET orders.dlq …, whose parts have come into being one by one ─▶ BEGIN orders.dlq ─▶ the same

`links.spreading` carries out the orders. A topic that a shard refuses is not created; what was changed otherwise is
kept, and completed later.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from miniqueue.errors.requests import TopicExistsError
from miniqueue.wire.resp_parser import Command
from miniqueue.wire.resp_reader import Parsed


class Home(NamedTuple):
    """The home shard of a spread topic.

    Attributes:
      ask: asks it to carry out a command; returns its reply. Raises ShardAwayError.
      order: gives it an order; returns its reply. Raises ShardAwayError, OutcomeUnknownError.
    """

    ask: Callable[[Command], Awaitable[bytes]]
    order: Callable[[Command], Awaitable[bytes]]


def sets(command: Command) -> bool:
    """Return whether a command creates, changes, pauses, or deletes a topic."""
    word = command[0].upper()
    if word in (b"PAUSE", b"RESUME"):
        return b"GROUP" not in map(bytes.upper, command[2:])
    return word == b"TOPIC" and command[1].upper() in (b"CREATE", b"SET", b"DELETE")


def spreads(command: Parsed) -> bool:
    """Return whether a command is to create a spread topic, or to spread one."""
    return (
        isinstance(command, list)
        and command[0].upper() == b"TOPIC"
        and command[1].upper() in (b"CREATE", b"SET")
        and b"spread" in map(bytes.lower, command[3::2])
    )


async def set_topic(home: Home, topic: bytes, command: Command) -> bytes:
    """Return the reply to a command that concerns a spread topic; raises MiniqueueError."""
    if _is(command, b"DELETE"):
        return await home.order([b"ERASE", topic])
    reply = await home.ask(command)
    if _is(command, b"CREATE") and reply.startswith(b"-EXISTS "):
        return await home.order([b"RETRY", topic, *command[3:]])
    if reply.startswith(b"-"):
        return reply
    if not _is(command, b"CREATE"):
        return await home.order([b"COMPLETE", topic])
    created = await home.order([b"CREATE", topic, *command[3:]])
    if created.startswith(b"-") and not created.startswith((b"-TRYAGAIN", b"-UNKNOWN")):
        await home.order([b"ERASE", topic])
    return created


async def set_letters(
    home: Home, look: Callable[[Command], Awaitable[bytes]], topic: bytes, part_count: int, command: Command
) -> bytes:
    """Return the reply to a command that concerns dead letters without settings of their own; raises MiniqueueError.

    `look` asks the parts, which may not exist.
    """
    existing = await look([b"STATS", topic])
    if _is(command, b"CREATE"):
        if not existing.startswith(b"-NOTOPIC"):
            raise TopicExistsError
        return await set_topic(home, topic, [*command[:3], b"spread", b"%d" % part_count, *command[3:]])
    if existing.startswith(b"-"):
        return existing
    begun = b"" if _is(command, b"DELETE") else await home.order([b"BEGIN", topic])
    return begun if begun.startswith(b"-") else await set_topic(home, topic, command)


def _is(command: Command, subcommand: bytes) -> bool:
    return [word.upper() for word in command[:2]] == [b"TOPIC", subcommand]
