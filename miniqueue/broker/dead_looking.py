"""The dead letters of a topic: those in its dead-letter topic that came from it; others may go there too.

    PEEK orders STATE dead ─▶ pages of what is ready in orders.dlq ─▶ those whose origin is orders

They are shown where they are, with the ids that they have there. Knows that one can look at a topic, not how.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from miniqueue.broker.topic import Topic
from miniqueue.core import attributes
from miniqueue.core.topic_errors import UnknownTopicError
from miniqueue.errors import CorruptionError, FormatVersionError, InvalidTopicError

if TYPE_CHECKING:
    from miniqueue.broker.peeking import Seen

#: Returns a page of what is ready in a topic, behind the message of an id.
_Page = Callable[[bytes, tuple[int, int] | None], Awaitable[list["Seen"]]]


async def dead_letters(
    page_of: _Page, topic: Topic, after: tuple[int, int] | None, *, count: int, max_bytes: int
) -> list["Seen"]:
    """Return dead letters of a topic, in the order in which they would be handed out.

    There are fewer than `count` at the end, and none if no message ever died.

    Args:
      page_of: looks at a topic.
      topic: from which they came.
      after: partition and number, in the dead-letter topic, of the one behind which to begin.
      count: how many at most.
      max_bytes: with so many of payloads and attributes there are no more.
    """
    name = topic.settings.dead_letters_of(topic.name)
    letters: list[Seen] = []
    size_bytes = 0
    try:
        while page := await page_of(name, after):
            for seen in page:
                if _origin_of(seen.found.attributes) != topic.name:
                    continue
                letters.append(seen)
                size_bytes += len(seen.found.payload) + len(seen.found.attributes)
                if len(letters) == count or size_bytes >= max_bytes:
                    return letters
            after = page[-1].partition, page[-1].found.seq
    except (UnknownTopicError, InvalidTopicError):  # there is none, or its name would be too long
        return []
    return letters


def _origin_of(given: bytes) -> bytes | None:
    """Return the topic that a dead letter came from; None for a message that is none, or that cannot be read."""
    try:
        origin = attributes.decode(given).origin
    except (CorruptionError, FormatVersionError):
        return None
    return None if origin is None else origin.topic
