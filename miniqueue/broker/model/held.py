"""An upper bound of what a topic with limits holds: counted once, then increased by each publish.

    counted ─▶ is_exact ──publish──▶ is_exact ──a commit: messages may have been settled──▶ an upper bound
       ▲                                                             │ within the limits: so the topic is, too
       └──────────────────────── over the limits ◀───────────────────┘

So a publish to a topic with limits does not inspect all partitions each time, only when the topic may be full. Counting
a topic with few partitions is fast: its bound is never exact, and settled messages make room before their commit.
"""

from typing import Final

#: Topics with fewer partitions, or lanes, are counted each time that they may be full: that is fast enough.
MANY_PARTITIONS: Final = 16


class TopicUsage:
    """An upper bound of a topic's unacknowledged messages, and of the size of their payloads.

    Attributes:
      messages, size_bytes: the upper bounds.
      is_exact: whether counting again would not help: the topic has many partitions, and nothing was committed since
        they were counted; settled messages count less only after their commit.
    """

    __slots__ = ("is_exact", "messages", "size_bytes")

    def __init__(self, messages: int, size_bytes: int) -> None:
        self.messages = messages
        self.size_bytes = size_bytes
        self.is_exact = True

    def take(self, messages: int, size_bytes: int, max_messages: int, max_bytes: int) -> bool:
        """Add messages if the topic stays within its limits; return whether it does."""
        messages += self.messages
        size_bytes += self.size_bytes
        if messages > max_messages or size_bytes > max_bytes:
            return False
        self.messages, self.size_bytes = messages, size_bytes
        return True

    def add(self, messages: int, size_bytes: int) -> None:
        """Add messages to the count."""
        self.messages += messages
        self.size_bytes += size_bytes
