"""Calls that read the log of a topic, without a group and without leases; see `messages`."""

from datetime import datetime
from functools import partial

from miniqueue_client.calls import answers
from miniqueue_client.calls.call import Call, Reply, Word, options, time_word
from miniqueue_client.calls.values import Bounds, Page


def partitions(topic: str) -> Call[list[Bounds]]:
    """List the partitions of a topic, with the offsets that can be read."""
    return Call(("PARTITIONS", topic), _bounds)


def read(
    topic: str, partition: str | int = 0, offset: int = 0, *, count: int | None = None, max_bytes: int | None = None
) -> Call[Page]:
    """Read the log of a partition from an offset; changes nothing.

    Args:
      topic: the topic, which must exist.
      partition: the partition, as in the ids of its messages: 0, or `0.high` for the messages of a priority.
      offset: the offset of the first message, which is the second number of its id; or `Page.next` of the last page.
      count: maximum number of messages; at most 10,000, by default 100. With 0 the page contains only the offsets.
      max_bytes: maximum size of payloads and attributes; at most 4 MiB. The message that reaches it is the last.
    """
    return _read(topic, partition, (offset,), count, max_bytes)


def read_from(
    topic: str, at: datetime, partition: str | int = 0, *, count: int | None = None, max_bytes: int | None = None
) -> Call[Page]:
    """Read the log of a partition from a time, in local time if it has no time zone; see `read`."""
    return _read(topic, partition, ("TIME", time_word(at)), count, max_bytes)


def _read(
    topic: str, partition: str | int, start: tuple[Word, ...], count: int | None, max_bytes: int | None
) -> Call[Page]:
    words = ("READ", topic, partition, *start, *options(count=count, bytes=max_bytes))
    return Call(words, partial(_page, topic))


def _page(topic: str, reply: Reply) -> Page:
    return Page(
        tuple(answers.seen(topic, reply[b"messages"])),
        *(int(reply[name]) for name in (b"next", b"missed", b"earliest", b"end")),
    )


def _bounds(reply: Reply) -> list[Bounds]:
    return [Bounds(answers.text(item[b"partition"]), item[b"earliest"], item[b"end"]) for item in reply]
