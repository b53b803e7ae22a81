"""A set of sequence numbers; 10 million adjacent numbers use about 2 MB.

A Python set of them would use hundreds of MB, and the standard library has no bit set.
"""

_PAGE_BITS = 12


class SequenceSet:
    """A growing set of sequence numbers."""

    def __init__(self) -> None:
        self._pages: dict[int, int] = {}

    def add(self, seq: int) -> bool:
        """Add `seq`; return whether it is new."""
        page, bit = seq >> _PAGE_BITS, 1 << (seq & (1 << _PAGE_BITS) - 1)
        bits = self._pages.get(page, 0)
        self._pages[page] = bits | bit
        return not bits & bit
