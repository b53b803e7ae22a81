"""RECEIVE and GET, and the commands that settle by receipt or by topic: ACK, NACK, BACK, DACK, REJECT, EXTEND.

A receipt can be settled by any connection:

    C: RECEIVE topic COUNT 2 WAIT 5            C: ACK topic 5f0c-17 5f0c-18
    S: [["5f0c-17", first, [id, 0-4, …]],      S: ["OK", "OK"]
        ["5f0c-18", second, [id, 0-5, …]]]     C: EXTEND topic 5f0c-19 60
                                               S: -NOLEASE …

While a RECEIVE waits, the commands after it wait too, as after any command; other connections continue.

GET is for interactive use: it leases the next message of a topic to the connection, and a command that names the topic
without a receipt settles it.

    C: GET topic        C: ACK topic        or NACK topic, BACK topic, DACK topic seconds
    S: hello            S: +OK

    GET ─▶ held by the connection ─ ACK … ─▶ acknowledged, or returned to the topic
     └ null: the topic is empty       └ RESET, or the connection ends ─▶ front of the topic, as for a stream

A connection can hold one message of each topic.
"""

from collections.abc import Callable

from miniqueue.broker.leases.leases import Leases
from miniqueue.broker.leases.receive import ReceiveRequest, ReceiveResult
from miniqueue.core.options.amounts import parse_delay
from miniqueue.core.options.consume import (
    MAX_LEASE_SECONDS,
    NOT_LEASED,
    ReceiveOptions,
    parse_lease,
    parse_receive_options,
)
from miniqueue.errors import MessageOutstandingError, MiniqueueError, NothingOutstandingError, RequestError
from miniqueue.server.resp.commands.arguments import ArityError, shown
from miniqueue.server.resp.commands.context import Client, HeldByGet
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.receive_replies import resp_messages
from miniqueue.wire.resp_parser import Command


class WaitingReceive:
    """A command that requests messages, from its start to its reply; the connection is held in between.

    Args:
      client: receives the reply.
      encode: makes the reply; its second argument takes the messages back.
    """

    def __init__(self, client: Client, encode: Callable[[ReceiveResult, Callable[[], None]], bytes]) -> None:
        self._client = client
        self._encode = encode
        self._reply: bytes | None = None
        self._is_held = False
        self._receiving: ReceiveRequest | None = None

    def begin(self, topic: bytes, options: ReceiveOptions) -> bytes:
        """Return the reply; or hold the connection until there is one, and return nothing. Raises MiniqueueError."""
        self._client.check_client()
        if self._client.has_ended:  # a client that may have gone does not wait for messages
            options = options._replace(wait_seconds=0.0)
        self._receiving = self._client.broker.leases.receive(topic, options, self._answer, self._fail)
        if self._reply is not None:
            return self._reply
        self._is_held = True
        self._client.hold(self)
        return b""

    def give_up(self) -> None:
        """Reply now, without messages."""
        if self._receiving is not None:
            self._receiving.give_up()

    def wait_no_longer(self) -> None:
        """Reply with the available messages, including those that are being read from the store."""
        if self._receiving is not None:
            self._receiving.wait_no_longer()

    def take_back(self) -> None:
        """Return the messages to the front of their topic, as at the end of a stream, unless they are settled."""
        if self._receiving is not None:
            self._receiving.take_back()

    def _answer(self, received: ReceiveResult) -> None:
        self._finish(self._encode(received, self.take_back))

    def _fail(self, error: MiniqueueError) -> None:
        self._finish(replies.error(error.code, str(error)))

    def _finish(self, reply: bytes) -> None:
        self._reply = reply
        if self._is_held:
            self._client.release(reply)


_WITH_VALUE = {b"GROUP": "group", b"MEMBER": "member", b"COUNT": "count", b"WAIT": "wait", b"LEASE": "lease"}


def receive(client: Client, command: Command) -> bytes:
    """Carry out RECEIVE; the reply is empty if it comes later."""
    protocol = client.session.protocol
    waiting = WaitingReceive(client, lambda received, _: resp_messages(received.prefix, received.leases, protocol))
    return waiting.begin(command[1], _options(command[2:]))


def _options(words: list[bytes]) -> ReceiveOptions:
    options: dict[str, str] = {}
    words = words[::-1]
    while words:
        word = words.pop().upper()
        if word == b"AUTOACK":
            options["autoack"] = "true"
        elif word in _WITH_VALUE and words and _WITH_VALUE[word] not in options:
            options[_WITH_VALUE[word]] = words.pop().decode("utf-8", "replace")
        else:
            raise RequestError(f"syntax error in RECEIVE option '{shown(word)}'")
    return parse_receive_options(options)


def settle(client: Client, command: Command) -> bytes:
    """Carry out ACK, NACK, BACK, DACK, REJECT or EXTEND for a topic.

    Raises NothingOutstandingError for the commands of a stream, which name no topic, and if GET holds no message of the
    topic.
    """
    word = command[0].upper()
    act = _ACTS[word]
    has_value = word in _VALUED
    if len(command) == 1 or (word == b"DACK" and len(command) == 2):
        raise NothingOutstandingError
    if len(command) == 2 + has_value and word not in _BY_RECEIPT_ONLY:
        return _settle_held(client, command)
    if len(command) < 3 + has_value:
        raise ArityError(-3 - has_value)
    topic, *receipts = command[1:]
    value = receipts.pop() if has_value else b""
    return _encode(act(client.broker.leases, topic, receipts, value))


def _settle_held(client: Client, command: Command) -> bytes:
    """Settle the message that the client holds by GET; raises NothingOutstandingError if there is none."""
    topic = command[1]
    if topic not in client.held:
        raise NothingOutstandingError
    receipts = [client.held[topic].receipt]
    results = _ACTS[command[0].upper()](client.broker.leases, topic, receipts, command[-1])
    del client.held[topic]
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


_Act = Callable[[Leases, bytes, list[bytes], bytes], list[bool]]
_ACTS: dict[bytes, _Act] = {
    b"ACK": lambda leases, topic, receipts, _: leases.ack(topic, receipts),
    b"NACK": lambda leases, topic, receipts, _: leases.nack(topic, receipts),
    b"BACK": lambda leases, topic, receipts, _: leases.back(topic, receipts),
    b"DACK": lambda leases, topic, receipts, value: leases.dack(topic, receipts, parse_delay(_text(value))),
    b"REJECT": lambda leases, topic, receipts, value: leases.reject(topic, receipts, value),
    b"EXTEND": lambda leases, topic, receipts, value: leases.extend(topic, receipts, parse_lease(_text(value))),
}
_VALUED = frozenset({b"DACK", b"REJECT", b"EXTEND"})
_BY_RECEIPT_ONLY = frozenset({b"REJECT", b"EXTEND"})


def _text(word: bytes) -> str:
    return word.decode("utf-8", "replace")


#: The message is leased until the connection ends, so its lease is as long as a lease can be.
_OPTIONS = ReceiveOptions(lease_seconds=MAX_LEASE_SECONDS)


def return_held(client: Client) -> None:
    """Return every message that a client holds by GET to the front of its topic."""
    messages = list(client.held.values())
    client.held.clear()
    for message in messages:
        message.take_back()


def get(client: Client, command: Command) -> bytes:
    """Carry out GET; the reply is empty if it comes later."""
    topic, held, protocol = command[1], client.held, client.session.protocol
    if topic in held:
        raise MessageOutstandingError("a message of the topic is still held; ACK, NACK or BACK it first")

    def encode(received: ReceiveResult, take_back: Callable[[], None]) -> bytes:
        if not received.leases:
            return replies.encode(None, protocol)
        _, lease = received.leases[0]
        held[topic] = HeldByGet(b"%b%d" % (received.prefix, lease.receipt), take_back)
        return replies.bulk(lease.payloads[0])

    return WaitingReceive(client, encode).begin(topic, _OPTIONS)
