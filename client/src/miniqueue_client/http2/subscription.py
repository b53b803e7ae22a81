"""A subscription: deliveries to iterate over, and the commands that settle them."""

import binascii
import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from miniqueue_client.calls.call import Seconds, seconds_word
from miniqueue_client.errors import ServerError
from miniqueue_client.http2.stream import Stream

if TYPE_CHECKING:
    from typing_extensions import Self


class Delivery(NamedTuple):
    """A message; `dack_count` is how often it was returned by DACK before."""

    payload: bytes
    dack_count: int

    def json(self) -> Any:  # noqa: ANN401 - any JSON
        """Return the payload as JSON; raises ValueError if it is none."""
        return json.loads(self.payload)


class Subscription:
    """One consumer, which gets its next message when the previous one is settled.

    Settling never waits: the method queues a command, whose effect is durable with the server's next commit. If the
    server refuses it, the iteration raises ServerError; it can be continued.
    """

    def __init__(self, begin: Callable[[], Awaitable[Stream]]) -> None:
        self._begin = begin
        self._stream: Stream
        self._received: deque[Delivery | ServerError] = deque()
        self._rest = b""

    async def __aenter__(self) -> "Self":
        """Begin the subscription; raises ServerError, DisconnectedError."""
        self._stream = await self._begin()
        self._stream.write(b'"INIT"\n')
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the subscription; an unsettled message goes to another consumer."""
        self._stream.close()

    def __aiter__(self) -> "Self":
        return self

    async def __anext__(self) -> Delivery:
        """Return the next delivery.

        Raises:
          ServerError: the server refused a command; the subscription continues.
          DisconnectedError: the connection was lost; the subscription has ended.
        """
        while not self._received:
            chunk = await self._stream.read()
            if not chunk:
                raise StopAsyncIteration
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            self._received.extend(map(_decode, lines))
        received = self._received.popleft()
        if isinstance(received, ServerError):
            raise received
        return received

    def ack(self) -> None:
        """Acknowledge the message."""
        self._stream.write(b'"ACK"\n')

    def nack(self, delay_seconds: Seconds | None = None, reason: str = "") -> None:
        """Return the message to the front of the topic, or after a delay; with the reason why it failed."""
        delay = "" if delay_seconds is None else f" DELAY {seconds_word(delay_seconds)}"
        self._stream.write(json.dumps(f"NACK{delay} REASON {reason}" if reason else f"NACK{delay}").encode() + b"\n")

    def back(self) -> None:
        """Return the message to the back of the topic."""
        self._stream.write(b'"BACK"\n')

    def dack(self, delay_seconds: Seconds) -> None:
        """Return the message after a delay, to a microsecond."""
        self._stream.write(b'"DACK %b"\n' % seconds_word(delay_seconds).encode())

    def finish(self) -> None:
        """Send no more commands; the server returns the unsettled message, and the iteration ends."""
        self._stream.write(b"", is_last=True)


def _decode(line: bytes) -> Delivery | ServerError:
    members = json.loads(line)
    if "error" in members:
        return refusal_of(members)
    return Delivery(binascii.a2b_base64(members.get("msg", "")), members.get("dackCount", 0))


def refusal_of(members: Mapping[str, Any], status: int | None = None) -> ServerError:
    """Return the error of a reply or a line; older brokers send no code."""
    return ServerError(str(members["error"]), status, str(members.get("code", ServerError.code)))
