"""What clients can have done with chosen messages, and the parser of the words that say it.

RESP    MESSAGE DUE orders 0-1700000060000-3 DELAY 60        MESSAGE REDRIVE orders.dlq 0-17 TO orders
HTTP    POST /topics/orders/messages/0-1700000060000-3/due?delay=60
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from miniqueue.core.options.publish import parse_texts


class MessageAct(StrEnum):
    """What is done with messages."""

    DELETE = "delete"
    FRONT = "front"
    REDRIVE = "redrive"
    DUE = "due"


#: The options of each act, besides those that choose the messages.
OPTIONS: Final[Mapping[MessageAct, tuple[str, ...]]] = MappingProxyType(
    {MessageAct.DELETE: (), MessageAct.FRONT: (), MessageAct.REDRIVE: ("to",), MessageAct.DUE: ("at", "delay")}
)


class Order(NamedTuple):
    """An act with its arguments.

    Attributes:
      act: the act.
      due_at_ms: the new due time, for DUE; None: now.
      target: the topic to move all messages to, for REDRIVE; None: the origin of each.
    """

    act: MessageAct
    due_at_ms: int | None = None
    target: bytes | None = None


def parse_order(act: MessageAct, options: Mapping[str, bytes], now_ms: int) -> Order:
    """Return the order that a client gives; other names in `options` are ignored.

    Raises InvalidOptionError or InvalidDelayError.
    """
    if act is MessageAct.DUE and (times := {name: options[name] for name in OPTIONS[act] if name in options}):
        return Order(act, parse_texts(times.items()).due_at_ms(now_ms))
    return Order(act, target=options.get("to"))
