"""The owner's end of a link: a RESP connection of a client that another process has accepted and authenticated."""

import asyncio

from miniqueue.broker.runtime.accounts import Purpose
from miniqueue.errors import NotAuthenticatedError
from miniqueue.server.resp.connection import CONNECTION_BYTES, RespConnection
from miniqueue.server.resp.shared import Shared
from miniqueue.server.shards.links.introduction import Introduction
from miniqueue.wire import resp_replies as replies


class LinkedConnection(RespConnection):
    """A RESP connection that begins as the client that its introduction names."""

    is_link = True

    def __init__(self, shared: Shared, introduction: Introduction) -> None:
        super().__init__(shared)
        self._introduction = introduction
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
