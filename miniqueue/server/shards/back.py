"""The back of a process: what the other processes of the broker send it, over a Unix socket in a private directory.

the first line ─▶ introduction ─┬─ resp ─▶ a RESP connection of the client
├─ http ─▶ a request
├─ transfers ─▶ messages for topics of this shard
├─ spread ─▶ orders about spread topics
└─ ping ─▶ an echo
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import cast

import hiredis
import structlog

from miniqueue.broker.inbox.inbox import Inbox
from miniqueue.errors import ProtocolError
from miniqueue.server.resp.server import RespServer
from miniqueue.server.shards.links.answering import Answering
from miniqueue.server.shards.links.introduction import MAX_LINE_BYTES, Introduction, parse_introduction
from miniqueue.server.shards.links.spreading import Spreading
from miniqueue.server.shards.resp.linked import LinkedConnection
from miniqueue.server.shards.transfers.arriving import arriving
from miniqueue.wire.resp_replies import bulk

log = structlog.get_logger()


class Back:
    """Accepts links.

    Args:
      resp: has the RESP connections of linked clients.
      serve: returns the protocol that serves a request of HTTP.
      take: gets the number of another shard, and what it tells.
      inbox: adds messages that come from other shards.
      spreading: carries out what other shards order about spread topics.
    """

    def __init__(
        self,
        resp: RespServer,
        serve: Callable[[], asyncio.Protocol],
        take: Callable[[str, bytes], None],
        inbox: Inbox,
        spreading: Spreading,
    ) -> None:
        self._spreading = spreading
        self._resp = resp
        self._serve = serve
        self._take = take
        self._inbox = inbox

    def __call__(self) -> asyncio.Protocol:
        """Make the protocol object of a new link."""
        return _Beginning(self._protocol_of)

    def _protocol_of(self, introduction: Introduction) -> asyncio.Protocol:
        match introduction.kind:
            case "resp":
                return LinkedConnection(self._resp.shared, introduction)
            case "http":
                return self._serve()
            case "transfers":
                return Answering(arriving(self._inbox, int(introduction.name)))
            case "spread":
                return Answering(self._spreading.obey)
            case "ping":
                return _Answerer(partial(self._take, introduction.name))
        raise ProtocolError(f"a link of the unknown kind '{introduction.kind}'")


class _Beginning(asyncio.Protocol):
    """Reads the introduction, and hands the link over."""

    def __init__(self, protocol_of: Callable[[Introduction], asyncio.Protocol]) -> None:
        self._protocol_of = protocol_of
        self._line = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the introduction."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Hand the link over once the introduction is complete."""
        self._line += data
        line, end, rest = self._line.partition(b"\n")
        if not end and len(line) < MAX_LINE_BYTES:
            return
        try:
            protocol = self._protocol_of(parse_introduction(line))
        except ProtocolError as exc:
            log.error("a link was refused", error=str(exc))
            self._transport.abort()
            return
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        if rest:
            protocol.data_received(rest)


class _Answerer(asyncio.Protocol):
    """Answers PING as a RESP connection does, and hands over the text of any other command."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take
        self._reader = hiredis.Reader(notEnoughData=None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Carry out each command."""
        self._reader.feed(data)
        while (command := self._reader.gets()) is not None:
            word, text = command
            if word == b"PING":
                self._transport.write(bulk(text))
            else:
                self._take(text)
