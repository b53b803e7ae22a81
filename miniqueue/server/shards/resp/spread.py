"""Spread topics for one connection: what concerns one is carried out by its parts.

    a message with a key, a receipt, an id, a partition ─▶ the part that it names ─▶ here, or passed on to its owner
    messages without a key ─▶ one part for all that come together
    others ─▶ all parts are asked; their replies become one (`parts`)
    settings ─▶ the home shard, which brings them to all others

A part in this shard is a topic like any other: what concerns it takes no detour.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from miniqueue.core.message.parts import part_for, part_name
from miniqueue.core.options.batch import BatchOptions
from miniqueue.core.settings.spreading import Earlier
from miniqueue.errors import MiniqueueError, PayloadTooLargeError
from miniqueue.server.resp.commands import table
from miniqueue.server.resp.commands.context import answer_later
from miniqueue.server.resp.commands.receive import settle_by_receipt
from miniqueue.server.resp.keyed import KeyedRun
from miniqueue.server.resp.replies import LateReply
from miniqueue.server.resp.router import RoutedClient
from miniqueue.server.shards.links.earlier import Published, needs_to_ask
from miniqueue.server.shards.links.peers import Peers
from miniqueue.server.shards.links.spreading import order
from miniqueue.server.shards.resp.got import Got
from miniqueue.server.shards.resp.owners import Owners, charged_to
from miniqueue.server.shards.resp.parts import asking, batches, keyed, parting, setting
from miniqueue.server.shards.resp.parts.stream import SpreadStream
from miniqueue.server.shards.resp.receiver import Receiver
from miniqueue.wire.resp_parser import Command, encode_command
from miniqueue.wire.resp_reader import Run
from miniqueue.wire.resp_replies import error

#: How many words the commands have of which the parts get nothing but the topic: GET, and TOPIC DELETE.
_WORDS: Final = {b"GET": 2, b"TOPIC DELETE": 3}


class SpreadTopics:
    """The spread topics, as one connection uses them.

    Args:
      client: the connection.
      peers: the shards.
      owners: the links of the connection to them.
      receiver: carries out RECEIVE.
    """

    def __init__(self, client: RoutedClient, peers: Peers, owners: Owners, receiver: Receiver) -> None:
        self._client = client
        self._peers = peers
        self._owners = owners
        self._receiver = receiver
        self._own = peers.placing.number
        self._last_topic = b""  # to which messages were published
        self._last_parts: list[tuple[bytes, int]] = []  # its parts, and their shards
        self._stream: SpreadStream | None = None
        self._placed: tuple[Command, int] | None = None  # the next command, and among how many parts it has its place
        self._got = Got(client, peers.placing, owners.ask)

    def pause(self) -> None:
        """Read no deliveries until `resume`."""
        if self._stream is not None:
            self._stream.pause()

    def resume(self) -> None:
        """Read deliveries again."""
        if self._stream is not None:
            self._stream.resume()

    def leave(self) -> None:
        """End the stream, and forget what the connection holds: the parts return it."""
        self._got.clear()
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def publish(self, topic: bytes, part_count: int, payloads: list[bytes]) -> None:
        """Publish messages without options in one part; raises ShardAwayError."""
        part, shard = self._parts_of(topic, part_count)[self._choose(topic, part_count, len(payloads))]
        if shard == self._own:
            self._client.command_count += len(payloads) - 1
            self._client.publish(part, payloads)
        else:
            self._owners.forward(shard, Run([b"PUBLISH", part], payloads))

    def publish_with_key(self, topic: bytes, part_count: int, command: Command, key: bytes) -> None:
        """Carry out a PUB with no other option than a key; raises MiniqueueError."""
        part, shard = self._parts_of(topic, part_count)[part_for(key, part_count)]
        own = [b"PUB", part, *command[2:]]
        if shard != self._own:
            self._owners.forward(shard, own)
        elif reply := table.execute(self._client, own):
            self._client.reply(reply)

    def publish_run(self, run: KeyedRun, part_count: int) -> None:
        """Publish messages in the parts of their keys; for those of a shard that is away, the reply is an error."""
        places = self._parts_of(run.topic, part_count)
        keyed.publish_run(self._client, self._owners.gather, self._own, places, run)

    def _parts_of(self, topic: bytes, part_count: int) -> list[tuple[bytes, int]]:
        """Return the names of the parts of a topic, each with its shard."""
        if self._last_topic != topic or len(self._last_parts) != part_count:
            self._last_topic, placing = topic, self._peers.placing
            self._last_parts = [
                (part_name(topic, number), placing.shard_of_part(topic, number)) for number in range(part_count)
            ]
        return self._last_parts

    def carry_out(self, topic: bytes, part_count: int, command: Command) -> bool:
        """Carry out a command that the client may give; return False to do it here, on the whole.

        `part_count` is 0 if the command creates the topic. Raises MiniqueueError.
        """
        word = command[0].upper()
        if word == b"RECEIVE":
            self._receiver.receive(topic, part_count, command)
            return True
        earlier = self._client.broker.earlier_of(topic)
        if earlier.counts and (part_count := self._count_for(topic, part_count, earlier, command)) == 0:
            return True
        subcommand, choose = command[1].upper(), partial(self._choose, topic, part_count)
        if word == b"TOPIC" and subcommand == b"GET" and topic in self._client.broker.spread_topics:
            return False
        name = b"%b %b" % (word, subcommand) if word == b"TOPIC" else word
        if len(command) != _WORDS.get(name, len(command)):
            return False  # it is refused
        if setting.sets(command):
            self._owners.when_written(partial(self._set, topic, part_count, command))
        elif word in (b"SUBSCRIBE", b"SUB"):
            self._subscribe(topic, part_count, command)
        elif word in parting.PARSERS and len(command) >= batches.LEAST_WORDS:
            self._publish_batch(topic, part_count, command)
        elif self._got.is_about(command):
            self._owners.when_written(partial(self._got.carry_out, part_count, command))
        elif (number := parting.part_of(command, part_count, choose)) is not None:
            self._carry_out_in_part(topic, number, command)
        elif word in parting.SETTLES:
            settles = parting.cut(command, part_count)
            self._owners.when_written(partial(self._settle_parts, topic, command, settles))
        else:
            work = asking.work_of(command, part_count, self._client.session.protocol)
            self._owners.when_written(partial(self._ask_parts, topic, work))
        return True

    # --- publishes from before there were as many parts ---------------------------------------------------------

    def _count_for(self, topic: bytes, part_count: int, earlier: Earlier, command: Command) -> int:
        """Return the number of parts among which a command has its place.

        For a publish that can be known where it was before, it is 0 at first: other parts are asked, and the command
        is carried out again. Raises RequestError.
        """
        placed, self._placed = self._placed, None
        if placed is not None and placed[0] is command:
            return placed[1]
        published = parting.published_by(command)
        if published is None or not needs_to_ask(part_count, earlier, published):
            return part_count
        answer_later(self._client, self._look(topic, part_count, earlier, command, published))
        return 0

    async def _look(
        self, topic: bytes, part_count: int, earlier: Earlier, command: Command, published: Published
    ) -> bytes:
        """Find the place of a publish, and make it the next command; return no reply. Raises ShardAwayError."""
        [count] = await self._peers.earlier.counts(topic, part_count, earlier, [published])
        self._placed = command, count
        self._client.command_count -= 1  # it is counted again
        self._client.put_back([command])
        return b""

    # --- one part ---------------------------------------------------------------------------------------------

    def _choose(self, topic: bytes, part_count: int, message_count: int) -> int:
        """Return the part of messages without a key."""
        return self._peers.choose_part(topic, part_count, message_count, self._client.broker.open_commit)

    def _carry_out_in_part(self, topic: bytes, number: int, command: Command) -> None:
        """Carry out a command in a part: here, if the part is in this shard. Raises MiniqueueError."""
        part, shard = part_name(topic, number), self._peers.placing.shard_of_part(topic, number)
        own = parting.renamed(command, part)
        if shard != self._own:
            self._owners.forward(shard, own)
        elif reply := table.execute(self._client, own):
            self._client.reply(reply)

    # --- several parts ----------------------------------------------------------------------------------------

    def _publish_batch(self, topic: bytes, part_count: int, command: Command) -> None:
        """Publish a batch whose messages can have keys, in the parts of these; raises MiniqueueError."""
        batch_id = self._client.broker.earlier_of(topic).batch_id
        choose = partial(self._choose, topic, part_count)
        shares = batches.cut(command, part_count, choose, self._check_batch, batch_id)
        if len(shares) == 1:
            self._carry_out_in_part(topic, shares[0].number, [*command[:2], *shares[0].words])
            return
        client, parts = self._client, [part_name(topic, share.number) for share in shares]
        own, shards = self._peers.placing.number, list(map(self._peers.placing.shard_of, parts))
        for shard in {*shards} - {own}:
            self._owners.link(shard)  # before any part is published
        commands = [[command[0], part, *share.words] for part, share in zip(parts, shares, strict=True)]
        whole = client.await_reply(sum(map(len, command)))
        joining = batches.Joining(command[0].upper(), shares, lambda reply: client.give_out([whole], [reply]))
        here: list[Command] = []
        here_late: list[LateReply] = []
        for shard, words, late in zip(shards, commands, joining.replies(), strict=True):
            if shard == own:
                here.append(words)
                here_late.append(late)
            else:
                self._owners.gather(shard, encode_command(words), late)
        if here:
            client.when_room(partial(batches.publish_here, client, here, here_late))

    def _check_batch(self, payloads: Sequence[bytes], options: BatchOptions) -> None:
        """Raise PayloadTooLargeError or RequestError if any part would refuse its messages, so that none is added."""
        broker = self._client.broker
        if (longest_bytes := max(map(len, payloads))) > broker.max_message_bytes:
            raise PayloadTooLargeError(longest_bytes, broker.max_message_bytes)
        if options.others:
            options.attributes(broker.clock.now_ms())

    async def _ask_parts(self, topic: bytes, work: asking.Work) -> bytes:
        """Return the reply of the whole topic; what its parts reply is charged meanwhile. Raises MiniqueueError."""
        with charged_to(self._client.account) as charge:

            async def ask(number: int, command: Command) -> bytes:
                part = part_name(topic, number)
                own = command if command[0] == b"TASK" else parting.renamed(command, part)
                return charge(await self._owners.ask(self._peers.placing.shard_of(part), own))

            return await work(ask)

    async def _settle_parts(self, topic: bytes, command: Command, settles: Sequence[parting.Settles]) -> bytes:
        """Return the reply to a settle with receipts of several parts; raises MiniqueueError."""
        answers = await asyncio.gather(
            *(self._settle_part(part_name(topic, number), [command[0], *words]) for number, _, words in settles)
        )
        return parting.settled(settles, answers)

    async def _settle_part(self, part: bytes, command: Command) -> bytes:
        """Return the reply to a settle in a part; raises MiniqueueError if its shard does not answer."""
        shard, own = self._peers.placing.shard_of(part), [command[0], part, *command[1:]]
        if shard != self._peers.placing.number:
            return await self._owners.ask(shard, own)
        try:
            return await settle_by_receipt(self._client, own)
        except MiniqueueError as exc:
            return error(exc.code, str(exc))

    # --- the whole --------------------------------------------------------------------------------------------

    async def _set(self, topic: bytes, part_count: int, command: Command) -> bytes:
        """Create, change, pause, or delete a spread topic: first in its home shard, then everywhere."""
        await self._owners.until_answered()  # orders take other links
        shard = self._peers.placing.shard_of(topic)
        home = setting.Home(partial(self._owners.ask, shard), partial(order, self._peers, shard))
        if topic in self._client.broker.spread_topics or not part_count:
            return await setting.set_topic(home, topic, command)

        async def look(command: Command) -> bytes:
            return await self._ask_parts(topic, asking.work_of(command, part_count, 2))

        return await setting.set_letters(home, look, topic, part_count, command)

    def _subscribe(self, topic: bytes, part_count: int, command: Command) -> None:
        """Make the connection the stream of a spread topic; raises MiniqueueError."""
        self._client.check_client()
        shards = [self._peers.placing.shard_of(part_name(topic, number)) for number in range(part_count)]
        for shard in shards:
            self._peers.check(shard)
        self._owners.send_gathered()
        self._stream = SpreadStream(self._client, command, part_count, self._peers.growth)
        self._stream.begin([self._owners.open(shard) for shard in shards])
