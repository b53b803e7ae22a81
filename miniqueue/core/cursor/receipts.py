"""Receipts: the numbers by which consumers name the messages that they settle."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from operator import mod, rshift

from miniqueue.core.message.numerals import joined
from miniqueue.core.message.parts import MAX_PARTS
from miniqueue.errors import UnknownReceiptError

#: Width in bits of the receipts of one partition; the bits above name the partition.
RECEIPT_BITS = 45
#: Width in bits of the number of a partition, or lane, among those that a topic has ever had.
_LANE_BITS = 12
#: Maximum length of a receipt: 19 digits always fit in 64 bits.
_MAX_DIGITS = 19
#: With fewer words, parsing each is no slower than comparing all of them with a range.
_FEW = 8


def first_receipt(lane_index: int, part: int) -> int:
    """Return the first receipt of a lane of a topic, or of a part of a spread one; `lane_index` counts from 0 on.

    part:6 lane:12 number:45 bits, so that all receipts are below 2**63.
    """
    return (part << _LANE_BITS | lane_index) << RECEIPT_BITS | 1


def first_receipts(lane_index: int, count: int, part: int) -> range:
    """Return the first receipts of `count` lanes, from one on; see `first_receipt`."""
    first = first_receipt(lane_index, part)
    return range(first, first + (count << RECEIPT_BITS), 1 << RECEIPT_BITS)


def lane_index_of(receipt: int) -> int:
    """Return the index of the lane whose `first_receipt` a receipt follows."""
    return receipt >> RECEIPT_BITS & (1 << _LANE_BITS) - 1


def part_of_receipt(word: bytes) -> int:
    """Return the number of the part that has given a receipt, with or without its prefix; 0 if `word` is none."""
    digits = word.rpartition(b"-")[2]
    is_number = digits.isdigit() and len(digits) <= _MAX_DIGITS
    return (int(digits) >> RECEIPT_BITS + _LANE_BITS) % MAX_PARTS if is_number else 0


def parts_of_receipts(words: Sequence[bytes]) -> list[int]:
    """Return `part_of_receipt` of each word; words with the same prefix, which a group of one part gives, have one."""
    first, dash, _ = words[0].rpartition(b"-") if words else (b"", b"", b"")
    if dash and all(map(bytes.startswith, words, repeat(first + dash))):
        return [part_of_receipt(words[0])] * len(words)
    if not dash and all(map(bytes.isdigit, words)) and max(map(len, words), default=0) <= _MAX_DIGITS:
        shifted = map(rshift, map(int, words), repeat(RECEIPT_BITS + _LANE_BITS))  # fast path: as streams give them
        return list(map(mod, shifted, repeat(MAX_PARTS)))
    prefixes = [prefix for prefix, _, _ in map(bytes.rpartition, words, repeat(b"-"))]
    examples = dict(zip(prefixes, words, strict=True))
    if b"" in examples:
        return list(map(part_of_receipt, words))
    parts = {prefix: part_of_receipt(word) for prefix, word in examples.items()}
    return list(map(parts.__getitem__, prefixes))


def parse_receipts(words: Sequence[bytes]) -> Sequence[int]:
    """Parse receipts; raises UnknownReceiptError if a word is no number.

    Returns a range if they are consecutive, as they nearly always are: encoding the expected words and comparing
    takes an eighth of the time of parsing each.
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
    """Parse receipts after `prefix`; return 0, which is no receipt, for a word that is none.

    Returns a range if they are consecutive, as `parse_receipts` does.
    """
    start = _number_after(words[0], prefix) if len(words) >= _FEW else 0
    if start:
        stop = start + len(words)
        if b" ".join(words) == prefix + joined(start, stop, b" " + prefix):
            return range(start, stop)
    if words and all(map(bytes.startswith, words, repeat(prefix))):  # they are nearly always receipts, which C parses
        digits = [word[len(prefix) :] for word in words]
        if all(map(bytes.isdigit, digits)) and max(map(len, digits)) <= _MAX_DIGITS and min(digits) >= b"1":
            return list(map(int, digits))
    return [_number_after(word, prefix) for word in words]


def _number_after(word: bytes, prefix: bytes) -> int:
    digits = word.removeprefix(prefix)
    is_receipt = len(digits) == len(word) - len(prefix) <= _MAX_DIGITS and digits.isdigit() and digits[0] != ord("0")
    return int(digits) if is_receipt else 0


def which(receipts: Sequence[int], settled_runs: Iterable[tuple[int, int]]) -> list[bool]:
    """Return for each receipt whether it is in one of the runs (first, count), which are in the same order."""
    are_settled = [False] * len(receipts)
    position = 0
    for first, count in settled_runs:
        position = receipts.index(first, position)
        are_settled[position : position + count] = [True] * count
        position += count
    return are_settled


def runs(receipts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the runs of consecutive numbers in `receipts` in their order, each as (start, stop)."""
    if not receipts:
        return
    first, stop = receipts[0], receipts[-1] + 1
    # Nearly always there is one run: a range is one by definition, and other sequences are compared as a whole.
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
