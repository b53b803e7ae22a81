"""RECEIVE of a spread topic: what its parts have now, those of one shard after those of another.

    RECEIVE orders COUNT 100 ─▶ own parts ─ 100 messages ─▶ the reply; no other shard is asked
                                    └ 30 ─▶ the parts of another shard, in one order ─ COUNT 70 ─▶ …

Most requests begin with the own parts, which takes no detour; if the first has enough, there is no task, either. The
others begin in another shard, so that no part waits for consumers that are never done with the own ones: the more, the
less the consumers at that shard ask for (`links.take_choice`). Chance decides which requests these are, and with which
part of the shard each begins: no rhythm of requests leaves a part out.

A member has partitions of all parts, so that each of its requests reaches all of them: those that it takes nothing of
are ordered to keep it in the group.

Replies of other shards are passed on unparsed: the head of the array says how many messages there are.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Any, Final

from miniqueue.access.rights import Right
from miniqueue.access.users import check_permitted
from miniqueue.broker.leases.receive import ReceiveResult
from miniqueue.core.message.parts import part_name
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.core.settings.placing import Placing
from miniqueue.errors import MiniqueueError
from miniqueue.server.resp.commands.context import Client, Waiting
from miniqueue.server.resp.commands.receive import options_of_receive, topics_of
from miniqueue.server.shards.resp.receiving import lasting
from miniqueue.server.shards.resp.waiting import Waits
from miniqueue.wire.receive_replies import resp_messages
from miniqueue.wire.resp_parser import Command
from miniqueue.wire.resp_replies import array, error, joined_arrays

#: The first word of the order to another shard; options and names of parts follow.
TAKE: Final = b"TAKE"
#: The reply without a message.
EMPTY: Final = array([])

#: Takes messages of some parts of a shard, at most a number; returns an array of them, or an error.
Take = Callable[[int, Sequence[bytes], int], Awaitable[bytes]]
#: A shard, and the numbers of its parts in the order in which they are asked.
Turn = tuple[int, Sequence[int]]


class Taking(Waits):
    """The client that requests messages of parts in this shard, while it waits for them."""

    def __init__(self) -> None:
        super().__init__()
        self._rest: Callable[[], Coroutine[Any, Any, bytes]] | None = None

    def begin(self, client: Client, part: bytes, options: ReceiveOptions) -> bytes | None:
        """Return the messages that a part has now, as an array, or an error; None if `finish` returns them."""
        answered: asyncio.Future[ReceiveResult | MiniqueueError] = asyncio.get_running_loop().create_future()

        def answer(received: ReceiveResult | MiniqueueError) -> None:
            if not answered.done():
                answered.set_result(received)

        try:
            receiving = client.broker.leases.receive(part, options, answer, answer)
        except MiniqueueError as exc:
            return error(exc.code, str(exc))
        if answered.done():
            return self._encode(client, answered.result())
        self.act = receiving
        self._rest = partial(self._received, client, receiving, answered)
        return None

    async def finish(self) -> bytes:
        """Return the messages that `begin` has not returned; it waits for what has to be read from the store."""
        rest, self._rest = self._rest, None
        assert rest is not None  # begun before
        return await rest()

    async def _received(
        self, client: Client, receiving: Waiting, answered: "asyncio.Future[ReceiveResult | MiniqueueError]"
    ) -> bytes:
        try:
            received = await answered
        finally:
            receiving.give_up()  # if the task has been cancelled
            self.act = None
        messages = self._encode(client, received)
        return await self.finish() if messages is None else messages

    def _encode(self, client: Client, received: ReceiveResult | MiniqueueError) -> bytes | None:
        """Return messages, or an error, as `begin` does: many messages are encoded in turns of the event loop."""
        if isinstance(received, MiniqueueError):
            return error(received.code, str(received))
        work = resp_messages(received.prefix, received.leases, client.session.protocol)
        try:
            next(work)
        except StopIteration as end:  # the usual case
            encoded: bytes = end.value
            return encoded
        self._rest = partial(client.broker.share.finish, work)
        return None


async def take_here(client: Client, parts: Sequence[bytes], options: ReceiveOptions, taking: Taking) -> bytes:
    """Return the messages of parts in this shard, as an array; an error if it is why there are none.

    The first parts come first. It waits for what has to be read from the store, and for nothing else.
    """
    taken = Taken(options.max_count)
    for part in parts:
        messages = taking.begin(client, part, options._replace(max_count=taken.missing_count, wait_seconds=0.0))
        taken.add(await taking.finish() if messages is None else messages)
        if not taken.missing_count or not taking.is_waiting:
            break
    return taken.reply()


async def take_in_turn(from_shard: Take, topic: bytes, turns: Iterable[Turn], taken: "Taken") -> bytes:
    """Return what has been taken, and what is missing, of shards and their parts in turn."""
    for shard, numbers in turns:
        if not taken.missing_count:
            break
        try:
            taken.add(await from_shard(shard, [part_name(topic, number) for number in numbers], taken.missing_count))
        except MiniqueueError as exc:
            taken.add(error(exc.code, str(exc)))
    return taken.reply()


def in_turn(placing: Placing, topic: bytes, part_count: int, first: int, chance: Random) -> Iterator[Turn]:
    """Yield the shards with parts of a topic, in the order in which they are asked, each with its parts.

    `first` is the first one, if it has any.
    """
    shard_count, home = placing.shard_count, placing.shard_of(topic)
    start = chance.randrange(shard_count)
    shards = [first, placing.number, *((start + offset) % shard_count for offset in range(shard_count))]
    for shard in dict.fromkeys(shards):
        numbers = range((shard - home) % shard_count, part_count, shard_count)
        if numbers:
            middle = chance.randrange(len(numbers))
            yield shard, [*numbers[middle:], *numbers[:middle]]


class Taken:
    """What has been taken, or why nothing."""

    def __init__(self, max_count: int) -> None:
        self.missing_count = max_count
        self._arrays: list[bytes] = []
        self._error = b""

    def add(self, messages: bytes) -> None:
        """Add an array of messages, or an error."""
        if messages.startswith(b"-"):
            self._error = self._error or messages
        elif messages != EMPTY:
            self._arrays.append(messages)
            self.missing_count -= int(messages[1 : messages.index(b"\r\n")])

    def reply(self) -> bytes:
        """Return the messages, or the first error if there are none."""
        if len(self._arrays) == 1:
            return self._arrays[0]
        return joined_arrays(self._arrays) if self._arrays else self._error or EMPTY


def order_of(options: Command, parts: Sequence[bytes], max_count: int) -> Command:
    """Return the order for messages of parts of another shard; `options` are the words of RECEIVE after the topic."""
    return [TAKE, *lasting(options), b"COUNT", b"%d" % max_count, b"TOPICS", *parts]


async def take_ordered(client: Client, order: Command, taking: Taking) -> bytes:
    """Return the messages that the door in another shard has ordered; raises RequestError."""
    words, _, parts = topics_of(order[1:])
    for part in parts:
        check_permitted(client.user, Right.CONSUME, part, "the 'receive' command")
    return await take_here(client, parts, options_of_receive(words), taking)


def join(client: Client, joining: Command) -> None:
    """Keep a client among the members of a group of some parts, as a request for messages does; raises MiniqueueError.

    `joining` is the group, the member, and the parts of this shard.
    """
    group, member, *parts = joining
    for part in parts:
        check_permitted(client.user, Right.CONSUME, part, "the 'receive' command")
        client.broker.members.touch(part, group, member)
