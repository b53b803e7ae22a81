"""RECEIVE, RECEIVEANY, GET, and what settles by receipt or by topic: ACK, NACK, BACK, DACK, REJECT, EXTEND.

A receipt can be settled by any connection; the options of NACK follow the receipts:

    C: RECEIVE topic COUNT 2 WAIT 5            C: ACK topic 5f0c-17 5f0c-18
    S: [["5f0c-17", first, [id, 0-4, …]],      S: ["OK", "OK"]
        ["5f0c-18", second, [id, 0-5, …]]]     C: EXTEND topic 5f0c-19 60
                                               S: -NOLEASE …
    C: ACK topic 5f0c-20 SYNC
    S: +OK, when the ACK is on the disk
    C: NACK topic 5f0c-21 DELAY 30 REASON "no reply"

While a RECEIVE waits, the commands after it wait too, as after any command; other connections continue.

RECEIVEANY is a RECEIVE of several topics. The messages of each are those that RECEIVE would return:

    C: RECEIVEANY COUNT 2 WAIT 5 PATTERN jobs.* TOPICS orders letters
    S: [[orders, [["5f0c-17", first, [id, 0-4, …]]]], [jobs.eu, [["7a31-3", second, [id, 0-5, …]]]]]

GET is for interactive use: it leases the next message of a topic to the connection, and a command that names the topic
without a receipt settles it.

    C: GET topic        C: ACK topic        or NACK topic, BACK topic, DACK topic seconds
    S: hello            S: +OK

    GET ─▶ held by the connection ─ ACK … ─▶ acknowledged, or returned to the topic
     └ null: the topic is empty       └ RESET, or the connection ends ─▶ front of the topic, as for a stream

A connection can hold one message of each topic.

Thousands of messages are settled in turns of the event loop, and the connection is held meanwhile.

The word SYNC after the receipts delays the reply until the commit of the settle. No receipt is such a word, and the
delay or the reason comes after it: so any text can be a reason.
"""

from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from miniqueue.access.rights import Right
from miniqueue.access.users import User, check_permitted
from miniqueue.broker.leases.leases import Leases
from miniqueue.broker.leases.receive import ReceiveResult, Receiving
from miniqueue.broker.leases.receive_any import ReceivedAny
from miniqueue.broker.leases.settling import ACK, BACK, Settling
from miniqueue.broker.runtime.share import Work
from miniqueue.broker.transactions.acts import Settle, Way
from miniqueue.core.message.parts import whole_of
from miniqueue.core.options.consume import (
    MAX_LEASE_SECONDS,
    NOT_LEASED,
    ReceiveOptions,
    parse_lease,
    parse_receive_options,
)
from miniqueue.core.options.durations import parse_seconds
from miniqueue.core.options.settle import PLAIN_NACK, NackOptions
from miniqueue.core.options.topic_choice import TopicChoice, parse_choice
from miniqueue.errors import (
    MessageOutstandingError,
    MiniqueueError,
    NothingOutstandingError,
    RequestError,
)
from miniqueue.server.resp.commands.context import Client, HeldByGet, answer_later
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.receive_replies import resp_messages, resp_messages_of
from miniqueue.wire.resp_arguments import nack_options_of, shown
from miniqueue.wire.resp_parser import Command

ResultT = TypeVar("ResultT")
#: Requests messages, with the functions for the answer and for an error.
_Receive = Callable[[ReceiveOptions, Callable[[ResultT], None], Callable[[MiniqueueError], None]], Receiving]


class WaitingReceive(Generic[ResultT]):
    """A command that requests messages, from its start to its reply; the connection is held in between.

    Args:
      client: receives the reply.
      encode: makes the reply; its second argument takes the messages back.

    A long reply is made in turns of the event loop. The leases keep the content of the messages meanwhile, whatever
    becomes of their topic. If the client has gone before the end, they return to the front of their topic.
    """

    def __init__(self, client: Client, encode: Callable[[ResultT, Callable[[], None]], Work[bytes]]) -> None:
        self._client = client
        self._encode = encode
        self._reply: bytes | None = None
        self._is_held = False
        self._receiving: Receiving | None = None

    def begin(self, receive: _Receive[ResultT], options: ReceiveOptions) -> bytes:
        """Return the reply; or hold the connection until there is one, and return nothing. Raises MiniqueueError."""
        self._client.check_client()
        if self._client.has_ended:  # a client that may have gone does not wait for messages
            options = options._replace(wait_seconds=0.0)
        self._receiving = receive(options, self._answer, self._fail)
        if self._reply is not None:
            return self._reply
        if not self._is_held:
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

    def _answer(self, received: ResultT) -> None:
        work = self._encode(received, self.take_back)
        try:
            next(work)
        except StopIteration as end:  # the usual case
            self._finish(end.value)
        else:
            self._is_held = True
            answer_later(self._client, self._made(work), self)

    async def _made(self, work: Work[bytes]) -> bytes:
        reply = await self._client.broker.share.finish(work)
        try:
            self._client.check_client()
        except MiniqueueError:
            self.take_back()
            raise
        return reply

    def _fail(self, error: MiniqueueError) -> None:
        self._finish(replies.error(error.code, str(error)))

    def _finish(self, reply: bytes) -> None:
        self._reply = reply
        if self._is_held:
            self._client.release(reply)


_WITH_VALUE = {b"GROUP": "group", b"MEMBER": "member", b"COUNT": "count", b"WAIT": "wait", b"LEASE": "lease"}


def receive(client: Client, command: Command) -> bytes:
    """Carry out RECEIVE; the reply is empty if it comes later."""
    options = options_of_receive(command[2:])
    reply = _receiving(client).begin(partial(client.broker.leases.receive, command[1]), options)
    client.session.received = command[1], options.group, options.member
    return reply


def receive_at_once(client: Client, command: Command, taken: list[Callable[[], None]]) -> bytes:
    """Carry out RECEIVE without a wait; append to `taken` what returns the messages."""
    waiting = _receiving(client)
    taken.append(waiting.take_back)
    options = options_of_receive(command[2:])._replace(wait_seconds=0.0)
    return waiting.begin(partial(client.broker.leases.receive, command[1]), options)


def _receiving(client: Client) -> WaitingReceive[ReceiveResult]:
    protocol = client.session.protocol
    return WaitingReceive(client, lambda received, _: resp_messages(received.prefix, received.leases, protocol))


def receive_any(client: Client, command: Command) -> bytes:
    """Carry out RECEIVEANY; the reply is empty if it comes later."""
    protocol, user = client.session.protocol, client.user
    words, patterns, names = topics_of(command[1:])
    options, choice = options_of_receive(words), permitted_choice(user, command[0], names, patterns)
    reach = list if user is None else user.consumable

    def encode(received: ReceivedAny, _take_back: Callable[[], None]) -> Work[bytes]:
        return resp_messages_of([(whole_of(topic), *result) for topic, result in received], protocol)

    def begin(
        options: ReceiveOptions, answer: Callable[[ReceivedAny], None], fail: Callable[[MiniqueueError], None]
    ) -> Receiving:
        return client.broker.several.receive(choice, options, reach, answer, fail)

    client.session.received = None
    return WaitingReceive(client, encode).begin(begin, options)


def permitted_choice(user: User | None, word: bytes, names: list[bytes], patterns: list[bytes]) -> TopicChoice:
    """Return the topics that a RECEIVEANY wants; `word` is its name. Raises RequestError, or NotPermittedError."""
    choice = parse_choice(names, patterns)
    for name in choice.names:
        check_permitted(user, Right.CONSUME, name, f"the '{shown(word).lower()}' command")
    return choice


def topics_of(words: list[bytes]) -> tuple[list[bytes], list[bytes], list[bytes]]:
    """Return the words of the other options, the patterns, and the names of topics, which come last."""
    others: list[bytes] = []
    patterns: list[bytes] = []
    start = 0
    while start < len(words):
        word = words[start].upper()
        if word == b"TOPICS":
            return others, patterns, words[start + 1 :]
        stop = start + (1 if word == b"AUTOACK" else 2)
        if word == b"PATTERN" and stop <= len(words):
            patterns.append(words[start + 1])
        else:
            others += words[start:stop]
        start = stop
    return others, patterns, []


def options_of_receive(words: list[bytes]) -> ReceiveOptions:
    """Return the options in the words after the topic; raises RequestError."""
    options: dict[str, bytes] = {}
    words = words[::-1]
    while words:
        word = words.pop().upper()
        name = _WITH_VALUE.get(word)
        if name is not None and words and name not in options:
            options[name] = words.pop()
        elif word == b"AUTOACK":
            options["autoack"] = b"true"
        else:
            raise RequestError(f"syntax error in RECEIVE option '{shown(word)}'")
    return parse_receive_options(options)


def parse_settle(command: Command) -> Settle:
    """Return the act of an ACK, NACK, BACK, DACK, REJECT or EXTEND by receipt, as a part of a transaction.

    Raises RequestError for a message that GET holds: its settle names no receipt.
    """
    word, nack = command[0].upper(), PLAIN_NACK
    if word == b"NACK":
        command, nack = nack_options_of(command, 2)
    topic, *words = command[1:] or [b""]
    receipts, value, is_synced = _split(word, words)
    if not receipts:
        raise RequestError("in a transaction, messages are settled by receipt; name at least one")
    way = Way(word.decode().lower())
    parse = {Way.DACK: _parse_delay, Way.EXTEND: parse_lease}.get(way)
    seconds = 0.0 if parse is None else parse(value)
    reason = value if way is Way.REJECT else b""
    return Settle(topic, receipts, way, seconds, reason, nack, is_synced)


def settle_reply(act: Settle) -> bytes:
    """Return the reply to a settle by receipt that found all its messages."""
    return _encode([True] * len(act.receipts))


def nack(client: Client, command: Command) -> bytes:
    """Carry out NACK with its options; raises as `settle`, InvalidDelayError, and RequestError."""
    command, options = nack_options_of(command, 2)
    return settle(client, command, None if options is PLAIN_NACK else partial(_nack, options=options))


def settle(client: Client, command: Command, act: "_Act | None" = None) -> bytes:
    """Carry out ACK, NACK, BACK, DACK, REJECT or EXTEND for a topic; `act` is that of NACK with options.

    The reply is empty if it comes later. Raises NothingOutstandingError for the commands of a stream, which name no
    topic, and if GET holds no message of the topic.
    """
    word = command[0].upper()
    if len(command) < 3 and (len(command) == 1 or word == b"DACK"):
        raise NothingOutstandingError
    topic, *words = command[1:]
    receipts, value, is_synced = _split(word, words)
    if not receipts and (topic not in client.held or word not in _TOPIC_SUFFICES):
        raise NothingOutstandingError
    leases = client.broker.leases
    settling = (act or _ACTS[word])(leases, topic, value)
    results: list[bool] | None
    if not receipts:
        results = leases.settle(topic, [client.held[topic].receipt], settling)
        del client.held[topic]
    else:
        results = leases.settle_if_short(topic, receipts, settling)
    if results is None:
        return answer_later(client, _settle_in_turns(client, topic, receipts, settling, is_synced=is_synced))
    reply = _encode(results)
    if not is_synced:
        return reply
    client.wait_for(client.broker.sync(), reply)
    return b""


async def _settle_in_turns(
    client: Client, topic: bytes, receipts: list[bytes], settling: Settling, *, is_synced: bool
) -> bytes:
    reply = _encode(await client.broker.leases.settle_in_turns(topic, receipts, settling))
    if is_synced:
        await client.broker.sync().wait()
    return reply


async def settle_by_receipt(client: Client, command: Command) -> bytes:
    """Return the reply to a settle that names receipts, once it is complete; raises as `settle`."""
    word, options = command[0].upper(), PLAIN_NACK
    if word == b"NACK":
        command, options = nack_options_of(command, 2)
    topic, *words = command[1:]
    receipts, value, is_synced = _split(word, words)
    act = _ACTS[word] if options is PLAIN_NACK else partial(_nack, options=options)
    settling = act(client.broker.leases, topic, value)
    return await _settle_in_turns(client, topic, receipts, settling, is_synced=is_synced)


def _split(word: bytes, words: list[bytes]) -> tuple[list[bytes], bytes, bool]:
    """Return the receipts, the value that some commands have after them, and whether SYNC is in between."""
    value = words.pop() if word in _VALUED and words else b""
    is_synced = bool(words) and words[-1].upper() == b"SYNC" and word in _STORED
    return words[:-1] if is_synced else words, value, is_synced


def _encode(results: list[bool]) -> bytes:
    if len(results) == 1:
        if not results[0]:
            raise NothingOutstandingError(NOT_LEASED)
        return replies.OK
    if all(results):
        return b"*%d\r\n%b" % (len(results), replies.OK * len(results))
    refusal = replies.bulk(f"{NothingOutstandingError.code} {NOT_LEASED}".encode())
    return replies.array([replies.OK if is_settled else refusal for is_settled in results])


def _nack(leases: Leases, _topic: bytes, _value: bytes, options: NackOptions = PLAIN_NACK) -> Settling:
    return leases.nacking(options)


#: What a command does with messages of a topic; the last argument is the value after the receipts.
_Act = Callable[[Leases, bytes, bytes], Settling]
_ACTS: dict[bytes, _Act] = {
    b"ACK": lambda _leases, _topic, _value: ACK,
    b"NACK": _nack,
    b"BACK": lambda _leases, _topic, _value: BACK,
    b"DACK": lambda leases, _topic, value: leases.dacking(_parse_delay(value)),
    b"REJECT": lambda leases, topic, value: leases.rejecting(topic, value),
    b"EXTEND": lambda leases, _topic, value: leases.extending(parse_lease(value)),
}
_VALUED = frozenset({b"DACK", b"REJECT", b"EXTEND"})
#: The commands that change the store, which knows no leases.
_STORED = frozenset(_ACTS) - {b"EXTEND"}
#: The commands that settle the message of GET if they name no receipt.
_TOPIC_SUFFICES = frozenset(_ACTS) - {b"REJECT", b"EXTEND"}


def _parse_delay(word: bytes) -> float:
    return parse_seconds(word.decode("utf-8", "replace"))


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

    def encode(received: ReceiveResult, take_back: Callable[[], None]) -> Work[bytes]:
        yield from ()
        if not received.leases:
            return replies.encode(None, protocol)
        _, lease = received.leases[0]
        held[topic] = HeldByGet(b"%b%d" % (received.prefix, lease.receipt), take_back)
        return replies.bulk(lease.payloads[0])

    return WaitingReceive(client, encode).begin(partial(client.broker.leases.receive, topic), _OPTIONS)
