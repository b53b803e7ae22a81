"""Changes an input in the ways in which bytes get damaged, and in those that hostile clients would try."""

import re
from collections.abc import Callable, Sequence
from random import Random

MAX_MUTATIONS = 5
_NUMBER = re.compile(rb"[0-9]+")
_BOUNDS = (0, 1, 2, 9, 127, 128, 255, 256, 4095, 4096, *(1 << bits for bits in (15, 16, 31, 32, 63, 64, 127, 128)))
NUMBERS = tuple(sorted({max(0, bound + step) for bound in _BOUNDS for step in (-1, 0, 1)}))
_TEXTS = (*(b"%d" % number for number in NUMBERS), b"-1", b"-0", b"00", b"+1", b"1e9", b"9" * 25, b"9" * 400)
#: What some parser somewhere takes for something else.
_TOKENS = (
    *(b"\0", b"\r", b"\n", b"\r\n", b" ", b"\t", b'"', b"'", b"\\", b"=", b":", b"%00", b"\x1b[2J", b"\xff"),
    *map(str.encode, "é\u2028\u202e\x85\ufeff\U0001f600\u0663"),
)


def mutated(chance: Random, content: bytes, tokens: Sequence[bytes], make: Callable[[Random], bytes]) -> bytes:
    """Return `content` with one change, or a few; `tokens` and `make` are those of the target."""
    for _ in range(chance.randint(1, chance.choice((1, 2, MAX_MUTATIONS)))):
        match chance.randrange(10):
            case 0:
                content = _with(content, chance, bytes([chance.randrange(256)]), replaced=1)
            case 1:
                content = _flipped(content, chance)
            case 2:
                content = _with(content, chance, b"", replaced=chance.choice((1, 1, 2, 4, 8, len(content) // 2)))
            case 3 | 4:
                content = _with(content, chance, chance.choice((*tokens, *_TOKENS)))
            case 5:
                content = _renumbered(content, chance)
            case 6:
                content = _with(content, chance, *_packed(chance))
            case 7:
                content = content[: chance.randint(0, len(content))]
            case 8:
                start, stop = sorted(chance.randint(0, len(content)) for _ in range(2))
                content = _with(content, chance, content[start:stop][:1000] * chance.choice((1, 1, 2, 20)))
            case _:
                other = make(chance)
                content = content[: chance.randint(0, len(content))] + other[chance.randint(0, len(other)) :]
    return content


def _with(content: bytes, chance: Random, piece: bytes, replaced: int = 0) -> bytes:
    start = chance.randint(0, len(content))
    return content[:start] + piece + content[start + replaced :]


def _flipped(content: bytes, chance: Random) -> bytes:
    if not content:
        return content
    position = chance.randrange(len(content))
    return content[:position] + bytes([content[position] ^ 1 << chance.randrange(8)]) + content[position + 1 :]


def _renumbered(content: bytes, chance: Random) -> bytes:
    """Write another number where one stands as text."""
    places = [found.span() for found in _NUMBER.finditer(content)]
    if not places:
        return content
    start, stop = chance.choice(places)
    return content[:start] + chance.choice(_TEXTS) + content[stop:]


def _packed(chance: Random) -> tuple[bytes, int]:
    """Return a number as it stands in binary formats, and how many bytes it takes the place of."""
    size = chance.choice((1, 2, 4, 8))
    number = chance.choice(NUMBERS) & (1 << 8 * size) - 1
    return number.to_bytes(size, chance.choice(("little", "big"))), size
