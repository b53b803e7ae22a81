"""The door of a process for RESP: what concerns topics of other shards is passed on to their owners.

    commands ─▶ own topic, or none ─▶ as without shards
             ├─ a topic of another shard ─┬─ the client knows the nodes ─▶ MOVED, if they have the topic there
             │                            ├─ publishes and settles ─▶ gathered for each shard until the next iteration
             │                            ├─ SUBSCRIBE ─▶ a tunnel
             │                            └─ others ─▶ one by one; the connection is held until the reply
             └─ no topic, but all shards have a part ─▶ to each of them; the parts are merged (`gathering`)

Replies have the order of the commands: those of gathered commands wait for each other in the queue of the connection.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from miniqueue.access.rights import Right, command_needs
from miniqueue.access.users import check_permitted
from miniqueue.broker.runtime.accounts import Purpose
from miniqueue.core.message.names import DEFAULT_GROUP_NAME
from miniqueue.core.message.parts import SEPARATOR, part_name
from miniqueue.core.message.slots import slot_of
from miniqueue.core.options.batch import BatchOptions
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.errors import InvalidTopicError, MiniqueueError, PayloadTooLargeError, ProtocolError
from miniqueue.errors.requests import OutcomeUnknownError, ShardAwayError
from miniqueue.server.resp.commands import table
from miniqueue.server.resp.commands.context import Waiting, answer_later
from miniqueue.server.resp.commands.events import EventStream
from miniqueue.server.resp.commands.receive import options_of_receive, settle_by_receipt, topics_of
from miniqueue.server.resp.replies import LateReply
from miniqueue.server.resp.router import RoutedClient
from miniqueue.server.shards.links.introduction import Introduction
from miniqueue.server.shards.links.link import Batch, Failure, Link, Tunneled
from miniqueue.server.shards.links.peers import Peers
from miniqueue.server.shards.links.spreading import order, use_group
from miniqueue.server.shards.resp import asking, batches, merging, parting, receiving, setting
from miniqueue.server.shards.resp.gathering import gathered, is_gathered
from miniqueue.server.shards.resp.got import Got
from miniqueue.server.shards.resp.receiving import only_shard_of
from miniqueue.server.shards.resp.returning import is_there, leased_in, take_back
from miniqueue.server.shards.resp.scheduling import change_schedule, changes_schedules
from miniqueue.server.shards.resp.stream import SpreadStream
from miniqueue.server.shards.resp.taking import EMPTY, JOIN, Taking, join, order_of, take, take_here
from miniqueue.server.shards.resp.transaction import DoorTransaction, Place, place_in, reply_to_exec
from miniqueue.server.shards.resp.waiting import PassedOn, WaitingShards, Waits
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command, encode_command
from miniqueue.wire.resp_reader import Parsed, Run, RunTransaction, encode_run
from miniqueue.wire.resp_splitting import WholeReplies, split_replies

#: Commands with short replies, which do not hold the connection.
SHORT: Final = frozenset(
    {b"PUBLISH", b"PUB", b"MPUBLISH", b"PUBBATCH", b"PUBEACH", b"PUBPACKED"}
    | {b"ACK", b"NACK", b"BACK", b"DACK", b"REJECT", b"EXTEND"}
)
#: Commands that change a spread topic, of which each part is asked.
CHANGING: Final = parting.SETTLES | {*(b"TOPIC", b"PAUSE", b"RESUME", b"GROUP", b"PURGE", b"REDRIVE", b"MESSAGES")}
#: Commands that can wait for a long time.
WAITING: Final = frozenset({b"RECEIVE", b"REQUEST"})
#: Commands after which nothing has changed, even if their owner has ended.
READING: Final = frozenset(
    {
        b"LEN",
        b"STATS",
        b"PEEK",
        b"SEARCH",
        b"TRACE",
        b"READ",
        b"PARTITIONS",
        b"LEASES",
        b"RECEIVE",
        b"GET",
        b"SUBSCRIBE",
        b"SUB",
    }
)
#: How much memory a gathered byte costs: as an answer, as a part of the reply, and as that.
GATHERED_FACTOR: Final = 3
AWAY: Final = "the shard with the topic has ended, or does not answer; {}"


class _Short:
    """Commands with short replies that follow each other, before they are sent.

    Attributes:
      pieces: the commands, encoded.
      reply_count: how many replies they have.
      are_lines: whether each reply is a line.
      late: gets the replies.
    """

    __slots__ = ("are_lines", "late", "pieces", "reply_count")

    def __init__(self, data: bytes, reply_count: int, late: LateReply, *, are_lines: bool = False) -> None:
        self.pieces = [data]
        self.reply_count = reply_count
        self.are_lines = are_lines
        self.late = late

    def extend(self, data: bytes, reply_count: int, *, are_lines: bool) -> None:
        """Add a command that follows."""
        self.pieces.append(data)
        self.reply_count += reply_count
        self.are_lines = self.are_lines and are_lines


class Door:
    """The router of one connection.

    Args:
      client: the connection.
      peers: the shards.
    """

    def __init__(self, client: RoutedClient, peers: Peers) -> None:
        self._client = client
        self._peers = peers
        self._links: dict[int, Link] = {}
        self._outgoing: dict[int, list[_Short]] = {}
        self._introduced: tuple[tuple[Any, ...], Introduction] | None = None  # what the client was, and is as such
        self._chosen: dict[bytes, int] = {}  # the parts of messages without keys, until the next iteration
        self._stream: SpreadStream | None = None
        self._got = Got(client, peers.placing, self._ask)
        self._of_all: dict[bytes, Callable[[Command], bool]] = {
            b"MULTI": self._multi,
            b"EVENTS": self._events,
            b"RECEIVEANY": self._receive_any,
        }

    # --- for the connection -----------------------------------------------------------------------------------

    def execute(self, command: Parsed) -> bool:
        """Carry out a command, and see to its reply, if it concerns other shards; return whether it does."""
        try:
            return self._execute(command)
        except MiniqueueError as exc:
            self._client.reply(self._client.refusal(exc) * _reply_count(command))
            return True

    def own(self, command: Parsed) -> Parsed | None:
        """Return a command as this process carries it out; None if it concerns other shards, or several parts."""
        try:
            shard_and_topic = self._place_of(command)
            if shard_and_topic is None or not isinstance(command, list):
                return None
            shard, topic = shard_and_topic
            if part_count := self._client.broker.spread_of(topic):
                number = parting.part_by_key(command, part_count)
                if number is None:
                    return None
                topic = part_name(topic, number)
                shard, command = self._peers.placing.shard_of(topic), parting.renamed(command, topic)
        except MiniqueueError:  # it is refused in its turn
            return None
        return command if shard == self._peers.placing.number else None

    def _send_outgoing(self) -> None:
        """Send what was gathered, to each owner at once."""
        outgoing, self._outgoing = self._outgoing, {}
        for shard, shorts in outgoing.items():
            try:
                link = self._link(shard)
            except MiniqueueError as exc:
                self._refuse(shorts, exc)
                continue
            pieces, line_count, are_lines = list[bytes](), 0, True
            for short in shorts:  # mostly one
                pieces += short.pieces
                line_count += short.reply_count
                are_lines = are_lines and short.are_lines
            on_end, on_failure = partial(self._give_out, shorts), partial(self._lose, shorts)
            link.send(b"".join(pieces), Batch(None, on_end, on_failure, line_count if are_lines else 0))

    def pause(self) -> None:
        """Read no replies from the owners until `resume`."""
        for link in self._links.values():
            link.pause()
        if self._stream is not None:
            self._stream.pause()

    def resume(self) -> None:
        """Read replies again."""
        for link in self._links.values():
            link.resume()
        if self._stream is not None:
            self._stream.resume()

    def end(self) -> bool:
        """Leave the end of a connection that has subscribed to the owner, which answers what was sent before."""
        mode = self._client.mode
        if isinstance(mode, (Tunnel, SpreadStream)):
            mode.end()
            return True
        return False

    def leave(self) -> None:
        """End the links, after the replies to what was sent: the owners return what the client holds."""
        self._send_outgoing()
        links, self._links = self._links, {}
        for link in links.values():
            link.close_when_answered()
        self._got.clear()
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    # --- one shard --------------------------------------------------------------------------------------------

    def _execute(self, command: Parsed) -> bool:
        shard_and_topic = None if self._is_for_channels(command) else self._place_of(command)
        if shard_and_topic is not None:
            return self._lead(*shard_and_topic, command)
        if isinstance(command, (Run, RunTransaction)):
            return False  # the connection refuses it
        begin, is_change = self._of_all.get(command[0].upper()), changes_schedules(command)
        if begin is None and not is_change and not is_gathered(command):
            return False
        self._check(command)
        if begin is not None:
            return begin(command)
        work = partial(change_schedule, self._peers, self._client.broker.spread_of) if is_change else self._gathered
        self._when_written(partial(work, command))
        return True

    def _lead(self, shard: int, topic: bytes, command: Parsed) -> bool:
        """Lead a command to the shard with its topic, or to its parts; return False if it is carried out here."""
        part_count = self._client.broker.spread_of(topic)
        if part_count or setting.spreads(command):
            return self._on_parts(topic, part_count, command)
        if shard == self._peers.placing.number:
            return False
        self._pass_on(shard, topic, command)
        return True

    def _place_of(self, command: Parsed) -> tuple[int, bytes] | None:
        """Return the shard and the topic that a command concerns; None if it concerns none."""
        if isinstance(command, (Run, RunTransaction)):
            topic = (command if isinstance(command, Run) else command.run).head[1]
            if self._client.guard is not None and not self._client.guard.lets_publish(topic):
                return None
        else:
            topic_at = command_needs(command).topic_at
            if topic_at is None and command[0].upper() == b"GROUP":
                topic_at = 2  # GROUP HOLDERS requires a right on all topics
            if topic_at is None or len(command) <= topic_at:
                return None
            topic = command[topic_at]
        if SEPARATOR in topic:  # no client can name a part
            raise InvalidTopicError
        return self._peers.placing.shard_of(topic), topic

    def _is_for_channels(self, command: Parsed) -> bool:
        """Return whether a command concerns the channels of Redis to which the connection has subscribed."""
        if self._client.mode is None or isinstance(command, (Run, RunTransaction)):
            return False
        return command[0].upper() in (b"SUBSCRIBE", b"SUB")

    def _check(self, command: Command) -> None:
        if self._client.guard is not None:
            self._client.guard.check(command)

    def _pass_on(self, shard: int, topic: bytes, command: Parsed) -> None:
        """Send a command to its owner, or the client there; raises MiniqueueError."""
        client = self._client
        word = b"" if isinstance(command, (Run, RunTransaction)) else command[0].upper()
        if not isinstance(command, (Run, RunTransaction)):
            self._check(command)
        if moved := self._moved(shard, topic, command):
            client.reply(moved * _reply_count(command))
            return
        self._forward(shard, command, word)

    def _forward(self, shard: int, command: Parsed, word: bytes) -> None:
        """Send a command to its owner; `word` is its name, b"" for a run. Raises MiniqueueError."""
        client, link, data = self._client, self._link(shard), encode(command)
        if isinstance(command, Run) or word in SHORT:
            reply_count, are_lines = _reply_count(command), word in (b"", b"PUBLISH")
            last = self._outgoing[shard][-1] if shard in self._outgoing else None
            if last is not None and client.await_more(last.late, len(data)):
                last.extend(data, reply_count, are_lines=are_lines)
            else:
                late = client.await_reply(len(data))
                self._send_soon(shard, _Short(data, reply_count, late, are_lines=are_lines))
            return
        self._send_outgoing()
        if word in WAITING:
            topic = command[1] if word == b"RECEIVE" and isinstance(command, list) else None
            self._wait(link, data, word, partial(self._take_back, topic) if topic else _nothing)
        elif word in (b"SUBSCRIBE", b"SUB"):
            client.hold()
            link.send(data, Batch(None, partial(self._begin_tunnel, link), partial(self._fail, word)))
        else:
            client.hold()
            link.send(data, Batch(client.send, client.release, partial(self._fail, word)))

    def _send_soon(self, shard: int, short: _Short) -> None:
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self._send_outgoing)
        self._outgoing.setdefault(shard, []).append(short)

    def _wait(self, link: Link, data: bytes, word: bytes, take_back: Callable[[bytes], None]) -> None:
        """Send a command that can wait at its owner; it does not if the client has ended, and so may have gone."""
        client, passed_on = self._client, PassedOn(self._client, link, take_back)
        client.hold(passed_on)
        link.send(data, Batch(passed_on.take_part, passed_on.take, partial(self._fail, word)))
        if client.has_ended:
            passed_on.wait_no_longer()

    def _moved(self, shard: int, topic: bytes, command: Parsed) -> bytes:
        """Return the reply that sends the client to the node of a shard; b"" if the command is to be passed on.

        Only a client that was shown the nodes is sent, and only where it finds the topic by its slot: clients do not
        place `orders.dlq` by `orders`, so they would return again and again. What a client holds in a shard can only
        be settled through the same connection, so that a client that was passed on to a shard is not sent there.
        Raises ShardAwayError.
        """
        session, nodes = self._client.session, self._client.server.nodes
        is_sent = session.knows_nodes and nodes.first_port and shard not in self._links
        if not is_sent or isinstance(command, RunTransaction):
            return b""
        self._peers.check(shard)
        slot, node = slot_of(topic), nodes.seen_at(session.local)[shard]
        return replies.error("MOVED", f"{slot} {node.host}:{node.port}") if slot in node.slots else b""

    def _begin_tunnel(self, link: Link, replies: bytes) -> None:
        """Make the connection a tunnel, unless the owner has refused; the first deliveries may have come."""
        if not replies.startswith(b"-"):
            self._client.mode = Tunnel(self._client, link)
        self._client.release(replies)

    def _give_out(self, shorts: list[_Short], data: bytes) -> None:
        try:  # what is one reply for the client is not looked at
            texts = [data] if len(shorts) == 1 else split_replies(data, [short.reply_count for short in shorts])
        except ProtocolError:
            self._client.abort()
        else:
            self._client.give_out([short.late for short in shorts], texts)

    def _lose(self, shorts: list[_Short], failure: Failure) -> None:
        self._refuse(shorts, _away() if failure is Failure.UNSENT else _unknown())

    def _refuse(self, shorts: list[_Short], error: MiniqueueError) -> None:
        refusal = self._client.refusal(error)
        self._client.give_out([short.late for short in shorts], [refusal * short.reply_count for short in shorts])

    def _fail(self, word: bytes, failure: Failure) -> None:
        """Answer a command whose owner has ended; if it has begun to answer, the rest is missing."""
        if failure is Failure.PARTLY:
            self._client.abort()
        else:
            is_known = failure is Failure.UNSENT or word in READING
            self._client.release(self._client.refusal(_away() if is_known else _unknown()))

    # --- transactions -----------------------------------------------------------------------------------------

    def _multi(self, command: Command) -> bool:
        if len(command) != 1:
            return False
        client = self._client
        client.mode = DoorTransaction(
            client, self._peers.placing.number, self._place_of_queued, self._execute_transaction
        )
        client.reply(replies.OK)
        return True

    def _place_of_queued(self, command: Command | Run, shard: int | None) -> Place | None:
        """Return the place of a command in a transaction of a shard; None if it concerns no topic.

        Raises RequestError, or SpreadTopicError.
        """
        shard_and_topic = self._place_of(command)
        if shard_and_topic is None:
            return None
        own, topic = shard_and_topic
        part_count = self._client.broker.spread_of(topic)
        if not part_count:
            return Place(own, topic, command)
        return place_in(self._peers.placing, topic, part_count, command, shard)

    def _execute_transaction(self, shard: int, commands: Sequence[Command | Run]) -> None:
        """Carry out a transaction in another shard, from MULTI to EXEC; raises ShardAwayError."""
        client = self._client
        self._send_outgoing()
        link = self._link(shard)
        count = sum(map(_reply_count, commands)) - 2
        client.hold()
        batch = Batch(None, lambda data: client.release(reply_to_exec(data, count)), partial(self._fail, b"EXEC"))
        link.send(b"".join(map(encode, commands)), batch)

    # --- spread topics ----------------------------------------------------------------------------------------

    def _on_parts(self, topic: bytes, part_count: int, command: Parsed) -> bool:
        """Carry out a command that concerns a spread topic, by its parts; return False to do it here, on the whole."""
        if isinstance(command, RunTransaction):
            self._multi(command.first)
            self._client.put_back([command.run, command.last])
            return True
        if isinstance(command, Run):
            self._carry_out_in_part(topic, self._choose(topic, part_count, len(command.lasts)), command)
            return True
        self._check(command)
        word, subcommand = command[0].upper(), command[1].upper()
        is_whole = topic in self._client.broker.spread_topics
        if word == b"TOPIC" and subcommand == b"GET" and is_whole:
            return False
        if setting.sets(command):
            self._when_written(partial(self._set, topic, part_count, command))
        elif word in (b"SUBSCRIBE", b"SUB"):
            self._subscribe(topic, part_count, command)
        elif word == b"RECEIVE":
            self._client.check_client()
            taking = Taking()
            self._receive_when_written(topic, partial(self._receive_spread, topic, part_count, command, taking), taking)
        elif word in batches.PARSERS and len(command) >= batches.LEAST_WORDS:
            self._publish_batch(topic, part_count, command)
        elif self._got.is_about(command):
            self._when_written(partial(self._got.carry_out, part_count, command))
        elif (number := parting.part_of(command, part_count, partial(self._choose, topic, part_count))) is not None:
            self._carry_out_in_part(topic, number, command)
        elif word in parting.SETTLES:
            self._when_written(partial(self._settle_parts, topic, command, parting.cut(command, part_count)))
        else:
            work = asking.work_of(command, part_count, self._client.session.protocol)
            self._when_written(partial(self._ask_parts, topic, work))
        return True

    def _publish_batch(self, topic: bytes, part_count: int, command: Command) -> None:
        """Publish a batch whose messages can have keys, in the parts of these; raises MiniqueueError."""
        shares = batches.cut(command, part_count, partial(self._choose, topic, part_count), self._check_batch)
        if len(shares) == 1:
            self._carry_out_in_part(topic, shares[0].number, command)
            return
        client, parts = self._client, [part_name(topic, share.number) for share in shares]
        own, shards = self._peers.placing.number, list(map(self._peers.placing.shard_of, parts))
        for shard in {*shards} - {own}:
            self._link(shard)  # before any part is published
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
                self._send_soon(shard, _Short(encode(words), 1, late))
        if here:
            client.when_room(partial(batches.publish_here, client, here, here_late))

    def _check_batch(self, payloads: Sequence[bytes], options: BatchOptions) -> None:
        """Raise PayloadTooLargeError or RequestError if any part would refuse its messages, so that none is added."""
        broker = self._client.broker
        if (longest_bytes := max(map(len, payloads))) > broker.max_message_bytes:
            raise PayloadTooLargeError(longest_bytes, broker.max_message_bytes)
        if options.others:
            options.attributes(broker.clock.now_ms())

    def _choose(self, topic: bytes, part_count: int, message_count: int) -> int:
        """Return the part of messages without a key: those of one pipeline are in one, so that they are one batch."""
        if not self._chosen:
            asyncio.get_running_loop().call_soon(self._chosen.clear)
        number = self._chosen.get(topic)
        if number is None:
            number = self._chosen[topic] = self._peers.part_choice.choose(topic, part_count, message_count)
        else:
            self._peers.part_choice.add(topic, number, message_count)
        return number

    def _carry_out_in_part(self, topic: bytes, number: int, command: Command | Run) -> None:
        """Carry out a command in a part: here, if the part is in this shard. Raises MiniqueueError."""
        part, shard = part_name(topic, number), self._peers.placing.shard_of_part(topic, number)
        is_here = shard == self._peers.placing.number
        if isinstance(command, Run):
            if is_here:
                self._client.command_count += len(command.lasts) - 1
                self._client.publish(part, command.lasts)
            else:
                self._forward(shard, Run([command.head[0], part], command.lasts), b"")
            return
        own = parting.renamed(command, part)
        if not is_here:
            self._forward(shard, own, own[0].upper())
        elif reply := table.execute(self._client, own):
            self._client.reply(reply)

    async def _ask_parts(self, topic: bytes, work: asking.Work) -> bytes:
        """Return the reply of the whole topic; what its parts reply is charged meanwhile. Raises MiniqueueError."""
        account, size_bytes = self._client.account, 0

        async def ask(number: int, command: Command) -> bytes:
            nonlocal size_bytes
            part = part_name(topic, number)
            own = command if command[0] == b"TASK" else parting.renamed(command, part)
            answer = await self._ask(self._peers.placing.shard_of(part), own)
            size_bytes += GATHERED_FACTOR * len(answer)
            account.add(Purpose.OUTPUT, GATHERED_FACTOR * len(answer))
            return answer

        try:
            return await work(ask)
        finally:
            account.add(Purpose.OUTPUT, -size_bytes)

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
            return await self._ask(shard, own)
        try:
            return await settle_by_receipt(self._client, own)
        except MiniqueueError as exc:
            return replies.error(exc.code, str(exc))

    async def _set(self, topic: bytes, part_count: int, command: Command) -> bytes:
        """Create, change, pause, or delete a spread topic: first in its home shard, then everywhere."""
        for link in [link for link in self._links.values() if not link.is_lost]:
            await link.ask(encode([b"PING"]))  # what was sent before is answered: orders take other links
        shard = self._peers.placing.shard_of(topic)
        home = setting.Home(partial(self._ask, shard), partial(order, self._peers, shard))
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
        self._send_outgoing()
        self._stream = SpreadStream(self._client, command, part_count, self._peers.growth)
        self._stream.begin([self._peers.open(shard, self._introduction()) for shard in shards])

    async def _receive_spread(self, topic: bytes, part_count: int, command: Command, taking: Taking) -> bytes:
        """Return the reply to RECEIVE: what the parts have now, or, if they have nothing, what comes meanwhile."""
        client, placing, options = self._client, self._peers.placing, options_of_receive(command[2:])
        client.session.received = topic, options.group, options.member
        await self._use_group(topic, options)
        if options.member:
            self._join(topic, part_count, options)

        async def take_from(shard: int, parts: Sequence[bytes], max_count: int) -> bytes:
            if not is_there(client):
                return EMPTY
            if shard == placing.number:
                return await take_here(client, parts, options._replace(max_count=max_count), taking)
            return _answer(await self._link(shard).ask_order(*order_of(command[2:], parts, max_count)))

        until = asyncio.get_running_loop().time() + options.wait_seconds
        received = await take(take_from, placing, topic, part_count, options.max_count, self._peers.chance)
        if received != EMPTY or not self._may_wait(until, taking):
            return received
        asked = [b"RECEIVEANY", *command[2:], b"TOPICS", *(part_name(topic, number) for number in range(part_count))]
        return parting.messages_of(await self._wait_in_shards(receiving.wanted(asked), until, taking))

    # --- all shards -------------------------------------------------------------------------------------------

    def _when_written(self, work: Callable[[], Coroutine[Any, Any, bytes]], waiting: Waiting | None = None) -> None:
        """Reply with the result of `work`, which begins when what the client has written before is committed."""
        self._send_outgoing()
        if reply := self._client.after_writes(lambda: answer_later(self._client, work(), waiting)):
            self._client.reply(reply)

    async def _ask(self, shard: int, command: Command) -> bytes:
        """Return the reply of a shard, of this one through its own back; raises ShardAwayError."""
        if shard == self._peers.placing.number and parting.is_about_own_leases(command):
            held = table.execute(self._client, command)  # what this connection itself holds, and by its link below
            if shard not in self._links:
                return held
            return merging.merged([held, await self._ask_over_link(shard, command)], merging.joined, 2)
        return await self._ask_over_link(shard, command)

    async def _ask_over_link(self, shard: int, command: Command) -> bytes:
        return _answer(await self._link(shard).ask(encode(command)), changes=_changes(command))

    async def _gathered(self, command: Command) -> bytes:
        """Return the reply of all shards; what is gathered for it is charged to the client meanwhile."""
        account, size_bytes = self._client.account, 0

        async def ask_all(command: Command) -> list[bytes]:
            nonlocal size_bytes
            answers = await self._ask_all(command)
            added_bytes = GATHERED_FACTOR * sum(map(len, answers))
            account.add(Purpose.OUTPUT, added_bytes)
            size_bytes += added_bytes
            return answers

        try:
            return await gathered(self._client, self._peers.placing, self._ask, ask_all, command)
        finally:
            account.add(Purpose.OUTPUT, -size_bytes)

    async def _ask_all(self, command: Command) -> list[bytes]:
        """Return the replies of all shards; raises ShardAwayError."""
        shards = range(self._peers.placing.shard_count)
        for shard in shards:
            self._link(shard)  # before one of them is asked
        return await asyncio.gather(*[self._ask(shard, command) for shard in shards])

    def _events(self, command: Command) -> bool:
        """Report the events of the other shards, too, which begin with OK, and end with the connection."""
        client = self._client
        links = [self._link(shard) for shard in self._peers.others()]
        client.reply(table.execute(client, command))
        for link in links:
            link.open_tunnel(Tunneled(WholeReplies(client.send, skip=1).take, self._end_events))
            link.write(encode(command))
        return True

    def _end_events(self) -> None:
        """End the connection: what happened in a shard meanwhile is not known, so the client has to begin again."""
        if isinstance(self._client.mode, EventStream):
            self._client.leave()
            self._client.close_when_sent()

    def _receive_any(self, command: Command) -> bool:
        placing, waits = self._peers.placing, Waits()
        named, command = command, self._with_parts(command)
        shard = only_shard_of(command, placing)
        if shard == placing.number and command is named:
            return False
        if shard is None or command is not named:
            self._receive_when_written(None, partial(self._receive_from_any, named, command, waits), waits)
        else:
            self._send_outgoing()
            link = self._link(shard)
            self._wait(link, encode(command), b"RECEIVE", partial(self._take_back, None))
        return True

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
                self._link(shard).give_order(JOIN, *joining)

    def _receive_when_written(
        self, topic: bytes | None, work: Callable[[], Coroutine[Any, Any, bytes]], waits: Waits
    ) -> None:
        """Reply with messages, of a topic, or of several if it is None; if the client has left, they return."""

        async def receive() -> bytes:
            reply = await work()
            if not is_there(self._client):
                self._take_back(topic, reply)
            return reply

        self._when_written(receive, waits)

    async def _receive_in_shards(self, command: Command, waits: Waits) -> bytes:
        """Return the reply to RECEIVEANY: what there is now, or, if there is nothing, what comes first."""
        wanted = receiving.wanted(command)
        until = asyncio.get_running_loop().time() + wanted.wait_seconds
        is_present = partial(is_there, self._client)
        received = await receiving.receive_now(self._ask, self._peers.placing, wanted, is_present)
        if received == EMPTY and self._may_wait(until, waits):
            received = await self._wait_in_shards(wanted, until, waits)
        return received

    def _may_wait(self, until: float, waits: Waits) -> bool:
        """Return whether the client waits for messages, and there is time left."""
        return waits.is_waiting and not self._client.has_ended and until > asyncio.get_running_loop().time()

    async def _wait_in_shards(self, wanted: receiving.Wanted, until: float, waits: Waits) -> bytes:
        """Return the messages of the shard that has some first, as a reply to RECEIVEANY; raises ShardAwayError."""
        commands = wanted.waits(self._peers.placing, until - asyncio.get_running_loop().time())
        links = [self._link(shard) for shard in commands]  # before one of them waits
        waits.act = waiting = WaitingShards(partial(self._take_back, None))
        for (shard, own), link in zip(commands.items(), links, strict=True):
            waiting.ask(shard, link, own)
        first = _answer(await waiting.first())
        return await self._acknowledged(first) if wanted.is_acked and is_there(self._client) else first

    async def _acknowledged(self, reply: bytes) -> bytes:
        """Acknowledge the messages in a reply to RECEIVEANY; return it as it is with AUTOACK."""
        for topic, receipts in leased_in(reply, None, self._client.broker.spread_of):
            with suppress(MiniqueueError):  # then they are delivered again, as after a crash
                await self._ask(self._peers.placing.shard_of(topic), [b"ACK", topic, *receipts])
        return receiving.without_receipts(reply)

    def _take_back(self, topic: bytes | None, reply: bytes) -> None:
        """Return the messages in the reply to RECEIVE of a topic, or to RECEIVEANY, which the client does not get."""

        def open_link(name: bytes) -> Link:
            return self._peers.open(self._peers.placing.shard_of(name), self._introduction())

        for name, receipts in leased_in(reply, topic, self._client.broker.spread_of):
            take_back(open_link, name, receipts)

    async def _receive_from_any(self, named: Command, command: Command, waits: Waits) -> bytes:
        """Return the reply to RECEIVEANY, `named` as the client has sent it; raises MiniqueueError."""
        words, _, topics = topics_of(named[1:])
        options = options_of_receive(words)
        for topic in topics:
            if self._client.broker.spread_of(topic):
                await self._use_group(topic, options)
        return await self._receive_in_shards(command, waits)

    async def _use_group(self, topic: bytes, options: ReceiveOptions) -> None:
        """Create a group in all parts of a topic, if it is used now for the first time; raises MiniqueueError."""
        if options.group != DEFAULT_GROUP_NAME:
            check_permitted(self._client.user, Right.CONSUME, topic, "RECEIVE")
            await use_group(self._client.broker, self._peers, topic, options.group)

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

    # --- links ------------------------------------------------------------------------------------------------

    def _link(self, shard: int) -> Link:
        """Return the link to a shard, as the client that the connection is now; raises ShardAwayError."""
        link, introduction = self._links.get(shard), self._introduction()
        if link is None or link.is_lost:
            link = self._links[shard] = self._peers.open(shard, introduction)
        elif link.introduction != introduction:  # the owner keeps what the connection holds by GET
            link.introduce(introduction)
        return link

    def _introduction(self) -> Introduction:
        session, user = self._client.session, self._client.user
        identity = user, session.protocol, session.name, session.library
        if self._introduced is None or self._introduced[0] != identity:
            introduction = Introduction(
                "resp",
                session.peer or ("?", 0),
                session.id,
                None if user is None else user.name,
                session.protocol,
                session.name.decode(),
                session.library.decode(),
            )
            self._introduced = identity, introduction
        return self._introduced[1]


def _away() -> MiniqueueError:
    return ShardAwayError(AWAY.format("try again"))


def _unknown() -> MiniqueueError:
    return OutcomeUnknownError(AWAY.format("whether the command was carried out is unknown"))


def _answer(reply: bytes | Failure, *, changes: bool = False) -> bytes:
    """Return a reply of another shard; raises ShardAwayError, OutcomeUnknownError."""
    if isinstance(reply, Failure):
        raise _unknown() if changes and reply is not Failure.UNSENT else _away()
    return reply


def encode(command: Parsed) -> bytes:
    """Return a command, or commands that are carried out together, as a client would send them."""
    if isinstance(command, RunTransaction):
        return encode(command.first) + encode(command.run) + encode(command.last)
    if isinstance(command, Run):
        return encode_run(command)
    return encode_command(command)


def _changes(command: Command) -> bool:
    """Return whether a command of which one shard carries out a part changes something."""
    if command[0].upper() in CHANGING:
        return True
    return command[0].upper() in (b"SCHEDULE", b"TASK") and command[1].upper() not in (b"GET", b"LIST")


def _reply_count(command: Parsed) -> int:
    if isinstance(command, RunTransaction):
        return 2 + len(command.run.lasts)
    return len(command.lasts) if isinstance(command, Run) else 1


def _nothing(_: bytes) -> None:
    """Ignore a reply that leases nothing."""


class Tunnel:
    """The mode of a connection that has subscribed at an owner: commands and deliveries pass as they come."""

    is_subscription = True

    def __init__(self, client: RoutedClient, link: Link) -> None:
        self._client = client
        self._link = link
        self._has_ended = False
        link.open_tunnel(Tunneled(client.send, self._end))

    def execute(self, command: Command) -> bytes:
        """Send a command on; RESET ends the tunnel, after what the owner has sent before."""
        if command[0].upper() == b"RESET":
            self._client.hold()
            self._link.send(encode(command), Batch(self._client.send, self._reset, lambda _: self._end()))
        else:
            self._link.write(encode(command))
            if not self._link.has_room(partial(self._client.release, b"")):
                self._client.hold()
        return b""

    def end(self) -> None:
        """Close our half of the link, as the client has closed its half of the connection."""
        if not self._has_ended:
            self._has_ended = True
            self._link.end()

    def _reset(self, rest: bytes) -> None:
        self._client.mode = None
        table.execute(self._client, [b"RESET"])  # the owner has answered
        self._client.release(rest)

    def _end(self) -> None:
        """End the connection: its owner has ended, or has ended the stream."""
        if self._client.mode is self:
            self._client.mode = None
            self._client.close_when_sent()
