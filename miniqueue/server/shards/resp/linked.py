"""The owner's end of a link: a RESP connection of a client that another process has accepted and authenticated."""

import asyncio

from miniqueue.broker.leases.settling import LEAVE
from miniqueue.broker.runtime.accounts import Purpose
from miniqueue.errors import MiniqueueError, NotAuthenticatedError
from miniqueue.server.resp.commands.context import answer_later
from miniqueue.server.resp.connection import CONNECTION_BYTES, RespConnection
from miniqueue.server.resp.keyed import KeyedRun
from miniqueue.server.resp.shared import Shared
from miniqueue.server.shards.links.introduction import Introduction, parse_introduction
from miniqueue.server.shards.links.link import END_WAIT, GIVE_UP, JOIN, order
from miniqueue.server.shards.resp.taking import TAKE, Taking, join, take_ordered
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command
from miniqueue.wire.resp_reader import Parsed, Run, RunTransaction


class LinkedConnection(RespConnection):
    """A RESP connection that begins as the client that its introduction names, and obeys the orders of its door."""

    is_link = True

    def __init__(self, shared: Shared, introduction: Introduction) -> None:
        super().__init__(shared)
        self._introduction = introduction
        self.session.id = introduction.id
        self._secret = introduction.secret.encode()
        self._end_wait, self._give_up = order(self._secret, END_WAIT), order(self._secret, GIVE_UP)
        self._last_read = b""
        self._has_ended_wait = False
        self.router = None  # what comes over a link concerns this shard

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Join the server as the client."""
        self.join(transport, self._introduction.client)
        self.account.be_link()
        self.account.add(Purpose.CONNECTIONS, CONNECTION_BYTES)
        self._become(self._introduction)

    def _become(self, client: Introduction) -> None:
        session = self.session
        session.protocol, session.name = client.protocol, client.name.encode()
        session.library = client.library.encode()
        if self.guard is None:
            return
        user = None if client.user is None or self.server.sign_in is None else self.server.sign_in.named(client.user)
        self.guard.introduce(user)
        if client.user is not None and user is None:  # removed, and the door does not know it yet
            error = NotAuthenticatedError()
            self.reply(replies.error(error.code, str(error)))
            self.close_when_sent()

    def data_received(self, data: bytes) -> None:
        """Carry out the commands that are complete; one that waits does so no longer if the door has ended its wait."""
        if self._has_come(self._secret, data):
            self.router = _Orders(self, self._secret)
            if self._has_come(self._end_wait, data):
                self._has_ended_wait = True
                self.wait_no_longer()
            if self._has_come(self._give_up, data):
                self._has_ended_wait = True
                self.give_up_waiting()
        self._last_read = data
        super().data_received(data)

    def _has_come(self, text: bytes, data: bytes) -> bool:
        """Return whether a text is in what has just been read, or ends there."""
        return text in data or text in self._last_read[1 - len(text) :] + data[: len(text) - 1]

    @property
    def has_ended(self) -> bool:
        """Whether commands are not to wait: the door has ended the wait, or the link."""
        return self._has_ended_wait or super().has_ended

    def obey(self, order: Command) -> None:
        """Carry out an order, and see to its reply; raises ProtocolError."""
        match order:
            case [text] if text in (END_WAIT, GIVE_UP):
                self._has_ended_wait = False  # the command that waited came before the order
            case [text]:
                self._become(parse_introduction(text))
            case [word, *_] if word == TAKE:
                self._take(order)
                return
            case [word, *joining] if word == JOIN:
                self.reply(self._join(joining))
                return
            case [_, topic, *receipts]:
                answer_later(self, self._return(topic, receipts))
                return
        self.reply(replies.OK)

    def _join(self, joining: Command) -> bytes:
        """Add the client to the members of a group of parts; return the reply."""
        try:
            join(self, joining)
        except MiniqueueError as exc:
            return self.refusal(exc)
        return replies.OK

    def _take(self, order: Command) -> None:
        """Reply with messages of parts of this shard."""
        taking = Taking()
        if reply := self.after_writes(lambda: answer_later(self, take_ordered(self, order, taking), taking)):
            self.reply(reply)

    async def _return(self, topic: bytes, receipts: Command) -> bytes:
        """Return messages that did not reach the client to the front of their topic."""
        await self.broker.leases.settle_in_turns(topic, receipts, LEAVE)
        return replies.OK


class _Orders:
    """Finds the orders of the door among the commands of its client."""

    def __init__(self, client: LinkedConnection, secret: bytes) -> None:
        self._client = client
        self._secret = secret

    def execute(self, command: Parsed) -> bool:
        """Carry out an order; return whether it is one."""
        if isinstance(command, (Run, RunTransaction)) or command[0] != self._secret:
            return False
        self._client.obey(command[1:])
        return True

    def publish_keyed(self, run: KeyedRun) -> bool:
        """Leave messages to this shard."""
        return False

    def own(self, command: Parsed) -> Parsed:
        """Return a command as it is: what comes over a link concerns this shard."""
        return command

    def end(self) -> bool:
        """Leave the end of the connection to itself."""
        return False

    def pause(self) -> None:
        """Do nothing: no other process is concerned."""

    resume = leave = pause
