"""Receipts: the numbers by which consumers name the messages they settle."""

from collections.abc import Iterable, Iterator, Sequence

from miniqueue.core.numerals import joined
from miniqueue.errors import UnknownReceiptError

_MAX_DIGITS = 19
_FEW = 8  # up to here reading each is no slower than comparing all


def parse_receipts(words: Sequence[bytes]) -> Sequence[int]:
    """Return the numbers that `words` say; raises UnknownReceiptError when one is no number.

    A range when they are consecutive, as nearly always: to spell what is expected and compare takes an eighth of the
    time of reading each.
    """
    if len(words) >= _FEW and words[0].isdigit() and len(words[0]) <= _MAX_DIGITS:
        start = int(words[0])
        stop = start + len(words)
        if b" ".join(words) == joined(start, stop, b" "):
            return range(start, stop)
    if not words or not all(map(bytes.isdigit, words)) or max(map(len, words)) > _MAX_DIGITS:
        raise UnknownReceiptError(len(words), len(words))
    return list(map(int, words))


def parse_prefixed(words: Sequence[bytes], prefix: bytes) -> Sequence[int]:
    """Return the numbers that `words` say behind `prefix`; 0, which is no receipt, for a word that says none.

    A range when they are consecutive, as above.
    """
    start = _number_behind(words[0], prefix) if len(words) >= _FEW else 0
    if start:
        stop = start + len(words)
        if b" ".join(words) == prefix + joined(start, stop, b" " + prefix):
            return range(start, stop)
    return [_number_behind(word, prefix) for word in words]


def _number_behind(word: bytes, prefix: bytes) -> int:
    digits = word.removeprefix(prefix)
    is_one = len(digits) == len(word) - len(prefix) <= _MAX_DIGITS and digits.isdigit() and digits[0] != ord("0")
    return int(digits) if is_one else 0


def which(receipts: Sequence[int], found: Iterable[tuple[int, int]]) -> list[bool]:
    """Tell of each of `receipts` whether it was found, when `found` are runs (first, count) in their order."""
    are_found = [False] * len(receipts)
    position = 0
    for first, count in found:
        position = receipts.index(first, position)
        are_found[position : position + count] = [True] * count
        position += count
    return are_found


def runs(receipts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the runs of consecutive numbers in `receipts`, in their order, each as (start, stop)."""
    if not receipts:
        return
    first, stop = receipts[0], receipts[-1] + 1
    # One run, as nearly always: told without a step for each number, and at once if it is known to be one.
    if stop - first == len(receipts) and (isinstance(receipts, range) or list(receipts) == list(range(first, stop))):
        yield first, stop
        return
    start = following = first
    for receipt in receipts:
        if receipt != following:
            yield start, following
            start = receipt
        following = receipt + 1
    yield start, following
