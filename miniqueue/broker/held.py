"""What a topic of many partitions holds at most: counted once, and from then on with what is added.

    counted ─▶ is_exact ──added──▶ is_exact ──a commit: something may have been settled──▶ at most this much
       ▲                                                             │ within the limits: so it is, really
       └──────────────────────── over the limits ◀───────────────────┘

So who publishes to a topic with limits does not look at all of its partitions each time, but when it may be full.
"""

from typing import Final

#: Topics of fewer partitions, or lanes, are counted each time.
MANY_PARTITIONS: Final = 16


class Held:
    """Messages that are not acknowledged, and the bytes of their payloads.

    Attributes:
      messages, size_bytes: at most.
      is_exact: whether nothing was committed since they were counted; what is settled shows with its commit.
    """

    __slots__ = ("is_exact", "messages", "size_bytes")

    def __init__(self, messages: int, size_bytes: int) -> None:
        self.messages = messages
        self.size_bytes = size_bytes
        self.is_exact = True

    def add(self, messages: int, size_bytes: int) -> None:
        """Count messages that are put into the topic."""
        self.messages += messages
        self.size_bytes += size_bytes
