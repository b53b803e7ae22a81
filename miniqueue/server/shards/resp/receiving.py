"""RECEIVE and RECEIVEANY of topics in several shards, which are asked in turn: none gives more than is still wanted.

    RECEIVEANY COUNT 10 … ─▶ shard 2: COUNT 10 ─ 3 messages ─▶ shard 0: COUNT 7 ─ 7 messages ─▶ the reply
    all are empty ─▶ all wait at once (`waiting`)

Each call begins at another shard. A shard that waits with AUTOACK leases its messages: they are acknowledged when it
was the first.
"""

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Final, NamedTuple

import hiredis

from miniqueue.core.settings.placing import Placing
from miniqueue.errors import MiniqueueError
from miniqueue.server.resp.commands.receive import options_of_receive, topics_of
from miniqueue.wire.resp_parser import Command
from miniqueue.wire.resp_replies import bulk, joined_arrays
from miniqueue.wire.resp_splitting import end_of_reply

#: The reply without a message.
EMPTY: Final = b"*0\r\n"
_NO_RECEIPT: Final = bulk(b"")
#: Asks a shard to carry out a command; returns its reply, or raises ShardAwayError.
Ask = Callable[[int, Command], Awaitable[bytes]]
_turns = count()


class Wanted(NamedTuple):
    """What a RECEIVEANY wants.

    Attributes:
      name: the name of the command.
      options: the words of the options, without COUNT and WAIT.
      topics: the names of topics.
      has_patterns: whether topics are named by patterns.
      message_count: the most messages.
      wait_seconds: how long to wait for the first one.
      is_acked: whether they are acknowledged.
    """

    name: bytes
    options: Command
    topics: Command
    has_patterns: bool
    message_count: int
    wait_seconds: float
    is_acked: bool

    def command_for(self, shard: int, placing: Placing, *options: bytes) -> Command:
        """Return the command to a shard, with more options; an empty one if the shard has none of the topics."""
        own = [topic for topic in self.topics if placing.shard_of(topic) == shard]
        if not own and not self.has_patterns:
            return []
        return [self.name, *self.options, *options, *([b"TOPICS", *own] if own else [])]

    def waits(self, placing: Placing, wait_seconds: float) -> dict[int, Command]:
        """Return the command to each shard that has a topic, by which it leases messages when there are some."""
        plain = self._replace(options=[word for word in self.options if word.upper() != b"AUTOACK"])
        options = b"COUNT", b"%d" % self.message_count, b"WAIT", b"%.3f" % wait_seconds
        commands = {shard: plain.command_for(shard, placing, *options) for shard in range(placing.shard_count)}
        return {shard: command for shard, command in commands.items() if command}


def only_shard_of(command: Command, placing: Placing) -> int | None:
    """Return the shard with all topics that a command names; None if there are several, or patterns."""
    _, patterns, topics = topics_of(command[1:])
    shards = {placing.shard_of(topic) for topic in topics}
    return shards.pop() if len(shards) == 1 and not patterns else None


def wanted(command: Command) -> Wanted:
    """Return what a RECEIVEANY wants; raises RequestError."""
    words, patterns, topics = topics_of(command[1:])
    options = options_of_receive(words)
    named = [word for pattern in patterns for word in (b"PATTERN", pattern)]
    return Wanted(
        command[0],
        named + lasting(words),
        topics,
        bool(patterns),
        options.max_count,
        options.wait_seconds,
        options.is_acked,
    )


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


async def receive_now(ask: Ask, placing: Placing, wanted: Wanted, is_there: Callable[[], bool]) -> bytes:
    """Return the reply with what is there now, or the error of a shard if none before it had a message.

    No further shard is asked once the client is not there any more.
    """
    replies: list[bytes] = []
    left = wanted.message_count
    for shard in _in_turn(placing.shard_count):
        command = wanted.command_for(shard, placing, b"COUNT", b"%d" % left)
        if not command:
            continue
        try:
            reply = await ask(shard, command)
        except MiniqueueError:
            if not replies:
                raise
            break  # what was leased is delivered
        if reply.startswith(b"-"):
            if not replies:
                return reply
            break  # what was leased is delivered
        if reply != EMPTY:
            left -= _message_count(reply)
            replies.append(reply)
        if left <= 0 or not is_there():
            break
    return joined_arrays(replies)


def _in_turn(shard_count: int) -> list[int]:
    start = next(_turns)
    return [(start + offset) % shard_count for offset in range(shard_count)]


def _message_count(reply: bytes) -> int:
    reader = hiredis.Reader()
    reader.feed(reply)
    return sum(len(messages) for _, messages in reader.gets())


def without_receipts(reply: bytes) -> bytes:
    """Return a reply to RECEIVEANY as it is with AUTOACK; an error stays as it is."""
    if reply.startswith(b"-"):
        return reply
    pieces, at, kept_to = list[bytes](), _after_head(reply, 0), 0
    while at < len(reply):
        at = end_of_reply(reply, _after_head(reply, at))  # after the name of the topic
        count, at = int(reply[at + 1 : reply.index(b"\r\n", at)]), _after_head(reply, at)
        for _ in range(count):
            receipt_at = _after_head(reply, at)
            pieces += reply[kept_to:receipt_at], _NO_RECEIPT
            kept_to = end_of_reply(reply, receipt_at)
            at = end_of_reply(reply, end_of_reply(reply, kept_to))  # after the payload, and after the attributes
    return b"".join([*pieces, reply[kept_to:]])


def _after_head(reply: bytes, at: int) -> int:
    return reply.index(b"\r\n", at) + 2
