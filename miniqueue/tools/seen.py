"""Which sequence numbers have been seen: a set in which 10 million neighbours take some 2 MB."""

_PAGE_BITS = 12


class Seen:
    """A growing set of sequence numbers."""

    def __init__(self) -> None:
        self._pages: dict[int, int] = {}

    def add(self, seq: int) -> bool:
        """Add `seq`; return whether it is new."""
        page, bit = seq >> _PAGE_BITS, 1 << (seq & (1 << _PAGE_BITS) - 1)
        bits = self._pages.get(page, 0)
        self._pages[page] = bits | bit
        return not bits & bit
