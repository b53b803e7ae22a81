"""What a connection sends to the owners of topics, and their replies.

    publishes and settles ─▶ gathered for each shard until the next iteration
    SUBSCRIBE             ─▶ a tunnel
    others                ─▶ one by one; the connection is held until the reply

Replies have the order of the commands: those of gathered commands wait for each other in the queue of the connection.
An owner knows the client by the introduction of the link, and returns what the client holds when the link ends.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final

from miniqueue.broker.runtime.accounts import MemoryAccount, Purpose
from miniqueue.core.message.slots import slot_of
from miniqueue.errors import MiniqueueError, ProtocolError
from miniqueue.errors.requests import OutcomeUnknownError, ShardAwayError
from miniqueue.server.resp.commands import table
from miniqueue.server.resp.commands.context import Waiting, answer_later
from miniqueue.server.resp.keyed import PUBS, KeyedRun, encode_keyed
from miniqueue.server.resp.replies import LateReply
from miniqueue.server.resp.router import RoutedClient
from miniqueue.server.shards.links.introduction import Introduction
from miniqueue.server.shards.links.link import Batch, Failure, Link
from miniqueue.server.shards.links.peers import Peers
from miniqueue.server.shards.resp.parts import merging, parting
from miniqueue.server.shards.resp.returning import leased_in, take_back
from miniqueue.server.shards.resp.tunnel import Tunnel
from miniqueue.server.shards.resp.waiting import PassedOn
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command, encode_command
from miniqueue.wire.resp_reader import Parsed, Run, RunTransaction, encode_run
from miniqueue.wire.resp_splitting import split_replies

#: Commands with short replies, which do not hold the connection.
SHORT: Final = frozenset(
    {b"PUBLISH", b"PUB", b"MPUBLISH", b"PUBBATCH", b"PUBEACH", b"PUBPACKED"}
    | {b"ACK", b"NACK", b"BACK", b"DACK", b"REJECT", b"EXTEND"}
)
#: Commands that change a topic, of which several shards are asked.
CHANGING: Final = parting.SETTLES | {*(b"TOPIC", b"PAUSE", b"RESUME", b"GROUP", b"PURGE", b"REDRIVE", b"MESSAGES")}
#: Commands that can wait for a long time.
WAITING: Final = frozenset({b"RECEIVE", b"REQUEST"})
#: Commands after which nothing has changed, even if their owner has ended.
READING: Final = frozenset(
    {b"LEN", b"STATS", b"PEEK", b"SEARCH", b"TRACE", b"READ", b"PARTITIONS", b"LEASES"}
    | {b"RECEIVE", b"GET", b"SUBSCRIBE", b"SUB"}
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


class Owners:
    """The links of one connection.

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

    # --- links ------------------------------------------------------------------------------------------------

    def link(self, shard: int) -> Link:
        """Return the link to a shard, as the client that the connection is now; raises ShardAwayError."""
        link, introduction = self._links.get(shard), self._introduction()
        if link is None or link.is_lost:
            link = self._links[shard] = self._peers.open(shard, introduction)
        elif link.introduction != introduction:  # the owner keeps what the connection holds by GET
            link.introduce(introduction)
        return link

    def open(self, shard: int) -> Link:
        """Return another link to a shard, which the caller closes; raises ShardAwayError."""
        return self._peers.open(shard, self._introduction())

    def pause(self) -> None:
        """Read no replies until `resume`."""
        for link in self._links.values():
            link.pause()

    def resume(self) -> None:
        """Read replies again."""
        for link in self._links.values():
            link.resume()

    def leave(self) -> None:
        """End the links, after the replies to what was sent: the owners return what the client holds."""
        self.send_gathered()
        links, self._links = self._links, {}
        for link in links.values():
            link.close_when_answered()
            link.resume()  # nothing else does any more

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

    # --- commands of the client -------------------------------------------------------------------------------

    def lead(self, shard: int, topic: bytes, command: Parsed) -> None:
        """Send a command to the owner of its topic, or the client there; raises MiniqueueError."""
        if moved := self._moved(shard, topic, command):
            self._client.reply(moved * reply_count_of(command))
        else:
            self.forward(shard, command)

    def forward(self, shard: int, command: Parsed) -> None:
        """Send a command to a shard, which replies to the client; raises ShardAwayError."""
        client, link, data = self._client, self.link(shard), encode(command)
        word = b"" if isinstance(command, (Run, RunTransaction)) else command[0].upper()
        if isinstance(command, Run) or word in SHORT:
            self._forward_short(shard, data, reply_count_of(command), are_lines=word in (b"", b"PUBLISH"))
            return
        self.send_gathered()
        if word in WAITING:
            topic = command[1] if word == b"RECEIVE" and isinstance(command, list) else None
            self._wait(link, data, word, partial(self.take_back, topic) if topic else _nothing)
        elif word in (b"SUBSCRIBE", b"SUB"):
            client.hold()
            link.send(data, Batch(None, partial(self._begin_tunnel, link), partial(self._fail, word)))
        else:
            client.hold()
            link.send(data, Batch(client.send, client.release, partial(self._fail, word)))

    def lead_run(self, shard: int, run: KeyedRun) -> None:
        """Send messages with keys to the owner of their topic, or the client there; raises MiniqueueError."""
        count = len(run.keys)
        if moved := self._moved(shard, run.topic, [PUBS[0]]):
            self._client.reply(moved * count)
        else:
            self.link(shard)
            data = encode_keyed([run.topic] * count, run.payloads, run.keys)
            self._forward_short(shard, data, count, are_lines=False)

    def _forward_short(self, shard: int, data: bytes, reply_count: int, *, are_lines: bool) -> None:
        client = self._client
        last = self._outgoing[shard][-1] if shard in self._outgoing else None
        if last is not None and client.await_more(last.late, len(data)):
            last.extend(data, reply_count, are_lines=are_lines)
        else:
            late = client.await_reply(len(data))
            self._send_soon(shard, _Short(data, reply_count, late, are_lines=are_lines))

    def forward_receive_any(self, shard: int, command: Command) -> None:
        """Send a RECEIVEANY to the shard that has all of its topics; raises ShardAwayError."""
        self.send_gathered()
        self._wait(self.link(shard), encode_command(command), b"RECEIVE", partial(self.take_back, None))

    def forward_transaction(
        self, shard: int, commands: Sequence[Command | Run], reply_of: Callable[[bytes], bytes]
    ) -> None:
        """Send a transaction, from MULTI to EXEC; `reply_of` makes one reply of all. Raises ShardAwayError."""
        client = self._client
        self.send_gathered()
        link = self.link(shard)
        client.hold()
        batch = Batch(None, lambda data: client.release(reply_of(data)), partial(self._fail, b"EXEC"))
        link.send(b"".join(map(encode, commands)), batch)

    def gather(self, shard: int, commands: bytes, late: LateReply, reply_count: int = 1) -> None:
        """Send commands with short replies, for which `late` waits, with what else is sent in this iteration."""
        with suppress(ShardAwayError):  # which will be the reply
            self.link(shard)  # introduces the client as it is now
        self._send_soon(shard, _Short(commands, reply_count, late))

    def send_gathered(self) -> None:
        """Send what was gathered, to each owner at once, as the client that it was then."""
        outgoing, self._outgoing = self._outgoing, {}
        for shard, shorts in outgoing.items():
            link = self._links.get(shard)
            if link is None or link.is_lost:
                try:
                    link = self.link(shard)
                except MiniqueueError as exc:
                    self._refuse(shorts, exc)
                    continue
            on_end, on_failure = partial(self._give_out, shorts), partial(self._lose, shorts)
            if len(shorts) == 1:
                [short] = shorts
                data, line_count, are_lines = b"".join(short.pieces), short.reply_count, short.are_lines
            else:
                data = b"".join([piece for short in shorts for piece in short.pieces])
                line_count, are_lines = sum(short.reply_count for short in shorts), all(s.are_lines for s in shorts)
            link.send(data, Batch(None, on_end, on_failure, line_count if are_lines else 0))

    def _send_soon(self, shard: int, short: _Short) -> None:
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self.send_gathered)
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

    def _begin_tunnel(self, link: Link, data: bytes) -> None:
        """Make the connection a tunnel, unless the owner has refused; the first deliveries may have come."""
        if not data.startswith(b"-"):
            self._client.mode = Tunnel(self._client, link)
        self._client.release(data)

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

    # --- questions for a command of the client ----------------------------------------------------------------

    def when_written(self, work: Callable[[], Coroutine[Any, Any, bytes]], waiting: Waiting | None = None) -> None:
        """Reply with the result of `work`, which begins when what the client has written before is committed."""
        self.send_gathered()
        if reply := self._client.after_writes(lambda: answer_later(self._client, work(), waiting)):
            self._client.reply(reply)

    async def ask(self, shard: int, command: Command) -> bytes:
        """Return the reply of a shard, of this one through its own back; raises ShardAwayError, OutcomeUnknownError."""
        if shard == self._peers.placing.number and parting.is_about_own_leases(command):
            held = table.execute(self._client, command)  # what this connection itself holds, and by its link below
            if shard not in self._links:
                return held
            return merging.merged([held, await self._ask_over_link(shard, command)], merging.joined, 2)
        return await self._ask_over_link(shard, command)

    async def ask_all(self, command: Command) -> list[bytes]:
        """Return the replies of all shards; raises ShardAwayError, OutcomeUnknownError."""
        shards = range(self._peers.placing.shard_count)
        for shard in shards:
            self.link(shard)  # before one of them is asked
        return await asyncio.gather(*[self.ask(shard, command) for shard in shards])

    async def until_answered(self) -> None:
        """Return when what was sent before is answered: what takes other links can be sent."""
        for link in [link for link in self._links.values() if not link.is_lost]:
            await link.ask(encode_command([b"PING"]))

    def take_back(self, topic: bytes | None, reply: bytes) -> None:
        """Return the messages in the reply to RECEIVE of a topic, or to RECEIVEANY, which the client does not get."""

        def open_link(name: bytes) -> Link:
            return self.open(self._peers.placing.shard_of(name))

        for name, receipts in leased_in(reply, topic, self._client.broker.spread_of):
            take_back(open_link, name, receipts)

    async def _ask_over_link(self, shard: int, command: Command) -> bytes:
        return answer(await self.link(shard).ask(encode_command(command)), changes=_changes(command))


@contextmanager
def charged_to(account: MemoryAccount) -> Iterator[Callable[[bytes], bytes]]:
    """Yield what charges an answer, and returns it, until the block ends and one reply is made of all."""
    size_bytes = 0

    def charge(answer: bytes) -> bytes:
        nonlocal size_bytes
        size_bytes += GATHERED_FACTOR * len(answer)
        account.add(Purpose.OUTPUT, GATHERED_FACTOR * len(answer))
        return answer

    try:
        yield charge
    finally:
        account.add(Purpose.OUTPUT, -size_bytes)


def answer(reply: bytes | Failure, *, changes: bool = False) -> bytes:
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


def reply_count_of(command: Parsed) -> int:
    """Return the number of replies to a command, or to commands that are carried out together."""
    if isinstance(command, RunTransaction):
        return 2 + len(command.run.lasts)
    return len(command.lasts) if isinstance(command, Run) else 1


def _away() -> MiniqueueError:
    return ShardAwayError(AWAY.format("try again"))


def _unknown() -> MiniqueueError:
    return OutcomeUnknownError(AWAY.format("whether the command was carried out is unknown"))


def _changes(command: Command) -> bool:
    """Return whether a command of which one shard carries out a part changes something."""
    if command[0].upper() in CHANGING:
        return True
    return command[0].upper() in (b"SCHEDULE", b"TASK") and command[1].upper() not in (b"GET", b"LIST")


def _nothing(_: bytes) -> None:
    """Ignore a reply that leases nothing."""
