"""The commands of a subscription: what each does to a consumer.

    INIT                  ask for the first message
    ACK, NACK, BACK       settle the message, ask for the next
    DACK seconds          return the message after a time, ask for the next

A command that fails raises, and the consumer keeps what it holds. The error texts are those of the Go program.
"""

from miniqueue.broker import Consumer
from miniqueue.core.delay import parse_delay
from miniqueue.errors import (
    InvalidDelayError,
    MessageOutstandingError,
    NothingOutstandingError,
    UnknownCommandError,
)


def execute(consumer: Consumer, command: str) -> None:
    """Carry out one command; words after those it needs do not matter.

    Raises:
      UnknownCommandError: there is no such command.
      MessageOutstandingError: INIT while a message is held or waited for.
      NothingOutstandingError: no message was held to settle.
      InvalidDelayError: the argument of DACK is missing or no delay; the message is still held.
      StorageError: the topic cannot be read.
    """
    name, *arguments = command.split(" ")
    if name == "INIT":
        _init(consumer)
        return
    try:
        _settle(consumer, name, arguments)
    except NothingOutstandingError as exc:
        raise NothingOutstandingError("no message is outstanding") from exc
    consumer.request()


def _init(consumer: Consumer) -> None:
    try:
        consumer.request()
    except MessageOutstandingError as exc:
        raise MessageOutstandingError("error getting next value for consumer") from exc


def _settle(consumer: Consumer, name: str, arguments: list[str]) -> None:
    if name == "ACK":
        consumer.ack()
    elif name == "NACK":
        consumer.nack()
    elif name == "BACK":
        consumer.back()
    elif name == "DACK":
        _dack(consumer, arguments)
    else:
        raise UnknownCommandError("unrecognised command received")


def _dack(consumer: Consumer, arguments: list[str]) -> None:
    if not arguments:
        raise InvalidDelayError("too few arguments provided to DACK")
    try:
        consumer.dack(parse_delay(arguments[0]))
    except InvalidDelayError as exc:
        raise InvalidDelayError("invalid DACK duration argument at position [1]") from exc
