"""RECEIVE over RESP, and settling by receipt: commands like any other, from any connection.

    C: RECEIVE topic COUNT 2 WAIT 5            C: ACK topic 5f0c-17 5f0c-18
    S: [["5f0c-17", first, [id, 0-4, …]],      S: ["OK", "OK"]
        ["5f0c-18", second, [id, 0-5, …]]]     C: EXTEND topic 5f0c-19 60
                                               S: -NOLEASE …

While a RECEIVE waits, the commands behind it wait too, as they do behind any command; other connections do not.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from miniqueue.broker.leasing import Leasing
from miniqueue.broker.receiving import Received, Receiving
from miniqueue.core.delay import parse_delay
from miniqueue.core.receiving import NOT_LEASED, ReceiveOptions, parse_lease, parse_receive_options
from miniqueue.errors import MiniqueueError, NothingOutstandingError, RequestError
from miniqueue.server.resp_errors import ArityError, shown
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.received import resp_messages
from miniqueue.wire.resp_parser import Command

if TYPE_CHECKING:
    from miniqueue.server.resp import RespConnection

_WITH_VALUE = {b"GROUP": "group", b"COUNT": "count", b"WAIT": "wait", b"LEASE": "lease"}


def receive(connection: "RespConnection", command: Command) -> bytes:
    """Carry out RECEIVE; the reply is empty when it comes later."""
    return _Waiting(connection).begin(command[1], _options(command[2:]))


def _options(words: list[bytes]) -> ReceiveOptions:
    given: dict[str, str] = {}
    words = words[::-1]
    while words:
        word = words.pop().upper()
        if word == b"AUTOACK":
            given["autoack"] = "true"
        elif word in _WITH_VALUE and words:
            given[_WITH_VALUE[word]] = words.pop().decode("utf-8", "replace")
        else:
            raise RequestError(f"syntax error in RECEIVE option '{shown(word)}'")
    return parse_receive_options(given)


class _Waiting:
    """A RECEIVE from its command to its reply."""

    def __init__(self, connection: "RespConnection") -> None:
        self._connection = connection
        self._reply: bytes | None = None
        self._is_held = False
        self._receiving: Receiving | None = None

    def begin(self, topic: bytes, options: ReceiveOptions) -> bytes:
        """Return the reply, or hold the connection until it comes; raises MiniqueueError."""
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

    def _answer(self, received: Received) -> None:
        self._finish(resp_messages(received.prefix, received.leases, self._connection.session.protocol))

    def _fail(self, error: MiniqueueError) -> None:
        self._finish(replies.error(error.code, str(error)))

    def _finish(self, reply: bytes) -> None:
        self._reply = reply
        if self._is_held:
            self._connection.release(reply)


def settle(connection: "RespConnection", command: Command) -> bytes:
    """Carry out ACK, NACK, BACK, DACK, REJECT or EXTEND of a topic.

    Raises NothingOutstandingError for the words of a stream, without a topic.
    """
    word = command[0].upper()
    act = _ACTS[word]
    has_value = word in _VALUED
    if len(command) == 1 or (word == b"DACK" and len(command) == 2):
        raise NothingOutstandingError
    if len(command) < 3 + has_value:
        raise ArityError(-3 - has_value)
    topic, *receipts = command[1:]
    value = receipts.pop() if has_value else b""
    return _encode(act(connection.broker.leasing, topic, receipts, value))


def _encode(results: list[bool]) -> bytes:
    if len(results) == 1:
        if not results[0]:
            raise NothingOutstandingError(NOT_LEASED)
        return replies.OK
    if all(results):
        return b"*%d\r\n%b" % (len(results), replies.OK * len(results))
    refusal = replies.bulk(f"{NothingOutstandingError.code} {NOT_LEASED}".encode())
    return replies.array([replies.OK if is_settled else refusal for is_settled in results])


_Act = Callable[[Leasing, bytes, list[bytes], bytes], list[bool]]
_ACTS: dict[bytes, _Act] = {
    b"ACK": lambda leasing, topic, receipts, _: leasing.ack(topic, receipts),
    b"NACK": lambda leasing, topic, receipts, _: leasing.nack(topic, receipts),
    b"BACK": lambda leasing, topic, receipts, _: leasing.back(topic, receipts),
    b"DACK": lambda leasing, topic, receipts, value: leasing.dack(topic, receipts, parse_delay(_text(value))),
    b"REJECT": lambda leasing, topic, receipts, value: leasing.reject(topic, receipts, value),
    b"EXTEND": lambda leasing, topic, receipts, value: leasing.extend(topic, receipts, parse_lease(_text(value))),
}
_VALUED = frozenset({b"DACK", b"REJECT", b"EXTEND"})


def _text(word: bytes) -> str:
    return word.decode("utf-8", "replace")
