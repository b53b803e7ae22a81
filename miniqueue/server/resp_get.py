"""GET over RESP, for people who type: the next message of a topic, leased to their connection, settled by its topic.

    C: GET topic        C: ACK topic        as well NACK topic, BACK topic, DACK topic seconds
    S: hello            S: +OK

    GET ─▶ held by the connection ─ ACK … ─▶ done, or back in the topic
     └ null: there is none            └ RESET, or the connection ends ─▶ front of the topic, as what a stream held

A connection holds one message of a topic so; of another topic it may hold another one.
"""

from typing import TYPE_CHECKING

from miniqueue.broker.receiving import Received
from miniqueue.core.receiving import MAX_LEASE_SECONDS, ReceiveOptions
from miniqueue.errors import MessageOutstandingError, NothingOutstandingError
from miniqueue.server.resp_waiting import WaitingReceive
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command

if TYPE_CHECKING:
    from miniqueue.server.resp import RespConnection

#: As long as a lease can be: it is the connection's, as far as that goes.
_OPTIONS = ReceiveOptions(lease_seconds=MAX_LEASE_SECONDS)


class Gotten:
    """What one connection holds, by topic."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: dict[bytes, tuple[WaitingReceive, bytes]] = {}  # with the receipt

    def receipt_of(self, topic: bytes) -> bytes:
        """Return the receipt of the message of a topic; raises NothingOutstandingError when there is none."""
        if topic not in self._held:
            raise NothingOutstandingError
        return self._held[topic][1]

    def holds(self, topic: bytes) -> bool:
        """Tell whether a message of a topic is held."""
        return topic in self._held

    def hold(self, topic: bytes, waiting: WaitingReceive, receipt: bytes) -> None:
        """Keep a message that `waiting` has received."""
        self._held[topic] = waiting, receipt

    def forget(self, topic: bytes) -> None:
        """The message has been settled, or its lease is over."""
        del self._held[topic]

    def close(self) -> None:
        """Return everything to the front."""
        held, self._held = self._held, {}
        for waiting, _ in held.values():
            waiting.take_back()


def get(connection: "RespConnection", command: Command) -> bytes:
    """Carry out GET; the reply is empty when it comes later."""
    topic, gotten, protocol = command[1], connection.gotten, connection.session.protocol
    if gotten.holds(topic):
        raise MessageOutstandingError("the message from before is still held: ACK, NACK or BACK it first")

    def encode(received: Received) -> bytes:
        if not received.leases:
            return replies.encode(None, protocol)
        _, lease = received.leases[0]
        gotten.hold(topic, waiting, b"%b%d" % (received.prefix, lease.receipt))
        return replies.bulk(lease.payloads[0])

    waiting = WaitingReceive(connection, encode)
    return waiting.begin(topic, _OPTIONS)
