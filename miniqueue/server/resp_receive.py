"""RECEIVE over RESP, and settling by receipt: commands like any other, from any connection.

    C: RECEIVE topic COUNT 2 WAIT 5            C: ACK topic 5f0c-17 5f0c-18
    S: [["5f0c-17", first, [id, 0-4, …]],      S: ["OK", "OK"]
        ["5f0c-18", second, [id, 0-5, …]]]     C: EXTEND topic 5f0c-19 60
                                               S: -NOLEASE …

While a RECEIVE waits, the commands behind it wait too, as they do behind any command; other connections do not. A
settle of a topic without a receipt is about the message that the connection holds by GET (`resp_get`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from miniqueue.broker.leasing import Leasing
from miniqueue.core.delay import parse_delay
from miniqueue.core.receiving import NOT_LEASED, ReceiveOptions, parse_lease, parse_receive_options
from miniqueue.errors import NothingOutstandingError, RequestError
from miniqueue.server.resp_errors import ArityError, shown
from miniqueue.server.resp_waiting import WaitingReceive
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.received import resp_messages
from miniqueue.wire.resp_parser import Command

if TYPE_CHECKING:
    from miniqueue.server.resp import RespConnection

_WITH_VALUE = {b"GROUP": "group", b"MEMBER": "member", b"COUNT": "count", b"WAIT": "wait", b"LEASE": "lease"}


def receive(connection: "RespConnection", command: Command) -> bytes:
    """Carry out RECEIVE; the reply is empty when it comes later."""
    protocol = connection.session.protocol
    waiting = WaitingReceive(connection, lambda received: resp_messages(received.prefix, received.leases, protocol))
    return waiting.begin(command[1], _options(command[2:]))


def _options(words: list[bytes]) -> ReceiveOptions:
    given: dict[str, str] = {}
    words = words[::-1]
    while words:
        word = words.pop().upper()
        if word == b"AUTOACK":
            given["autoack"] = "true"
        elif word in _WITH_VALUE and words and _WITH_VALUE[word] not in given:
            given[_WITH_VALUE[word]] = words.pop().decode("utf-8", "replace")
        else:
            raise RequestError(f"syntax error in RECEIVE option '{shown(word)}'")
    return parse_receive_options(given)


def settle(connection: "RespConnection", command: Command) -> bytes:
    """Carry out ACK, NACK, BACK, DACK, REJECT or EXTEND of a topic.

    Raises NothingOutstandingError for the words of a stream, without a topic, and where GET has left nothing.
    """
    word = command[0].upper()
    act = _ACTS[word]
    has_value = word in _VALUED
    if len(command) == 1 or (word == b"DACK" and len(command) == 2):
        raise NothingOutstandingError
    if len(command) == 2 + has_value and word not in _BY_RECEIPT_ONLY:
        return _settle_gotten(connection, command)
    if len(command) < 3 + has_value:
        raise ArityError(-3 - has_value)
    topic, *receipts = command[1:]
    value = receipts.pop() if has_value else b""
    return _encode(act(connection.broker.leasing, topic, receipts, value))


def _settle_gotten(connection: "RespConnection", command: Command) -> bytes:
    topic, gotten = command[1], connection.gotten
    receipts = [gotten.receipt_of(topic)]
    results = _ACTS[command[0].upper()](connection.broker.leasing, topic, receipts, command[-1])
    gotten.forget(topic)
    return _encode(results)


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
_BY_RECEIPT_ONLY = frozenset({b"REJECT", b"EXTEND"})


def _text(word: bytes) -> str:
    return word.decode("utf-8", "replace")
