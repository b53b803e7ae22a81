"""The owner's end of a link: a RESP connection of a client that another process has accepted and authenticated."""

import asyncio

from miniqueue.broker.runtime.accounts import Purpose
from miniqueue.errors import NotAuthenticatedError
from miniqueue.server.resp.connection import CONNECTION_BYTES, RespConnection
from miniqueue.server.resp.shared import Shared
from miniqueue.server.shards.links.introduction import Introduction
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_reader import Parsed


class LinkedConnection(RespConnection):
    """A RESP connection that begins as the client that its introduction names."""

    is_link = True

    def __init__(self, shared: Shared, introduction: Introduction) -> None:
        super().__init__(shared)
        self._introduction = introduction
        self._end_wait = introduction.end_wait.encode()
        self._last_read = b""
        self.router = None  # what comes over a link concerns this shard

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Join the server as the client."""
        client = self._introduction
        self.join(transport, client.client)
        self.account.be_link()
        session = self.session
        session.protocol, session.name = client.protocol, client.name.encode()
        session.library = client.library.encode()
        self.account.add(Purpose.CONNECTIONS, CONNECTION_BYTES)
        if self.guard is None:
            return
        user = None if client.user is None or self.server.sign_in is None else self.server.sign_in.named(client.user)
        self.guard.introduce(user)
        if client.user is not None and user is None:  # removed, and the door does not know it yet
            error = NotAuthenticatedError()
            self.reply(replies.error(error.code, str(error)))
            self.close_when_sent()

    def data_received(self, data: bytes) -> None:
        """Carry out the commands that are complete; if the door ends a wait, the command before that does not wait."""
        text = self._end_wait
        if text and (text in data or text in self._last_read[-len(text) :] + data[: len(text)]):
            self.router = _UntilEndOfWait(self, text)
            self.wait_no_longer()
        self._last_read = data
        super().data_received(data)

    @property
    def has_ended(self) -> bool:
        """Whether commands are not to wait: the door has ended the wait, or the link."""
        return self.router is not None or super().has_ended


class _UntilEndOfWait:
    """Lets all commands pass, up to the one that has ended a wait."""

    def __init__(self, client: LinkedConnection, text: bytes) -> None:
        self._client = client
        self._text = text

    def execute(self, command: Parsed) -> bool:
        """Note the end; the command itself is a PING, which is answered as any other."""
        if command[-1] == self._text:
            self._client.router = None
        return False

    def end(self) -> bool:
        """Leave the end of the connection to itself."""
        return False

    def pause(self) -> None:
        """Do nothing: no other process is concerned."""

    resume = leave = pause
