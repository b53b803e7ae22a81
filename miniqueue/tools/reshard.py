"""`miniqueue reshard`: creates a store with another number of shards, which has the content of a store.

    OLD: all shards locked ─▶ plan: where each topic goes ─▶ all pairs, audited as of the new store ─▶ NEW gets its name

The old store is read through views (`storage.leveldb.view`), so no byte of it changes.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from miniqueue.errors import ConfigError, CorruptionError
from miniqueue.storage.leveldb.copy import refuse_content, write_shards, write_store
from miniqueue.storage.leveldb.shards import stores_in
from miniqueue.storage.leveldb.view import StoreView, viewed
from miniqueue.tools import arguments
from miniqueue.tools.arguments import counted
from miniqueue.tools.audit.store import Audit
from miniqueue.tools.check import notes, report
from miniqueue.tools.resharding.dividing import divided
from miniqueue.tools.resharding.plan import plan_of
from miniqueue.wire.pair_stream import Pair

USAGE = """\
Usage: miniqueue reshard -shards number old new

Copies the store in the directory old, which no broker has open, to the directory new, which
must be missing or empty. The new store has this number of shards; with 1, it is the store of
one process. The old store is checked, and not changed. Prints how far it is every 10 seconds,
then the content of the new store, as check does.

  -shards number
        number of shards of the new store, 1 to 64; required
  -config file
        TOML, JSON, or YAML file with settings

Exit codes: 0 done; 65 the old store is damaged, or it is no store; 71 the new directory
cannot be written; 73 it is not empty, or a broker has the old store open; 78 a flag is
invalid, or messages are on their way between the old shards. If it is not done, there is no
new store.
"""
#: How often the progress is printed.
_INTERVAL_SECONDS = 10.0
_MIB = 1 << 20


def run(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Copy a store; return the exit code. Raises MiniqueueError."""
    options = arguments.read(words, environ, USAGE, settings=("shards",))
    if options is None:
        return 0
    if len(options.words) != 2:
        raise ConfigError(["reshard requires two directories, of the old and of the new store; see -h"])
    if "shards" not in options.flags:
        raise ConfigError(["flag -shards: missing; it is the number of shards of the new store"])
    old, new = map(Path, options.words)
    refuse_content(new)
    if new.resolve().is_relative_to(old.resolve()):
        raise ConfigError([f"{new} is in the old store; choose another directory"])
    _reshard(old, new, options.config.shards)
    return 0


def _reshard(old: Path, new: Path, count: int) -> None:
    with ExitStack() as opened:
        views = [opened.enter_context(viewed(directory)) for directory in stores_in(old)]
        plan = plan_of(views, count)
        audits = [Audit() for _ in range(count)]
        pairs = shown(_audited(divided(views, plan, count), audits), _print_progress)
        if count > 1:
            write_shards(new, count, pairs)
        else:
            write_store(new, (pair for _, pair in pairs))
        _report(audits, views)


def _audited(pairs: Iterator[tuple[int, Pair]], audits: Sequence[Audit]) -> Iterator[tuple[int, Pair]]:
    """Pass the pairs on; raise CorruptionError after the last pair if an audit reports a problem."""
    for shard, pair in pairs:
        audits[shard].take(*pair)
        yield shard, pair
    for audit in audits:
        audit.finish()
    if problems := [problem for audit in audits for problem in audit.problems.kept]:
        raise CorruptionError(
            f"{problems[0]}; there is no new store; miniqueue check -db shows all problems of the old"
        )


def shown(
    pairs: Iterator[tuple[int, Pair]],
    show: Callable[[int, int], None],
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[tuple[int, Pair]]:
    """Pass the pairs on; call `show` with their number and their bytes every 10 seconds by `clock`."""
    size_bytes = 0
    next_seconds = clock() + _INTERVAL_SECONDS
    for count, moved in enumerate(pairs, 1):
        yield moved
        size_bytes += len(moved[1][0]) + len(moved[1][1])
        if (now_seconds := clock()) >= next_seconds:
            next_seconds = now_seconds + _INTERVAL_SECONDS
            show(count, size_bytes)


def _print_progress(count: int, size_bytes: int) -> None:
    print(f"copied: {counted(count, 'key')}, {size_bytes // _MIB} MiB", file=sys.stderr, flush=True)


def _report(audits: Sequence[Audit], views: Sequence[StoreView]) -> None:
    for number, audit in enumerate(audits):
        if len(audits) > 1:
            print(f"shard {number}:")
        for line in report(audit, ()):
            print(line)
    for view in views:
        for note in notes(view.set_aside, view.doubt):
            print(note)
