"""The messages of a topic in a backup or in an export, whichever a path is."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from miniqueue.commands.stored.backup import messages_in_backup
from miniqueue.commands.stored.lines import messages_in_lines
from miniqueue_client import Message


def stored_messages(
    path: Path, topic: str, from_time: datetime | None = None, to_time: datetime | None = None
) -> Iterator[Message]:
    """Yield the messages of a topic that were published in a span of time; raises MiniqueueError.

    Args:
      path: the directory of a backup, or the file of an export, which can be compressed by gzip.
      topic: the topic.
      from_time: the start of the span; None: the first message.
      to_time: the end of the span, which is not a part of it; None: the last message.
    """
    messages = messages_in_backup(path, topic) if path.is_dir() else messages_in_lines(path, topic)
    first_ms, end_ms = _ms(from_time), _ms(to_time)
    for message in messages:
        at_ms = message.published_at_ms
        if (first_ms is None or at_ms >= first_ms) and (end_ms is None or at_ms < end_ms):
            yield message


def _ms(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp() * 1000
