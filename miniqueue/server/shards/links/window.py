"""Which messages of a spread topic a stream delivers now, if its client wants fewer at a time than there are parts.

    part ─▶ a message waits ─ there is room ─▶ delivered ─ settled ─▶ room for the next one, the oldest first
                └────────── the next message of its part ──────────┘ ─▶ it has ended: its lease has expired

Each part has one message for the stream: it gives the next one when that has ended.
"""


class Window:
    """Holds messages back while the client has as many as it wants.

    Args:
      size: how many messages the client wants at a time.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._delivered: dict[int, bytes] = {}  # the receipts, by part
        self._waiting: dict[int, tuple[bytes, bytes]] = {}  # receipts and messages, by part, the oldest first

    @property
    def receipts(self) -> list[bytes]:
        """The receipts of the messages that the client has, in the order in which they were delivered."""
        return [*self._delivered.values()]

    @property
    def waiting_bytes(self) -> int:
        """Size of the messages that wait."""
        return sum(len(message) for _, message in self._waiting.values())

    def add(self, part: int, receipt: bytes, message: bytes) -> None:
        """Add the next message of a part, whose former message has ended."""
        self._delivered.pop(part, None)
        self._waiting.pop(part, None)
        self._waiting[part] = receipt, message

    def remove(self, receipt: bytes) -> None:
        """Forget a message that the client has settled; others are not known here."""
        for part, delivered in self._delivered.items():
            if delivered == receipt:
                del self._delivered[part]
                return

    def take(self) -> list[bytes]:
        """Return the messages for which there is room: the client has them now."""
        messages = list[bytes]()
        while self._waiting and len(self._delivered) < self._size:
            part = next(iter(self._waiting))
            self._delivered[part], message = self._waiting.pop(part)
            messages.append(message)
        return messages


def shares(prefetch: int, part_count: int) -> list[int]:
    """Return how many messages each part has for a stream: together as many as wanted, but at least one of each."""
    share, rest = divmod(prefetch, part_count)
    return [max(1, share + (number < rest)) for number in range(part_count)]
