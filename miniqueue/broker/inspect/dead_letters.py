"""The dead letters of a topic: the messages in its dead-letter topic that came from it.

    PEEK orders STATE dead ─▶ pages of the ready messages of orders.dlq ─▶ those whose origin is orders

Other topics may share the dead-letter topic. Dead letters are shown with their ids there. The caller decides how pages
are read.
"""

from collections.abc import Awaitable, Callable

from miniqueue.broker.inspect.peeked import PeekedMessage
from miniqueue.broker.model.topic import Topic
from miniqueue.core.message import attributes
from miniqueue.core.message.parts import whole_of
from miniqueue.errors import CorruptionError, FormatVersionError, InvalidTopicError
from miniqueue.errors.requests import UnknownTopicError

#: Returns a page of the ready messages of a topic, after the message with an id.
_Page = Callable[[bytes, tuple[int, int] | None], Awaitable[list[PeekedMessage]]]


async def dead_letters(
    page_of: _Page, topic: Topic, after: tuple[int, int] | None, *, count: int, max_bytes: int
) -> list[PeekedMessage]:
    """Return dead letters of a topic, in the order in which they would be delivered.

    Returns fewer than `count` at the end, and none if the topic never had a dead letter.

    Args:
      page_of: reads a page of a topic.
      topic: the topic from which the dead letters came.
      after: partition and sequence number, in the dead-letter topic, of the message after which to begin.
      count: maximum number of dead letters.
      max_bytes: size of payloads and attributes after which no more dead letters are added.
    """
    name = topic.settings.dead_letters_of(topic.name)
    letters: list[PeekedMessage] = []
    size_bytes = 0
    try:
        while page := await page_of(name, after):
            for seen in page:
                if _origin_of(seen.stored.attributes) != whole_of(topic.name):
                    continue
                letters.append(seen)
                size_bytes += len(seen.stored.payload) + len(seen.stored.shown_attributes)
                if len(letters) == count or size_bytes >= max_bytes:
                    return letters
            after = page[-1].partition, page[-1].stored.seq
    except (UnknownTopicError, InvalidTopicError):  # there is no such topic, or its name would be too long
        return []
    return letters


def _origin_of(encoded: bytes) -> bytes | None:
    """Return the topic that a dead letter came from; None if the message is no dead letter, or cannot be decoded."""
    try:
        origin = attributes.decode(encoded).origin
    except (CorruptionError, FormatVersionError):
        return None
    return None if origin is None else origin.topic
