"""Spread topics across shards: the home shard, which is that of the plain name, brings its settings to all others.

    TOPIC CREATE orders SPREAD 4 ─▶ home: the topic, with its settings, is durable ─▶ COMPLETE orders
                                     └─▶ each other shard: the same topic, which is empty, so that its doors know it
                                     └─▶ each part: created, or changed, in its shard
                                         └─ one is refused, as if it has no room for topics: CREATE erases what there is
    TOPIC SET orders.dlq …       ─▶ BEGIN orders.dlq: home: a topic with as many parts, whose settings can then be set
    TOPIC DELETE orders          ─▶ ERASE orders: the parts, their dead letters, the topic elsewhere, then in its home

Each step can be repeated. The settings in the home shard are the intent: `tend` completes what a crash interrupted, and
what was changed otherwise. Only doors order this, over a link of its own kind, after they have checked the rights.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import orjson
import structlog

from miniqueue.broker import Broker
from miniqueue.core.message.parts import part_name
from miniqueue.core.settings.settings import DEAD_LETTER_SUFFIX, TopicSettings, of_members
from miniqueue.core.settings.spreading import settings_of_part
from miniqueue.errors import MiniqueueError, ProtocolError
from miniqueue.errors.requests import OutcomeUnknownError, RefusedPartError, ShardAwayError, UnknownTopicError
from miniqueue.server.shards.links.introduction import Introduction
from miniqueue.server.shards.links.link import Failure
from miniqueue.server.shards.links.peers import Peers
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command, encode_command

#: The kind of the links over which a shard is ordered to do this.
KIND: Final = "spread"
#: How often spread topics are looked at that a crash, or a shard that was away, has left incomplete.
TEND_SECONDS: Final = 0.5

log = structlog.get_logger()


async def order(peers: Peers, shard: int, command: Sequence[bytes]) -> bytes:
    """Return the reply of a shard to an order: OK, or an error; raises ShardAwayError, OutcomeUnknownError."""
    link = peers.open(shard, Introduction(KIND))
    try:
        reply = await link.ask(encode_command([*command]))
    finally:
        link.close_when_answered()
    if reply is Failure.UNSENT:
        raise ShardAwayError(f"shard {shard} does not answer; try again")
    if isinstance(reply, Failure):
        raise OutcomeUnknownError(f"shard {shard} does not answer; whether all parts have changed is unknown")
    return reply


class Spreading:
    """Keeps the spread topics of this shard complete.

    Args:
      broker: the broker of this shard.
      peers: all shards.
    """

    def __init__(self, broker: Broker, peers: Peers) -> None:
        self._broker = broker
        self._peers = peers
        self._turn = asyncio.Lock()
        self._complete: dict[bytes, TopicSettings] = {}  # the settings that all shards had, by topic
        self._said: dict[bytes, str] = {}  # why a topic is not complete, as it was logged

    async def obey(self, command: Command) -> bytes:
        """Carry out an order; return the reply."""
        try:
            match command:
                case [b"ASSUME", name, members]:
                    await self._broker.admin.assume(name, of_members(orjson.loads(members), name)).wait()
                case [b"REMOVE", name]:
                    with suppress(UnknownTopicError):
                        await self._broker.delete_topic(name)
                case [b"BEGIN", name]:
                    await self.begin(name)
                case [b"COMPLETE", name]:
                    await self.complete(name)
                case [b"ERASE", name]:
                    await self.erase(name)
                case _:
                    raise ProtocolError(f"an unknown order: {b' '.join(command)[:80]!r}")
        except MiniqueueError as exc:
            return replies.error(exc.code, str(exc))
        return replies.OK

    async def complete(self, name: bytes) -> None:
        """Bring the settings of a spread topic of this shard to all shards and parts; raises MiniqueueError."""
        async with self._turn:
            await self._bring(name)
            letters, spread = name + DEAD_LETTER_SUFFIX, self._broker.spread_of(name)
            if self._broker.spread_topics.get(letters, spread) != spread:  # they have as many parts
                grown = self._broker.admin.settings_of(letters)._replace(spread=spread)
                await self._broker.admin.assume(letters, grown).wait()
                await self._bring(letters)

    async def _bring(self, name: bytes) -> None:
        """Bring the settings of a spread topic to all shards and parts."""
        settings = self._broker.admin.settings_of(name)
        whole, part = _encode(settings), _encode(settings_of_part(settings))
        for shard in self._peers.others():
            await self._order(shard, b"ASSUME", name, whole)
        for number in range(settings.spread):
            await self._order_part(b"ASSUME", part_name(name, number), part)
        self._complete[name] = settings

    async def begin(self, name: bytes) -> None:
        """Give the dead letters of a spread topic of this shard settings of their own; raises MiniqueueError."""
        if name not in self._broker.spread_topics:
            settings = self._broker.admin.settings_of_new(name)._replace(spread=self._broker.spread_of(name))
            await self._broker.admin.assume(name, settings).wait()

    async def erase(self, name: bytes) -> None:
        """Delete a spread topic of this shard, with its dead letters, in all shards, itself last.

        Raises MiniqueueError.
        """
        async with self._turn:
            for topic in (name + DEAD_LETTER_SUFFIX, name):
                for number in range(self._broker.spread_of(name)):
                    await self._order_part(b"REMOVE", part_name(topic, number))
            for topic in (name + DEAD_LETTER_SUFFIX, name):
                for shard in self._peers.others():
                    await self._order(shard, b"REMOVE", topic)
                self._complete.pop(topic, None)
                await self._order(self._peers.placing.number, b"REMOVE", topic)

    async def tend(self) -> None:
        """Complete the spread topics of this shard that are not, until cancelled."""
        while True:
            for name in [name for name in self._broker.spread_topics if self._peers.placing.has(name)]:
                try:
                    if self._complete.get(name) != self._broker.admin.settings_of(name):
                        await self.complete(name)
                except MiniqueueError as exc:
                    if self._said.get(name) != str(exc):
                        self._said[name] = str(exc)
                        log.warning("a spread topic is not complete yet", topic=name.decode(), error=str(exc))
                else:
                    self._said.pop(name, None)
            await asyncio.sleep(TEND_SECONDS)

    async def _order_part(self, word: bytes, part: bytes, *words: bytes) -> None:
        await self._order(self._peers.placing.shard_of(part), word, part, *words)

    async def _order(self, shard: int, *command: bytes) -> None:
        is_own = shard == self._peers.placing.number
        reply = await (self.obey([*command]) if is_own else order(self._peers, shard, command))
        if reply.startswith(b"-"):
            raise RefusedPartError(*reply[1:-2].decode("utf-8", "replace").split(" ", 1))


def _encode(settings: TopicSettings) -> bytes:
    return orjson.dumps(settings.members())
