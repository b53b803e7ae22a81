"""Ways to damage a store: one generator for each kind, of any number of cases."""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from random import Random

from tests.durability.damage.outcome import Damage


def files(directory: Path, pattern: str) -> list[Path]:
    """Return the paths in `db` that match, or with `../` those beside it, as seen from `directory`."""
    place = directory if pattern.startswith("../") else directory / "db"
    return sorted(path.relative_to(directory) for path in place.glob(pattern.removeprefix("../")))


def truncations(directory: Path, file: Path, step: int = 1) -> Iterator[Damage]:
    """Cut the file short at every `step`th byte."""
    for size in range(0, (directory / file).stat().st_size, step):
        yield Damage(f"{file} cut to {size} bytes", partial(_truncate, file, size))


def bit_flips(directory: Path, file: Path, places: Iterable[int] | None = None) -> Iterator[Damage]:
    """Flip one bit of the file; `places` count bits, all by default."""
    for place in places if places is not None else range(8 * (directory / file).stat().st_size):
        yield Damage(f"{file} with bit {place % 8} of byte {place // 8} flipped", partial(_flip, file, place))


def some_bits(directory: Path, file: Path, count: int, seed: int = 1) -> Iterator[Damage]:
    """Flip one bit of the file at `count` places."""
    bits = 8 * (directory / file).stat().st_size
    yield from bit_flips(directory, file, sorted(Random(seed).sample(range(bits), min(count, bits))))


def zeroed_tails(directory: Path, file: Path, step: int = 1) -> Iterator[Damage]:
    """Overwrite the end of the file with zeroes, from every `step`th byte on."""
    size = (directory / file).stat().st_size
    for start in range(0, size, step):
        yield Damage(f"{file} zeroed from {start} on", partial(_overwrite, file, start, bytes(size - start)))


def random_tails(directory: Path, file: Path, step: int = 1) -> Iterator[Damage]:
    """Overwrite the end of the file with random bytes, from every `step`th byte on."""
    size = (directory / file).stat().st_size
    for start in range(0, size, step):
        tail = Random(start).randbytes(size - start)
        yield Damage(f"{file} random from {start} on", partial(_overwrite, file, start, tail))


def appended_tails(file: Path) -> Iterator[Damage]:
    """Write behind the end of the file."""
    for size in (1, 6, 7, 8, 100, 4096, 40_000):
        for name, tail in (("zero", bytes(size)), ("0xff", b"\xff" * size), ("random", Random(size).randbytes(size))):
            yield Damage(f"{file} with {size} {name} bytes more", partial(_append, file, tail))


def zeroed_pages(directory: Path, file: Path, page_bytes: int = 4096) -> Iterator[Damage]:
    """Overwrite one page of the file with zeroes."""
    size = (directory / file).stat().st_size
    for start in range(0, size, page_bytes):
        hole = bytes(min(page_bytes, size - start))
        yield Damage(f"{file} with zeroes at {start}", partial(_overwrite, file, start, hole))


def missing(paths: Iterable[Path]) -> Iterator[Damage]:
    """Remove one file."""
    for path in paths:
        yield Damage(f"{path} missing", partial(_remove, path))


def _truncate(file: Path, size: int, directory: Path) -> None:
    with (directory / file).open("r+b") as opened:
        opened.truncate(size)


def _flip(file: Path, place: int, directory: Path) -> None:
    with (directory / file).open("r+b") as opened:
        opened.seek(place // 8)
        byte = opened.read(1)[0]
        opened.seek(place // 8)
        opened.write(bytes([byte ^ 1 << place % 8]))


def _overwrite(file: Path, start: int, content: bytes, directory: Path) -> None:
    with (directory / file).open("r+b") as opened:
        opened.seek(start)
        opened.write(content)


def _append(file: Path, tail: bytes, directory: Path) -> None:
    with (directory / file).open("ab") as opened:
        opened.write(tail)


def _remove(file: Path, directory: Path) -> None:
    (directory / file).unlink()
