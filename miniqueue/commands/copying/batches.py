"""From a page of a log to batches, each of which one transaction publishes.

    page: 17 18 19 … 99 ─▶ batch 17–60, then batch 61–99, each within the limits of one command

What is kept of a message: payload, key, headers, priority, and the time at which it expires. A message that has expired
is left out. The dedup id of a batch contains the partition, the offset, and the time of its first message.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from miniqueue_client.calls.messages import Outgoing, Priority
from miniqueue_client.calls.values import Message, Page, offset_of

#: Limits of one batch: a command has at most 9,999 words of messages, and 2 MiB.
_MAX_WORDS: Final = 9_000
_MAX_BYTES: Final = 1 << 20
_BYTES_PER_WORD: Final = 16


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages that are published together.

    Attributes:
      partition: the partition of the source, as in ids of messages: `0`, or `0.high`.
      messages: the messages, in order; without those that have expired.
      dedup_id: the id of the batch, which does not depend on what has expired meanwhile.
      dedup_ids: an id for each message.
      next: the offset after them.
      expired_count: the number of messages that were left out.
    """

    partition: str
    messages: tuple[Outgoing, ...]
    dedup_id: str
    dedup_ids: tuple[str, ...]
    next: int
    expired_count: int

    @property
    def priority(self) -> Priority | None:
        """The priority of the messages; None if it is the normal one."""
        match self.partition.partition(".")[2]:
            case "high":
                return "high"
            case "low":
                return "low"
            case _:
                return None


def batches_of(partition: str, page: Page, now_ms: int) -> Iterator[Batch]:
    """Yield the batches of a page, in order.

    Args:
      partition: the partition of the source.
      page: the page.
      now_ms: the current time in ms since 1970.
    """
    messages = page.messages
    start = 0
    while start < len(messages):
        stop = _end_of_batch(messages, start)
        following = page.next if stop == len(messages) else offset_of(messages[stop])
        yield _batch(partition, messages[start:stop], following, now_ms)
        start = stop


def _end_of_batch(messages: Sequence[Message], start: int) -> int:
    words = size = 0
    for index in range(start, len(messages)):
        words += len(Outgoing(b"", messages[index].headers, messages[index].key or None, 1).words())
        size += _size_of(messages[index])
        if index > start and (words > _MAX_WORDS or size > _MAX_BYTES):
            return index
    return len(messages)


def _size_of(message: Message) -> int:
    headers = sum(len(name) + len(value) + 3 * _BYTES_PER_WORD for name, value in message.headers)
    return len(message.payload) + len(message.key) + headers + 6 * _BYTES_PER_WORD


def _batch(partition: str, messages: Sequence[Message], following: int, now_ms: int) -> Batch:
    kept = [message for message in messages if not 0 < message.expires_at_ms <= now_ms]
    return Batch(
        partition,
        tuple(_outgoing(message, now_ms) for message in kept),
        _dedup_id(messages[0]),
        tuple(map(_dedup_id, kept)),
        following,
        len(messages) - len(kept),
    )


def _dedup_id(message: Message) -> str:
    return f"copy {message.id} {message.published_at_ms}"


def _outgoing(message: Message, now_ms: int) -> Outgoing:
    ttl_seconds = (message.expires_at_ms - now_ms) / 1000 if message.expires_at_ms else None
    return Outgoing(message.payload, message.headers, message.key or None, ttl_seconds)
