"""What a topic with limits holds at most: counted once, and from then on with what is added.

    counted ─▶ is_exact ──added──▶ is_exact ──a commit: something may have been settled──▶ at most this much
       ▲                                                             │ within the limits: so it is, really
       └──────────────────────── over the limits ◀───────────────────┘

So who publishes to a topic with limits does not look at its partitions each time, but when it may be full. A topic of
few partitions is soon counted: it never is exact, and what is settled makes room before its commit.
"""

from typing import Final

#: Topics of fewer partitions, or lanes, are counted each time that they may be full.
MANY_PARTITIONS: Final = 16


class Held:
    """Messages that are not acknowledged, and the bytes of their payloads.

    Attributes:
      messages, size_bytes: at most.
      is_exact: whether counting again would not help: of many partitions, nothing was committed since they were
        counted; what is settled shows with its commit.
    """

    __slots__ = ("is_exact", "messages", "size_bytes")

    def __init__(self, messages: int, size_bytes: int) -> None:
        self.messages = messages
        self.size_bytes = size_bytes
        self.is_exact = True

    def take(self, messages: int, size_bytes: int, max_messages: int, max_bytes: int) -> bool:
        """Count messages that are put into the topic, if it is within its limits with them; return whether it is."""
        messages += self.messages
        size_bytes += self.size_bytes
        if messages > max_messages or size_bytes > max_bytes:
            return False
        self.messages, self.size_bytes = messages, size_bytes
        return True

    def add(self, messages: int, size_bytes: int) -> None:
        """Count messages that are put into the topic."""
        self.messages += messages
        self.size_bytes += size_bytes
