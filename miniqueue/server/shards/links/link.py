"""A connection to the process with another shard, for one RESP client: what the client sent, passed on in batches.

    introduction ─▶ batch, PING nonce ─▶ … the owner carries them out, as from any client … ─▶ replies, nonce
                                                                        └─▶ to the client ◀─────┘

The end of a batch's replies is the reply to a PING with a random text that no client has seen: replies are not parsed.
Batches can follow each other without waiting; their replies come in the same order. The door gives orders of its own,
whose first word is another random text:

    secret, introduction ─▶ the client has become another user, or has said something else of itself
    secret, END-WAIT     ─▶ the command before it waits no longer: the owner looks for this in what arrives behind it
    secret, TAKE, …      ─▶ messages of parts of a spread topic (`resp.taking`), which is answered as RECEIVE
    secret, GIVE-UP      ─▶ the same, and what it is about to lease returns to its topics
    secret, JOIN, …      ─▶ the client stays a member of a group of such parts
    secret, RETURN, …    ─▶ messages return to their topic (`resp.returning`)
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple, cast

from miniqueue.server.shards.links.introduction import Introduction
from miniqueue.wire.resp_replies import bulk

#: Replies up to this size are passed on together with their end, so that an owner that dies has answered nothing of it.
MAX_HELD_BYTES: Final = 256 << 10
#: With more bytes that the owner has not read, a tunnel takes no more from its client.
MAX_UNSENT_BYTES: Final = 64 << 10


#: The orders that end the wait of the command before them.
END_WAIT: Final = b"END-WAIT"
GIVE_UP: Final = b"GIVE-UP"
#: The order to add the client to the members of a group; the group, the member, and names of parts follow.
JOIN: Final = b"JOIN"


def order(secret: bytes, *words: bytes) -> bytes:
    """Return an order of the door; it is answered with a line, unless it is for messages."""
    return b"*%d\r\n%b%b" % (1 + len(words), bulk(secret), b"".join(map(bulk, words)))


class Failure(Enum):
    """What became of commands whose owner has gone."""

    UNSENT = "they were not sent"
    UNKNOWN = "they were sent, and not answered"
    PARTLY = "replies were given to `on_part`; which are missing is unknown"


class Batch:
    """What is sent at once, and where its replies go.

    Args:
      on_part: gets replies that are not the last of the batch; None: `on_end` gets all, which are short.
      on_end: gets the rest of them.
      on_failure: called if the owner has gone, with what became of the commands.
      line_count: how many lines the replies are; 0: that is not known, and a PING shows their end.
    """

    __slots__ = ("line_count", "on_end", "on_failure", "on_part")

    def __init__(
        self,
        on_part: Callable[[bytes], None] | None,
        on_end: Callable[[bytes], None],
        on_failure: Callable[[Failure], None],
        line_count: int = 0,
    ) -> None:
        self.on_part = on_part
        self.on_end = on_end
        self.on_failure = on_failure
        self.line_count = line_count


class Tunneled(NamedTuple):
    """What gets the bytes of a tunnel, and what is called when it ends."""

    on_data: Callable[[bytes], None]
    on_end: Callable[[], None]


class Link(asyncio.Protocol):
    """One link.

    Args:
      introduction: the client.
      on_lost: called once, when the link has ended.
    """

    def __init__(self, introduction: Introduction, on_lost: Callable[["Link"], object]) -> None:
        self.introduction = introduction
        self._secret = secrets.token_hex(16)
        self._on_lost: Callable[[Link], object] | None = on_lost
        nonce = secrets.token_hex(16).encode()
        self._ping = b"*2\r\n$4\r\nPING\r\n" + bulk(nonce)
        self._end = bulk(nonce)
        self._transport: asyncio.Transport | None = None
        self._waiting = [self._introduced()]  # what is sent as soon as there is a connection
        self._batches: deque[Batch] = deque()
        self._tunnel: Tunneled | None = None
        self._replies = bytearray()
        self._has_passed = False
        self._is_lost = False
        self._has_ended = self._is_paused = self._is_full = False
        self._on_room: Callable[[], None] | None = None

    @property
    def is_lost(self) -> bool:
        """Whether the link cannot be used any more."""
        return self._is_lost

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Introduce the client."""
        self._transport = cast(asyncio.Transport, transport)
        if self._is_lost and not self._batches:
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(MAX_UNSENT_BYTES)
        self._transport.write(b"".join(self._waiting))
        self._waiting.clear()
        if self._is_paused:
            self.pause()
        if self._has_ended:
            self._transport.write_eof()

    def send(self, commands: bytes, batch: Batch) -> None:
        """Send commands; their replies go to `batch`."""
        self._batches.append(batch)
        self.write(commands if batch.line_count else commands + self._ping)

    async def ask(self, commands: bytes) -> "bytes | Failure":
        """Send commands, and return their replies, or why there are none."""
        answered: asyncio.Future[bytes | Failure] = asyncio.get_running_loop().create_future()

        def answer(reply: bytes | Failure) -> None:
            if not answered.done():
                answered.set_result(reply)

        self.send(commands, Batch(None, answer, answer))
        return await answered

    def open_tunnel(self, tunnel: "Tunneled") -> None:
        """Give all bytes that arrive later to `tunnel`, except the replies to batches."""
        self._tunnel = tunnel

    def write(self, data: bytes) -> None:
        """Send bytes, as soon as there is a connection."""
        if self._transport is None:
            self._waiting.append(data)
        else:
            self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        """Pass replies on."""
        if not self._batches:
            if self._tunnel is not None:
                self._tunnel.on_data(data)
            return  # otherwise the owner says why it closes the link
        replies = self._replies
        line_count = self._batches[0].line_count
        if line_count and not replies and data.count(b"\r\n") == line_count and data.endswith(b"\r\n"):
            self._batches.popleft().on_end(data)  # fast path: the replies to a publish, and nothing else
            if self._is_lost and not self._batches:
                self.close()
            return
        looked = max(0, len(replies) - len(self._end))
        replies += data
        while self._batches and (ends := self._end_of(self._batches[0], looked)) is not None:
            at, after = ends
            rest = bytes(memoryview(replies)[:at])
            del replies[:after]
            looked = 0
            self._has_passed = False
            self._batches.popleft().on_end(rest)
        if not self._batches and self._tunnel is not None and replies:
            rest = bytes(replies)
            replies.clear()
            self._tunnel.on_data(rest)
        if self._is_lost and not self._batches:
            self.close()
        if self._batches and len(replies) > MAX_HELD_BYTES:
            self._pass_part(self._batches[0])

    def _end_of(self, batch: Batch, looked: int) -> tuple[int, int] | None:
        """Return where the replies to a batch end, and where what follows begins; None if they are not whole.

        There is no end before `looked`, unless the replies are counted lines.
        """
        replies = self._replies
        if not batch.line_count:
            at = replies.find(self._end, looked)
            return None if at < 0 else (at, at + len(self._end))
        missing = batch.line_count - replies.count(b"\r\n")
        if missing > 0:
            return None
        at = 0 if missing else replies.rfind(b"\r\n") + 2
        for _ in range(batch.line_count if missing else 0):
            at = replies.find(b"\r\n", at) + 2
        return at, at

    def _pass_part(self, batch: Batch) -> None:
        if batch.on_part is None:
            return
        part = bytes(memoryview(self._replies)[: -len(self._end)])
        del self._replies[: len(part)]
        self._has_passed = True
        batch.on_part(part)

    def eof_received(self) -> bool:
        """Close: the owner has ended the link."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Report that what was sent is not answered."""
        self.fail()

    def fail(self) -> None:
        """Give the link up, and report that what was sent is not answered."""
        self._is_lost = True
        self._forget()
        batches, self._batches = self._batches, deque()
        if self._transport is not None:
            self._transport.abort()
        tunnel, self._tunnel = self._tunnel, None
        failure = Failure.UNSENT if self._transport is None else Failure.UNKNOWN
        for number, batch in enumerate(batches):
            batch.on_failure(Failure.PARTLY if self._has_passed and number == 0 else failure)
        if tunnel is not None and not batches:
            tunnel.on_end()

    def close(self) -> None:
        """End the link: the client has gone. The owner returns what it holds."""
        self._is_lost, self._tunnel = True, None
        self._batches.clear()
        self._forget()
        if self._transport is not None:
            self._transport.close()

    def _forget(self) -> None:
        on_lost, self._on_lost = self._on_lost, None
        if on_lost is not None:
            on_lost(self)

    def close_when_answered(self) -> None:
        """End the link once what was sent is answered: the client sends no more."""
        self._is_lost = True
        if not self._batches:
            self.close()

    async def ask_order(self, *words: bytes) -> "bytes | Failure":
        """Give an order, and return its reply, or why there is none."""
        return await self.ask(order(self._secret.encode(), *words))

    def end_wait(self) -> None:
        """Make the owner answer a command that waits, which is the last one that was sent."""
        self.give_order(END_WAIT)

    def give_up(self) -> None:
        """Make the owner answer such a command without messages, if it has not leased them yet."""
        self.give_order(GIVE_UP)

    def introduce(self, introduction: Introduction) -> None:
        """Say that the client is another user now, or calls itself otherwise; it keeps what it holds."""
        self.introduction = introduction
        self.give_order(self._introduced())

    def _introduced(self) -> bytes:
        return self.introduction._replace(secret=self._secret).encode()

    def give_order(self, *words: bytes) -> None:
        """Give an order; its reply, a line, does not matter."""
        self.send(order(self._secret.encode(), *words), Batch(None, _nothing, _nothing, line_count=1))

    def end(self) -> None:
        """Close this half: the client sends no more. The owner answers what was sent, and ends the link."""
        self._has_ended = True
        if self._transport is not None:
            self._transport.write_eof()

    def pause_writing(self) -> None:
        """Note that the owner does not read what is sent."""
        self._is_full = True

    def resume_writing(self) -> None:
        """Call what waits for the owner to read."""
        self._is_full = False
        on_room, self._on_room = self._on_room, None
        if on_room is not None:
            on_room()

    def has_room(self, on_room: Callable[[], None]) -> bool:
        """Return whether the owner reads what is sent; if not, `on_room` is called when it does."""
        if self._is_full:
            self._on_room = on_room
        return not self._is_full

    def pause(self) -> None:
        """Read no replies until `resume`: the client does not read them."""
        self._is_paused = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read replies again."""
        self._is_paused = False
        if self._transport is not None:
            self._transport.resume_reading()


def _nothing(_: object) -> None:
    """Ignore a reply."""
