"""How many of the messages that came back with a delay are due: counted up to a limit, which follows the clock.

The count is kept, not made anew: a message is read once to be counted, and is counted off when it leaves.
"""


class DueCount:
    """The due messages of one group in one partition, leased or not.

    Attributes:
      limit: the order before which all messages are counted.
      count: how many there are before the limit.
    """

    __slots__ = ("count", "limit")

    def __init__(self) -> None:
        self.limit = self.count = 0

    def add(self, order: int) -> None:
        """Count a message that is delayed from now on."""
        if order < self.limit:
            self.count += 1

    def remove(self, order: int) -> None:
        """Count off a message that is delayed no more."""
        if order < self.limit:
            self.count -= 1

    def extend(self, limit: int, count: int) -> None:
        """Move the limit; there are `count` messages between the old one and the new one."""
        self.limit = limit
        self.count += count

    def clear(self) -> None:
        """Count from the beginning: the clock was set back."""
        self.limit = self.count = 0
