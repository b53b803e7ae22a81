"""The commands of a subscription: what each does to a consumer.

    INIT                                       ask for the first messages
    ACK, NACK, BACK       [receipt …]          settle the message, or those named; ask for more
    DACK seconds          [receipt …]          return them after a time, ask for more
    REPLY                 [receipt] payload    settle the message, and pass the rest on to who has asked; ask for more

With a prefetch the receipts must be there, without they do not matter. A command that fails raises, and the consumer
keeps what it holds. The error texts are those of the Go program.
"""

from collections.abc import Sequence

from miniqueue.broker import Consumer
from miniqueue.broker.requesting import Requests
from miniqueue.core.delay import parse_delay
from miniqueue.core.receipts import parse_receipts
from miniqueue.errors import (
    InvalidDelayError,
    MessageOutstandingError,
    NothingOutstandingError,
    UnknownCommandError,
)


def execute(consumer: Consumer, requests: Requests, command: str, *, has_receipts: bool = False) -> None:
    """Carry out one command; words after those it needs do not matter, but those of a reply.

    Raises:
      UnknownCommandError: there is no such command.
      MessageOutstandingError: INIT while a message is held or waited for.
      NothingOutstandingError: no message was held to settle.
      UnknownReceiptError: the same of some of those named; the others are settled.
      InvalidDelayError: the argument of DACK is missing or no delay; the messages are still held.
      NoRequestError: nobody waits for a reply to the message, which is still held.
      RequesterGoneError: nobody does any more; the message is settled.
      StorageError: the topic cannot be read.
    """
    name, *arguments = command.split(" ")
    if name == "INIT":
        _init(consumer)
        return
    try:
        if name == "REPLY":
            _reply(consumer, requests, arguments, has_receipts)
        else:
            _settle(consumer, name, arguments, has_receipts)
    except NothingOutstandingError as exc:
        raise NothingOutstandingError("no message is outstanding") from exc
    consumer.refill()


def _init(consumer: Consumer) -> None:
    try:
        consumer.request()
    except MessageOutstandingError as exc:
        raise MessageOutstandingError("error getting next value for consumer") from exc


def _settle(consumer: Consumer, name: str, arguments: list[str], has_receipts: bool) -> None:
    if name == "ACK":
        _ack(consumer, arguments, has_receipts)
    elif name == "NACK":
        consumer.nack(_receipts(arguments, has_receipts))
    elif name == "BACK":
        consumer.back(_receipts(arguments, has_receipts))
    elif name == "DACK":
        _dack(consumer, arguments, has_receipts)
    else:
        raise UnknownCommandError("unrecognised command received")


def _ack(consumer: Consumer, arguments: list[str], has_receipts: bool) -> None:
    was_holding = consumer.is_holding
    try:
        consumer.ack(_receipts(arguments, has_receipts))
    except NothingOutstandingError:
        if not was_holding:
            raise  # else the message ended with its topic: it is gone, which is what ACK is for


def _reply(consumer: Consumer, requests: Requests, arguments: list[str], has_receipts: bool) -> None:
    if len(arguments) < 1 + has_receipts:
        raise UnknownCommandError("too few arguments provided to REPLY")
    receipt = parse_receipts([arguments.pop(0).encode()])[0] if has_receipts else None
    requests.reply_from_stream(consumer, receipt, " ".join(arguments).encode())


def _dack(consumer: Consumer, arguments: list[str], has_receipts: bool) -> None:
    if not arguments:
        raise InvalidDelayError("too few arguments provided to DACK")
    receipts = _receipts(arguments[1:], has_receipts)
    try:
        consumer.dack(parse_delay(arguments[0]), receipts)
    except InvalidDelayError as exc:
        raise InvalidDelayError("invalid DACK duration argument at position [1]") from exc


def _receipts(arguments: list[str], has_receipts: bool) -> Sequence[int] | None:
    return parse_receipts([word.encode() for word in arguments]) if has_receipts else None
