"""`miniqueue restore`: creates a store from a backup, which it checks while it copies."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from miniqueue.errors import ConfigError, CorruptionError, StorageError
from miniqueue.server.config.config import naming_flag_of_store
from miniqueue.storage.leveldb.copy import refuse_content, write_shards, write_store
from miniqueue.storage.leveldb.shards import shard_count, stores_in
from miniqueue.storage.leveldb.view import StoreView, viewed
from miniqueue.tools import arguments
from miniqueue.tools.audit.store import Audit
from miniqueue.tools.check import report
from miniqueue.wire.pair_stream import Pair

USAGE = """\
Usage: miniqueue restore [-db directory] backup

Copies a backup to the directory of -db, which must be missing or empty, if the whole backup
is sound. Prints its content, as check does. From a backup of a broker with shards, the store
has as many shards.

  -db directory
        the store to create (default ./data)
  -config file
        TOML, JSON, or YAML file with settings

Exit codes: 0 done; 65 the backup is damaged, nothing was restored; 71 the directory cannot
be written; 73 it is not empty, or a broker has the backup open; 78 a flag is invalid.
"""


def run(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Restore a backup; return the exit code. Raises MiniqueueError."""
    options = arguments.read(words, environ, USAGE, settings=("db",))
    if options is None:
        return 0
    if len(options.words) != 1:
        raise ConfigError(["restore requires one directory, that of the backup; see -h"])
    with naming_flag_of_store():
        refuse_content(options.config.db)
    backup = Path(options.words[0])
    with ExitStack() as opened:
        views = [opened.enter_context(viewed(directory)) for directory in stores_in(backup)]
        audits: list[Audit] = []  # one for each store that was read, if only in part
        try:
            _write(options.config.db, shard_count(backup), _audited(views, audits))
        finally:
            for number, (view, audit) in enumerate(zip(views, audits, strict=False)):
                if len(views) > 1:
                    print(f"shard {number}:")
                for line in report(audit, view.set_aside, view.doubt):
                    print(line)
    return 0


class _UnreadableBackupError(Exception):
    """Carries an error of the backup through code whose own errors are about the directory of -db."""

    def __init__(self, error: StorageError) -> None:
        super().__init__(error)
        self.error = error


def _write(directory: Path, count: int, pairs: Iterator[tuple[int, Pair]]) -> None:
    try:
        with naming_flag_of_store():
            if count:
                write_shards(directory, count, pairs)
            else:
                write_store(directory, (pair for _, pair in pairs))
    except _UnreadableBackupError as exc:
        raise exc.error from None


def _audited(views: Sequence[StoreView], audits: list[Audit]) -> Iterator[tuple[int, Pair]]:
    """Yield the pairs of all views, each with the number of its view; add an audit of each; raises as `audited`."""
    for number, view in enumerate(views):
        audits.append(Audit())
        for pair in audited(view.pairs(), audits[number]):
            yield number, pair


def audited(pairs: Iterator[Pair], audit: Audit) -> Iterator[Pair]:
    """Pass the pairs on; raise CorruptionError after the last pair if the audit reports a problem."""
    try:
        for pair in pairs:
            audit.take(*pair)
            yield pair
    except StorageError as exc:
        raise _UnreadableBackupError(exc) from exc
    audit.finish()
    if audit.problems.count:
        raise CorruptionError("the backup has problems; nothing was restored")
