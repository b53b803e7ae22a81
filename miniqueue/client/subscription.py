"""A subscription: deliveries to iterate over, and words to settle them with."""

import binascii
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

import orjson

from miniqueue.client.stream import Stream
from miniqueue.errors import ServerError


class Delivery(NamedTuple):
    """A message; `dack_count` is how often it was delayed before."""

    payload: bytes
    dack_count: int


class Subscription:
    """One consumer; the next message comes when the one before has been settled.

    Settling never waits: the word is on its way when the method returns, and its effect is durable with the
    server's next commit. A refusal (ServerError) is raised by the iteration, which can go on after it.
    """

    def __init__(self, begin: Callable[[], Awaitable[Stream]]) -> None:
        self._begin = begin
        self._stream: Stream
        self._received: deque[Delivery | ServerError] = deque()
        self._rest = b""

    async def __aenter__(self) -> Self:
        """Begin; raises ServerError, DisconnectedError."""
        self._stream = await self._begin()
        self._stream.write(b'"INIT"\n')
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End; what was delivered and not settled goes to another consumer."""
        self._stream.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delivery:
        """Return the next delivery.

        Raises:
          ServerError: the server refused a command; the subscription goes on.
          DisconnectedError: it does not.
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
        """The message is done."""
        self._stream.write(b'"ACK"\n')

    def nack(self) -> None:
        """The message goes back to the front of the topic."""
        self._stream.write(b'"NACK"\n')

    def back(self) -> None:
        """The message goes to the back of the topic."""
        self._stream.write(b'"BACK"\n')

    def dack(self, delay_seconds: float) -> None:
        """The message comes again after a time; fractions below a microsecond do not count."""
        self._stream.write(b'"DACK %b"\n' % f"{delay_seconds:f}".encode())  # never 1e-05, which is no decimal number

    def finish(self) -> None:
        """Send no more; the server returns the message, and the iteration ends."""
        self._stream.write(b"", is_last=True)


def _decode(line: bytes) -> Delivery | ServerError:
    members = orjson.loads(line)
    if "error" in members:
        return refusal_of(members)
    return Delivery(binascii.a2b_base64(members.get("msg", "")), members.get("dackCount", 0))


def refusal_of(members: Mapping[str, Any], status: int | None = None) -> ServerError:
    """Return the error that a reply or a line tells; older brokers send no code."""
    return ServerError(str(members["error"]), status, str(members.get("code", ServerError.code)))
