"""Connections of a walk, without sockets: each carries out one act at a time, and all know what was said first."""

import asyncio
from collections import deque
from itertools import count

from tests.fakes import FakeTransport
from tests.model.acts.acting import Act
from tests.model.acts.stream_acts import LEAVE, POKE
from tests.model.protocols import RespWire


class StampedTransport(FakeTransport):
    """Knows what was written when, among all connections."""

    stamps = count()

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__(protocol)
        self.writes: list[tuple[int, bytes]] = []

    def write(self, data: bytes) -> None:
        self.writes.append((next(self.stamps), data))
        super().write(data)


class StampedWire(RespWire):
    transport_class = StampedTransport

    def take(self) -> list[tuple[int, bytes]]:
        """Return what was written since the last call, each with its stamp."""
        writes, self.transport.writes = self.transport.writes, []
        self.transport.take()
        return writes


class Client:
    """A connection, and the act that waits for its reply."""

    def __init__(self, name: str, wire: StampedWire, told: deque[str]) -> None:
        self._name = name
        self.wire = wire
        self.act: Act | None = None
        self.is_stream = False
        self.words: list[bytes] | None = None  # still to be sent
        self._told = told

    def begin(self, act: Act) -> None:
        try:
            words = next(act)
        except StopIteration:
            return
        self.act, self.is_stream = act, words[0] == b"SUBSCRIBE"
        self._told.append(f"{self._name}: {words}")
        self.wire.send(words)

    def poke(self) -> None:
        """Send a command on a stream."""
        assert self.act is not None
        words = self.act.send(POKE)
        if words:
            self._told.append(f"{self._name}: {words}")
        if words is LEAVE:
            self.act = None
            self.wire.transport.lose()
        elif words:
            self.wire.send(words)

    def hear(self, data: bytes) -> None:
        for reply in self.wire.parse(data):
            self._told.append(f"{self._name}:    {reply!r}")
            self.send(reply)

    def send(self, reply: object) -> None:
        """Go on with the act; with None if there will be no reply."""
        act, self.act = self.act, None
        assert act is not None, f"no request was sent for {reply!r}"
        try:
            self.words = act.send(reply) or None
            self.act = act
        except StopIteration:
            pass

    def go_on(self) -> None:
        """Say what the act says next."""
        words, self.words = self.words, None
        assert words is not None
        self._told.append(f"{self._name}: {words}")
        if words is LEAVE:
            self.act = None
            self.wire.transport.lose()
        else:
            self.wire.send(words)
