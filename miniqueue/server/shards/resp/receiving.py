"""RECEIVEANY with topics of several shards: the shards are asked in turn, and none gives more than is still wanted.

    RECEIVEANY COUNT 10 … ─▶ shard 2: COUNT 10 ─ 3 messages ─▶ shard 0: COUNT 7 ─ 7 messages ─▶ the reply
    all are empty ─▶ a pause ─▶ again, until the time to wait is over

Each call begins at another shard. Since a shard that waited would lease messages that another has given already, the
door waits, and asks again up to `PAUSES_SECONDS` later.
"""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import chain, count, repeat
from typing import Final, NamedTuple

import hiredis

from miniqueue.core.settings.placing import Placing
from miniqueue.errors import MiniqueueError
from miniqueue.server.resp.commands.context import Presence
from miniqueue.server.resp.commands.receive import options_of_receive, topics_of
from miniqueue.wire.resp_parser import Command
from miniqueue.wire.resp_replies import joined_array

#: The pauses after each time that no shard had a message; the last one is repeated.
PAUSES_SECONDS: Final = (0.01, 0.02, 0.05, 0.1, 0.2)
#: The reply without a message.
EMPTY: Final = b"*0\r\n"
_turns = count()


class _Wanted(NamedTuple):
    """What a RECEIVEANY wants.

    Attributes:
      options: the words of the options, without COUNT and WAIT.
      topics: the names of topics.
      has_patterns: whether topics are named by patterns.
      message_count: the most messages.
      wait_seconds: how long to wait for the first one.
    """

    options: Command
    topics: Command
    has_patterns: bool
    message_count: int
    wait_seconds: float


def only_shard_of(command: Command, placing: Placing) -> int | None:
    """Return the shard with all topics that a command names; None if there are several, or patterns."""
    _, patterns, topics = topics_of(command[1:])
    shards = {placing.shard_of(topic) for topic in topics}
    return shards.pop() if len(shards) == 1 and not patterns else None


def _wanted(command: Command) -> _Wanted:
    """Return what a command wants; raises RequestError."""
    words, patterns, topics = topics_of(command[1:])
    options = options_of_receive(words)
    named = [word for pattern in patterns for word in (b"PATTERN", pattern)]
    return _Wanted(named + lasting(words), topics, bool(patterns), options.max_count, options.wait_seconds)


def lasting(words: Command) -> Command:
    """Return the options of a RECEIVE without COUNT and WAIT."""
    kept: Command = []
    start = 0
    while start < len(words):
        stop = start + (1 if words[start].upper() == b"AUTOACK" else 2)
        if words[start].upper() not in (b"COUNT", b"WAIT"):
            kept += words[start:stop]
        start = stop
    return kept


async def receive_any(
    ask: Callable[[int, Command], Awaitable[bytes]], placing: Placing, command: Command, presence: Presence
) -> bytes:
    """Return the reply to RECEIVEANY; raises MiniqueueError."""
    wanted = _wanted(command)
    until = asyncio.get_running_loop().time() + wanted.wait_seconds
    for pause_seconds in chain(PAUSES_SECONDS, repeat(PAUSES_SECONDS[-1])):
        received = await _receive_now(ask, placing, command[0], wanted)
        left_seconds = until - asyncio.get_running_loop().time()
        if received != EMPTY or left_seconds <= 0 or not presence.is_waiting:
            return received
        await asyncio.sleep(min(pause_seconds, left_seconds))
    raise AssertionError  # there is always a pause


async def _receive_now(
    ask: Callable[[int, Command], Awaitable[bytes]], placing: Placing, name: bytes, wanted: _Wanted
) -> bytes:
    """Return the reply with what is there now, or the error of a shard if none before it had a message."""
    replies: list[bytes] = []
    left = wanted.message_count
    for shard in _in_turn(placing.shard_count):
        own = [topic for topic in wanted.topics if placing.shard_of(topic) == shard]
        if left <= 0 or not (own or wanted.has_patterns):
            continue
        part = [name, *wanted.options, b"COUNT", b"%d" % left, *([b"TOPICS", *own] if own else [])]
        try:
            reply = await ask(shard, part)
        except MiniqueueError:
            if left == wanted.message_count:
                raise
            break  # what was leased is delivered
        if reply.startswith(b"-"):
            if left == wanted.message_count:
                return reply
            break  # what was leased is delivered
        left -= _message_count(reply)
        replies.append(reply)
    return _joined(replies)


def _in_turn(shard_count: int) -> list[int]:
    start = next(_turns)
    return [(start + offset) % shard_count for offset in range(shard_count)]


def _message_count(reply: bytes) -> int:
    reader = hiredis.Reader()
    reader.feed(reply)
    return sum(len(messages) for _, messages in reader.gets())


def _joined(replies: list[bytes]) -> bytes:
    """Return one array of the elements of several, unparsed."""
    parts = [reply.partition(b"\r\n") for reply in replies]
    return joined_array(sum(int(head[1:]) for head, _, _ in parts), b"".join(rest for _, _, rest in parts))
