"""Receipts: the numbers by which consumers name the messages they settle."""

from collections.abc import Iterator, Sequence

from miniqueue.errors import UnknownReceiptError

_MAX_DIGITS = 19


def parse_receipts(words: Sequence[bytes]) -> list[int]:
    """Return the numbers that `words` say; raises UnknownReceiptError when one is no number."""
    if not words or not all(map(bytes.isdigit, words)) or max(map(len, words)) > _MAX_DIGITS:
        raise UnknownReceiptError(len(words), len(words))
    return list(map(int, words))


def runs(receipts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the runs of consecutive numbers in `receipts`, in their order, each as (start, stop)."""
    if not receipts:
        return
    first, stop = receipts[0], receipts[-1] + 1
    if stop - first == len(receipts) and list(receipts) == list(range(first, stop)):
        yield first, stop  # one run, as nearly always: told without a step for each number
        return
    start = following = first
    for receipt in receipts:
        if receipt != following:
            yield start, following
            start = receipt
        following = receipt + 1
    yield start, following
