"""What the targets make their inputs of."""

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import TypeVar

from tests.fuzz.mutation import NUMBERS

T = TypeVar("T")

_TEXTS = ("", "a", "Dear Ada", "Grüße", "\u20ac", "\U0001f600", "line\nline", '"', "\\", "'", "\x00", "\x7f", "\u2028")


def some(chance: Random, choices: Sequence[T], most: int) -> list[T]:
    """Return up to `most` of `choices`, each as often as it happens."""
    return [chance.choice(choices) for _ in range(chance.randint(0, most))]


def text(chance: Random) -> str:
    """Return text that is short and seldom usual."""
    return "".join(some(chance, _TEXTS, 3))


def payload(chance: Random) -> bytes:
    """Return a message: text, or any bytes, seldom long."""
    if chance.random() < 1 / 2:
        return text(chance).encode()
    return chance.randbytes(chance.choice((0, 1, 2, 7, 30, 300)))


def number(chance: Random, bits: int) -> int:
    """Return a number that fits into `bits`: one at a bound, or any."""
    if chance.random() < 1 / 2:
        return chance.choice([bound for bound in NUMBERS if bound < 1 << bits])
    return chance.getrandbits(chance.randint(1, bits))


def cut(chance: Random, content: bytes) -> list[bytes]:
    """Cut an input in a few places, or between all bytes."""
    if len(content) <= 300 and chance.random() < 1 / 4:
        return [content[index : index + 1] for index in range(len(content))]
    places = sorted(chance.randint(0, len(content)) for _ in range(chance.randint(1, 6)))
    return [content[start:stop] for start, stop in pairwise([0, *places, len(content)])]
