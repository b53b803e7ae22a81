"""The back of a process: what the other processes of the broker send it, over a Unix socket in a private directory.

the first line ─▶ introduction ─┬─ resp ─▶ a RESP connection of the client
├─ http ─▶ a request
├─ transfers ─▶ messages for topics of this shard
├─ spread ─▶ orders about spread topics
├─ earlier ─▶ whether parts of spread topics know what is published
├─ schedules, schedule-steps ─▶ orders about schedules, and the steps of their homes
└─ ping ─▶ an echo
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import cast

import hiredis
import structlog

from miniqueue.errors import ProtocolError
from miniqueue.server.shards.links.introduction import MAX_LINE_BYTES, Introduction, parse_introduction
from miniqueue.wire.resp_replies import bulk

log = structlog.get_logger()


#: Makes the protocol object for a link that begins with an introduction.
End = Callable[[Introduction], asyncio.Protocol]


class Back:
    """Accepts links.

    Args:
      ends: the ends of links, by kind.
    """

    def __init__(self, ends: Mapping[str, End]) -> None:
        self._ends = ends

    def __call__(self) -> asyncio.Protocol:
        """Make the protocol object of a new link."""
        return _Beginning(self._protocol_of)

    def _protocol_of(self, introduction: Introduction) -> asyncio.Protocol:
        if introduction.kind not in self._ends:
            raise ProtocolError(f"a link of the unknown kind '{introduction.kind}'")
        return self._ends[introduction.kind](introduction)


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


class Answerer(asyncio.Protocol):
    """Answers PING as a RESP connection does, and hands over the text of any other command.

    Args:
      take: gets the text.
    """

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
