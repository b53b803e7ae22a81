"""What a client asks about the log of a topic, read without a group and without leases; as `message_calls`."""

from datetime import datetime
from functools import partial

from miniqueue.client import answers
from miniqueue.client.call import Call, Reply, Word, options
from miniqueue.client.log import Bounds, Page


def partitions(topic: str) -> Call[list[Bounds]]:
    """List the partitions of a topic, and what can be read of each."""
    return Call(("PARTITIONS", topic), _bounds)


def read(
    topic: str, partition: str | int = 0, offset: int = 0, *, count: int | None = None, max_bytes: int | None = None
) -> Call[Page]:
    """Read the log of a partition from a message on; nothing is changed by it.

    Args:
      topic: which must exist.
      partition: what the ids of its messages begin with: 0, or `0.high` for the messages of a priority.
      offset: of the first message, the second number of its id; or `Page.next` of the page before.
      count: of messages at most; by default 100, up to 10,000. With 0 the page tells what can be read.
      max_bytes: of payloads and attributes, up to 4 MiB; a page ends with the message that reaches it.
    """
    return _read(topic, partition, (offset,), count, max_bytes)


def read_from(
    topic: str, at: datetime, partition: str | int = 0, *, count: int | None = None, max_bytes: int | None = None
) -> Call[Page]:
    """Read the log of a partition from a time on, with a time zone or in local time; as `read`."""
    return _read(topic, partition, ("TIME", round(at.timestamp() * 1000)), count, max_bytes)


def _read(
    topic: str, partition: str | int, place: tuple[Word, ...], count: int | None, max_bytes: int | None
) -> Call[Page]:
    words = ("READ", topic, partition, *place, *options(count=count, bytes=max_bytes))
    return Call(words, partial(_page, topic))


def _page(topic: str, reply: Reply) -> Page:
    return Page(
        tuple(answers.seen(topic, reply[b"messages"])),
        *(int(reply[name]) for name in (b"next", b"missed", b"earliest", b"end")),
    )


def _bounds(reply: Reply) -> list[Bounds]:
    return [Bounds(answers.text(one[b"partition"]), one[b"earliest"], one[b"end"]) for one in reply]
