"""Feeds a parser hostile input, and checks what it raises and what it keeps.

    make ─▶ sound input ─▶ mutate (2 of 3) ─▶ mend (every other) ─▶ check        1 … N, the same for the same seed
                                               checksums, lengths     └ FoundError: seed, number, input

A target knows its format, and states in `check` what must hold; what that raises is a bug. So every decoder is called
through `attempt`, which names the errors that are documented. This module knows no format.

Blind to coverage, so inputs are made by grammar first. To let atheris search instead, hand it `Target.check`.
"""

import base64
import gc
import resource
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeVar
from zlib import compress, crc32

from tests.fuzz.mutation import mutated

T = TypeVar("T")

#: Memory is looked at this often, with as many inputs between two looks. What grows only at times is a cache.
WINDOWS = 3
WINDOW_INPUTS = 50
MAX_GROWTH_BYTES = 200 * WINDOW_INPUTS
#: What one input may take while it is looked at: a little, some for each of its bytes, and `asked_bytes` of its target.
MAX_PEAK_BYTES = 4 << 20
MAX_PEAK_FACTOR = 100
#: From a quarter of a run to its end, with all that is not Python's: hiredis, orjson.
MAX_RSS_GROWTH_BYTES = 32 << 20
#: Of one input, of this thread on a processor; the slowest take some hundredths.
MAX_SECONDS = 5.0
MAX_INPUT_BYTES = 1 << 16
_MAX_LITERAL_BYTES = 1000
_MAX_SHRINK_TRIES = 2000


@dataclass(frozen=True, slots=True)
class Target:
    """One format, or a few that belong together.

    Attributes:
      name: a name for people.
      make: returns an input that is valid, or almost.
      check: raises for an invalid input, AssertionError if a promise is broken.
      tokens: parts of such inputs, for mutations.
      mend: corrects lengths and checksums, so that what follows them is parsed, too.
      quick_inputs: number of inputs that take about a second.
      asked_bytes: memory that an input may use beyond that, if few bytes may rightly request much.
    """

    name: str
    make: Callable[[Random], bytes]
    check: Callable[[bytes], None]
    tokens: tuple[bytes, ...] = ()
    mend: Callable[[bytes], bytes] = bytes
    quick_inputs: int = 1000
    asked_bytes: Callable[[bytes], int] = lambda _: 0


class FoundError(Exception):
    """A target failed; the text has all it takes to see it again."""


class Report(NamedTuple):
    """What a run without a finding was."""

    name: str
    seed: int
    input_count: int
    seconds: float

    def __str__(self) -> str:
        rate = self.input_count / max(self.seconds, 1e-9)
        return f"fuzz {self.name}: seed={self.seed}, {self.input_count} inputs, {rate:.0f}/s, nothing found"


def attempt(call: Callable[..., T], *arguments: object, documented: tuple[type[Exception], ...] = ()) -> T | Exception:
    """Return what a call returns, or the error if it is of a documented class; other errors go on."""
    try:
        return call(*arguments)
    except documented as error:
        return error.with_traceback(None)


def chance_of(content: bytes) -> Random:
    """Return random choices that belong to an input: to see a failure again takes the input alone."""
    return Random(crc32(content))


def inputs(target: Target, seed: int) -> Iterator[bytes]:
    """Yield inputs without end."""
    chance = Random(f"{target.name} {seed}")
    while True:
        content = target.make(chance)
        if chance.random() < 2 / 3:
            content = mutated(chance, content, target.tokens, target.make)
            if chance.random() < 1 / 2:
                content = target.mend(content)
        yield content[:MAX_INPUT_BYTES]


def fuzz(target: Target, seed: int, *, input_count: int = 0, seconds: float = 0.0) -> Report:
    """Run a target for so many inputs and so many seconds, whichever takes longer; raises FoundError."""
    run = _Run(target, seed)
    run.go_on(input_count // 4, seconds / 4)
    rss_bytes = _rss_bytes()
    run.go_on(input_count, seconds)
    run.look_at_memory()
    grown_bytes = _rss_bytes() - rss_bytes
    if grown_bytes > MAX_RSS_GROWTH_BYTES:
        raise run.found(f"the process grew by {grown_bytes:,} bytes")
    return Report(target.name, seed, run.count, run.seconds())


class _Run:
    """One run of a target, from its first input on."""

    def __init__(self, target: Target, seed: int) -> None:
        self.count = 0
        self._target = target
        self._seed = seed
        self._inputs = inputs(target, seed)
        self._begun_at = time.monotonic()

    def seconds(self) -> float:
        """Return how long it has taken so far."""
        return time.monotonic() - self._begun_at

    def found(self, what: str, content: bytes | None = None) -> FoundError:
        """Return what is to be told; the input, if it is one's fault, as Python writes it."""
        lines = [f"fuzz {self._target.name}: seed={self._seed}, input {self.count}: {what}"]
        if content is not None:
            lines.append(f"    TARGETS[{self._target.name!r}].check({literal(content)})")
        return FoundError("\n".join(lines))

    def go_on(self, input_count: int, seconds: float) -> None:
        """Go on until there have been so many inputs, and so many seconds have passed."""
        while self.count < input_count or self.seconds() < seconds:
            self._check_next()

    def look_at_memory(self) -> None:
        """Go on for a while, and fail if each part of it leaves more memory in use than there was."""
        is_ours = not tracemalloc.is_tracing()
        if is_ours:
            tracemalloc.start()
        try:
            self._check_window()  # fills what is kept once
            looks = [self._check_window() for _ in range(WINDOWS)]
        finally:
            if is_ours:
                tracemalloc.stop()
        growth = min(after - before for before, after in pairwise(looks))
        if growth > MAX_GROWTH_BYTES:
            raise self.found(f"{WINDOW_INPUTS} inputs leave {growth:,} bytes in use, every time")

    def _check_window(self) -> int:
        """Check as many inputs as are between two looks; return the bytes in use behind them."""
        for _ in range(WINDOW_INPUTS):
            tracemalloc.reset_peak()
            before_bytes = tracemalloc.get_traced_memory()[0]
            content = self._check_next()
            peak_bytes = tracemalloc.get_traced_memory()[1] - before_bytes
            most_bytes = MAX_PEAK_BYTES + MAX_PEAK_FACTOR * len(content) + self._target.asked_bytes(content)
            if peak_bytes > most_bytes:
                raise self.found(f"{len(content):,} bytes take {peak_bytes:,} while they are looked at", content)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    def _check_next(self) -> bytes:
        self.count += 1
        content = next(self._inputs)
        begun_at = time.thread_time()
        try:
            self._target.check(content)
        except (Exception, SystemExit) as error:
            content = shrunk(self._target.check, content, type(error))
            raise self.found(f"{type(error).__name__}: {error}", content) from error
        if (seconds := time.thread_time() - begun_at) > MAX_SECONDS:
            raise self.found(f"{len(content):,} bytes took {seconds:.1f} s", content)
        return content


def shrunk(check: Callable[[bytes], None], content: bytes, kind: type[BaseException]) -> bytes:
    """Return a smaller input with which `check` raises the same."""
    tries = 0
    size = max(1, len(content) // 2)
    while size and tries < _MAX_SHRINK_TRIES:
        start = 0
        while start < len(content) and tries < _MAX_SHRINK_TRIES:
            shorter = content[:start] + content[start + size :]
            tries += 1
            if _raises(check, shorter, kind):
                content = shorter
            else:
                start += size
        size //= 2
    return content


def literal(content: bytes) -> str:
    """Return an input as Python writes it; a long one packed."""
    if len(content) <= _MAX_LITERAL_BYTES:
        return repr(content)
    return f"zlib.decompress(base64.b85decode({base64.b85encode(compress(content, 9))!r}))"


def _raises(check: Callable[[bytes], None], content: bytes, kind: type[BaseException]) -> bool:
    try:
        check(content)
    except (Exception, SystemExit) as error:
        return type(error) is kind
    return False


def _rss_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * resource.getpagesize()
