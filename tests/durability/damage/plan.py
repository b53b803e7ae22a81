"""Which damage is done to which sample: a few cases of each kind for every commit, all of them for a soak."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.durability.damage.damages import (
    appended_tails,
    files,
    missing,
    random_tails,
    some_bits,
    truncations,
    zeroed_pages,
    zeroed_tails,
)
from tests.durability.damage.outcome import Damage, Tally, try_all
from tests.durability.damage.samples import Sample, make_aged, make_fresh, make_idle, make_two_logs

#: Every file by itself, for those kinds that take a step or a number.
PerFile = Callable[[Path, Path], Iterator[Damage]]


class Kind(NamedTuple):
    """A kind of damage.

    Attributes:
      name: says what is done.
      pattern: the pattern of the files in `db` that it damages.
      few: the cases for every commit.
      all: the cases for a soak.
    """

    name: str
    pattern: str
    few: PerFile
    all: PerFile


def _steps(per_file: Callable[..., Iterator[Damage]], count: int) -> PerFile:
    """Choose the step so that there are about `count` cases."""

    def cases(directory: Path, file: Path) -> Iterator[Damage]:
        return per_file(directory, file, step=(directory / file).stat().st_size // count + 1)

    return cases


def _bits(count: int) -> PerFile:
    return partial(some_bits, count=count)


ALL_BITS = 1 << 40
KINDS = (
    Kind("cut short", "*.log", _steps(truncations, 200), truncations),
    Kind("bit flipped", "*.log", _bits(60), _bits(ALL_BITS)),
    Kind("tail zeroed", "*.log", _steps(zeroed_tails, 50), zeroed_tails),
    Kind("tail random", "*.log", _steps(random_tails, 50), random_tails),
    Kind("page zeroed", "*.log", partial(zeroed_pages, page_bytes=512), partial(zeroed_pages, page_bytes=64)),
    Kind("cut short", "CURRENT", truncations, truncations),
    Kind("bit flipped", "CURRENT", _bits(20), _bits(ALL_BITS)),
    Kind("cut short", "MANIFEST-*", partial(truncations, step=43), truncations),
    Kind("bit flipped", "MANIFEST-*", _bits(60), _bits(ALL_BITS)),
    Kind("tail random", "MANIFEST-*", partial(random_tails, step=97), random_tails),
    Kind("cut short", "*.ldb", partial(truncations, step=4001), partial(truncations, step=7)),
    Kind("bit flipped", "*.ldb", _bits(25), _bits(10_000)),
    Kind("page zeroed", "*.ldb", partial(zeroed_pages, page_bytes=8192), partial(zeroed_pages, page_bytes=512)),
    Kind("cut short", "../miniqueue.acknowledged", partial(truncations, step=7), truncations),
    Kind("bit flipped", "../miniqueue.acknowledged", _bits(20), _bits(ALL_BITS)),
    Kind("bit flipped", "../miniqueue.format", _bits(20), _bits(ALL_BITS)),
)
MISSING = ("CURRENT", "MANIFEST-*", "*.log", "*.ldb", "../miniqueue.format")


def make_samples(directory: Path) -> list[Sample]:
    """Make a store of each kind: one log, two logs, an empty log, many tables."""
    fresh = make_fresh(directory)
    return [fresh, make_two_logs(fresh, directory), make_idle(fresh, directory), make_aged(directory)]


def damages(sample: Sample, kind: Kind) -> Iterator[Damage]:
    """Return a few cases of a kind."""
    return chain.from_iterable(kind.few(sample.directory, file) for file in files(sample.directory, kind.pattern))


def all_damages(sample: Sample, kind: Kind) -> Iterator[Damage]:
    """Return all cases of a kind."""
    return chain.from_iterable(kind.all(sample.directory, file) for file in files(sample.directory, kind.pattern))


def other_damages(sample: Sample) -> Iterator[Damage]:
    """Return what is done to whole files: something more at the end of a log, and each file missing."""
    yield from chain.from_iterable(appended_tails(log) for log in files(sample.directory, "*.log"))
    for pattern in MISSING:
        yield from missing(files(sample.directory, pattern))


def soak(directory: Path, max_cases: int, random: Random) -> Iterator[tuple[str, Tally]]:
    """Yield each sample and kind of damage with what came of it; of more cases than `max_cases` so many are chosen."""
    for place in ("samples", "scratch"):
        (directory / place).mkdir()
    for sample in make_samples(directory / "samples"):
        for kind in KINDS:
            cases = list(all_damages(sample, kind))
            chosen = cases if len(cases) <= max_cases else random.sample(cases, max_cases)
            if chosen:
                name = f"{sample.name}, {kind.pattern.removeprefix('../')} {kind.name}"
                yield name, try_all(sample, chosen, directory / "scratch")
        yield (
            f"{sample.name}, more at the end, or missing",
            try_all(sample, other_damages(sample), directory / "scratch"),
        )
