"""Messages of topics in several shards for one connection: RECEIVE of a spread topic, and RECEIVEANY.

    what there is now ─ nothing ─▶ all shards wait at once ─▶ the first that has messages answers
                      └ messages ─▶ the reply

What has been leased for a client that has left meanwhile returns to its topic.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from miniqueue.access.rights import Right
from miniqueue.access.users import check_permitted
from miniqueue.core.message.parts import SEPARATOR, part_name
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.errors import InvalidTopicError, MiniqueueError
from miniqueue.server.resp.commands.context import answer_later
from miniqueue.server.resp.commands.receive import options_of_receive, permitted_choice, topics_of
from miniqueue.server.resp.router import RoutedClient
from miniqueue.server.shards.links.link import JOIN
from miniqueue.server.shards.links.peers import Peers
from miniqueue.server.shards.links.spreading import enter_by_patterns, use_group, uses_group
from miniqueue.server.shards.resp import receiving
from miniqueue.server.shards.resp.owners import Owners, answer
from miniqueue.server.shards.resp.parts import parting
from miniqueue.server.shards.resp.returning import is_there, leased_in
from miniqueue.server.shards.resp.taking import (
    EMPTY,
    Taken,
    Taking,
    Turn,
    in_turn,
    join,
    order_of,
    take_here,
    take_in_turn,
)
from miniqueue.server.shards.resp.waiting import WaitingShards, Waits
from miniqueue.wire.resp_parser import Command


class _Request(NamedTuple):
    """A RECEIVE of a spread topic; `words` follow the topic in the command, and are parsed in `options`."""

    topic: bytes
    part_count: int
    words: Command
    options: ReceiveOptions


class Receiver:
    """Carries out the requests of one connection.

    Args:
      client: the connection.
      peers: the shards.
      owners: the links of the connection to them.
    """

    def __init__(self, client: RoutedClient, peers: Peers, owners: Owners) -> None:
        self._client = client
        self._peers = peers
        self._owners = owners

    def receive(self, topic: bytes, part_count: int, command: Command) -> None:
        """Carry out RECEIVE of a spread topic."""
        client = self._client
        client.check_client()
        self._owners.send_gathered()
        if reply := client.after_writes(partial(self._begin, topic, part_count, command[2:])):
            client.reply(reply)

    def receive_any(self, command: Command) -> bool:
        """Carry out RECEIVEANY; return False if it concerns this shard alone. Raises MiniqueueError."""
        placing, waits = self._peers.placing, Waits()
        named, command = command, self._with_parts(command)
        shard = receiving.only_shard_of(command, placing)
        if shard == placing.number and command is named:
            return False
        if shard is None or command is not named:
            self._reply_with(None, partial(self._receive_from_any, named, command, waits), waits)
        else:
            self._owners.forward_receive_any(shard, command)
        return True

    def _reply_with(self, topic: bytes | None, work: Callable[[], Coroutine[Any, Any, bytes]], waits: Waits) -> None:
        """Reply with messages, of a topic, or of several if it is None; if the client has left, they return."""
        self._owners.when_written(partial(self._received, topic, work), waits)

    async def _received(self, topic: bytes | None, work: Callable[[], Coroutine[Any, Any, bytes]]) -> bytes:
        reply = await work()
        if not is_there(self._client):
            self._owners.take_back(topic, reply)
        return reply

    # --- a spread topic ---------------------------------------------------------------------------------------

    def _begin(self, topic: bytes, part_count: int, words: Command) -> bytes:
        """Return the reply to RECEIVE if the first part, in this shard, has all that is wanted; else it comes later.

        Raises MiniqueueError.
        """
        client, own = self._client, self._peers.placing.number
        client.check_client()
        request = _Request(topic, part_count, words, options_of_receive(words))
        options = request.options
        client.session.received = topic, options.group, options.member
        taking, taken = Taking(), Taken(options.max_count)
        start = self._peers.take_choice.first(topic, options.group, part_count, options.max_count)
        turns = in_turn(self._peers.placing, topic, part_count, start, self._peers.chance)
        turn = shard, (first, *others) = next(turns)
        is_begun = False
        if shard == own and not options.member and uses_group(client.broker, topic, options.group):
            self._check(topic)
            turn = own, others
            messages = taking.begin(client, part_name(topic, first), options._replace(wait_seconds=0.0))
            if messages is None:
                is_begun = True
            else:
                taken.add(messages)
                if not taken.missing_count:
                    return taken.reply()
        work = partial(self._receive_spread, request, taking, chain([turn], turns), taken, is_begun=is_begun)
        return answer_later(client, self._received(topic, work), taking)

    async def _receive_spread(
        self, request: _Request, taking: Taking, turns: Iterable[Turn], taken: Taken, *, is_begun: bool
    ) -> bytes:
        """Return the reply to RECEIVE: what the parts have now, or, if they have nothing, what comes meanwhile."""
        client, own, (topic, part_count, words, options) = self._client, self._peers.placing.number, request
        if is_begun:
            taken.add(await taking.finish())
        await self._enter(topic, part_count, options)

        async def take_from(shard: int, parts: Sequence[bytes], max_count: int) -> bytes:
            if not is_there(client):
                return EMPTY
            if shard == own:
                return await take_here(client, parts, options._replace(max_count=max_count), taking)
            return answer(await self._owners.link(shard).ask_order(*order_of(words, parts, max_count)))

        until = asyncio.get_running_loop().time() + options.wait_seconds
        received = await take_in_turn(take_from, topic, turns, taken)
        if received != EMPTY or not self._may_wait(until, taking):
            return received
        asked = [b"RECEIVEANY", *words, b"TOPICS", *(part_name(topic, number) for number in range(part_count))]
        return parting.messages_of(await self._wait_in_shards(receiving.wanted(asked), until, taking))

    async def _enter(self, topic: bytes, part_count: int, options: ReceiveOptions) -> None:
        """Keep the client in all parts of a topic, with its group and as its member; raises MiniqueueError."""
        await self._use_group(topic, options)
        if options.member:
            self._join(topic, part_count, options)

    def _join(self, topic: bytes, part_count: int, options: ReceiveOptions) -> None:
        """Keep the client among the members of a group of all parts; raises MiniqueueError."""
        by_shard: dict[int, list[bytes]] = {}
        for number in range(part_count):
            part = part_name(topic, number)
            by_shard.setdefault(self._peers.placing.shard_of(part), []).append(part)
        for shard, parts in by_shard.items():
            joining = [options.group, options.member, *parts]
            if shard == self._peers.placing.number:
                join(self._client, joining)
            else:
                self._owners.link(shard).give_order(JOIN, *joining)

    def _check(self, topic: bytes) -> None:
        check_permitted(self._client.user, Right.CONSUME, topic, "the 'receive' command")

    async def _use_group(self, topic: bytes, options: ReceiveOptions) -> None:
        """Create a group in all parts of a topic, if it is used now for the first time; raises MiniqueueError."""
        self._check(topic)
        await use_group(self._client.broker, self._peers, topic, options.group)

    # --- several topics ---------------------------------------------------------------------------------------

    def _with_parts(self, command: Command) -> Command:
        """Return a RECEIVEANY that names the parts of spread topics in their place; raises InvalidTopicError."""
        spread_of = self._client.broker.spread_of
        _, _, topics = topics_of(command[1:])
        if any(SEPARATOR in topic for topic in topics):
            raise InvalidTopicError
        named = [
            name
            for topic in topics
            for name in [part_name(topic, number) for number in range(spread_of(topic))] or [topic]
        ]
        return command if named == topics else [*command[: len(command) - len(topics)], *named]

    async def _receive_from_any(self, named: Command, command: Command, waits: Waits) -> bytes:
        """Return the reply to RECEIVEANY, `named` as the client has sent it; raises MiniqueueError."""
        words, patterns, topics = topics_of(named[1:])
        options, broker = options_of_receive(words), self._client.broker
        choice = permitted_choice(self._client.user, named[0], topics, patterns)

        async def enter(topic: bytes) -> None:
            await self._enter(topic, broker.spread_of(topic), options)

        for topic in filter(broker.spread_of, topics):
            await enter(topic)
        await enter_by_patterns(broker, choice, self._client.user, enter)
        wanted = receiving.wanted(command)
        until = asyncio.get_running_loop().time() + wanted.wait_seconds
        is_present = partial(is_there, self._client)
        received = await receiving.receive_now(self._owners.ask, self._peers.placing, wanted, is_present)
        if received == EMPTY and self._may_wait(until, waits):
            received = await self._wait_in_shards(wanted, until, waits)
        return received

    # --- waiting ----------------------------------------------------------------------------------------------

    def _may_wait(self, until: float, waits: Waits) -> bool:
        """Return whether the client waits for messages, and there is time left."""
        return waits.is_waiting and not self._client.has_ended and until > asyncio.get_running_loop().time()

    async def _wait_in_shards(self, wanted: receiving.Wanted, until: float, waits: Waits) -> bytes:
        """Return the messages of the shard that has some first, as a reply to RECEIVEANY; raises ShardAwayError."""
        commands = wanted.waits(self._peers.placing, until - asyncio.get_running_loop().time())
        links = [self._owners.link(shard) for shard in commands]  # before one of them waits
        waits.act = waiting = WaitingShards(partial(self._owners.take_back, None))
        for (shard, own), link in zip(commands.items(), links, strict=True):
            waiting.ask(shard, link, own)
        first = answer(await waiting.first())
        return await self._acknowledged(first) if wanted.is_acked and is_there(self._client) else first

    async def _acknowledged(self, reply: bytes) -> bytes:
        """Acknowledge the messages in a reply to RECEIVEANY; return it as it is with AUTOACK."""
        for topic, receipts in leased_in(reply, None, self._client.broker.spread_of):
            with suppress(MiniqueueError):  # then they are delivered again, as after a crash
                await self._owners.ask(self._peers.placing.shard_of(topic), [b"ACK", topic, *receipts])
        return receiving.without_receipts(reply)
