"""A RESP command that asks for messages, from its beginning to its reply; the connection is held in between."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from miniqueue.broker.receiving import Received, Receiving
from miniqueue.core.receiving import ReceiveOptions
from miniqueue.errors import MiniqueueError
from miniqueue.wire import resp_replies as replies

if TYPE_CHECKING:
    from miniqueue.server.resp import RespConnection


class WaitingReceive:
    """One command.

    Args:
      connection: is answered.
      encode: makes the reply of what was received.
    """

    def __init__(self, connection: "RespConnection", encode: Callable[[Received], bytes]) -> None:
        self._connection = connection
        self._encode = encode
        self._reply: bytes | None = None
        self._is_held = False
        self._receiving: Receiving | None = None

    def begin(self, topic: bytes, options: ReceiveOptions) -> bytes:
        """Return the reply, or nothing, and hold the connection until it comes; raises MiniqueueError."""
        if self._connection.has_ended:  # a client that may have gone does not wait in line
            options = options._replace(wait_seconds=0.0)
        self._receiving = self._connection.broker.leasing.receive(topic, options, self._answer, self._fail)
        if self._reply is not None:
            return self._reply
        self._is_held = True
        self._connection.hold(self)
        return b""

    def give_up(self) -> None:
        """Have it answered now, with nothing."""
        if self._receiving is not None:
            self._receiving.give_up()

    def wait_no_longer(self) -> None:
        """Have it answered with what is there, also what is being read from the store."""
        if self._receiving is not None:
            self._receiving.wait_no_longer()

    def take_back(self) -> None:
        """Return what was received, as when a stream ends, unless it was settled."""
        if self._receiving is not None:
            self._receiving.take_back()

    def _answer(self, received: Received) -> None:
        self._finish(self._encode(received))

    def _fail(self, error: MiniqueueError) -> None:
        self._finish(replies.error(error.code, str(error)))

    def _finish(self, reply: bytes) -> None:
        self._reply = reply
        if self._is_held:
            self._connection.release(reply)
