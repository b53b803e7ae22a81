"""The number of returned messages whose delay is over, counted up to a limit that follows the clock.

The count is maintained, not recomputed: each message is read once to be counted, and subtracted when it leaves.
"""


class DueCount:
    """The due messages of one group in one partition, leased or not.

    Attributes:
      limit: the order up to which messages are counted.
      count: the number of messages before the limit.
    """

    __slots__ = ("count", "limit")

    def __init__(self) -> None:
        self.limit = self.count = 0

    def add(self, order: int) -> None:
        """Count a message that was added to DELAYED."""
        if order < self.limit:
            self.count += 1

    def remove(self, order: int) -> None:
        """Subtract a message that has left DELAYED."""
        if order < self.limit:
            self.count -= 1

    def extend(self, limit: int, count: int) -> None:
        """Move the limit forward, past `count` messages."""
        self.limit = limit
        self.count += count

    def clear(self) -> None:
        """Reset the count and the limit, because the clock was set back."""
        self.limit = self.count = 0
