"""Pieces of a partition's log, as READ shows them: values, and nothing that can be done with them."""

from dataclasses import dataclass
from typing import NamedTuple

from miniqueue.client.message import Message


class Bounds(NamedTuple):
    """What can be read of a partition.

    Attributes:
      partition: what the ids of its messages begin with: `0`, or `0.high` for the messages of a priority.
      earliest: the earliest offset that can be read.
      end: the offset behind the last message.
    """

    partition: str
    earliest: int
    end: int


@dataclass(frozen=True, slots=True)
class Page:
    """Messages of a partition, one behind the other.

    Attributes:
      messages: in the order of their offsets; none at the end of the log.
      next: where the page behind this one begins.
      missed: how many messages in front of the first one are no longer there.
      earliest: the earliest offset that can be read.
      end: the offset behind the last message.
    """

    messages: tuple[Message, ...]
    next: int
    missed: int
    earliest: int
    end: int


def offset_of(message: Message) -> int:
    """Return the place of a message in its partition."""
    return int(message.id.rpartition("-")[2])
