"""`miniqueue restore`: creates a store from a backup, which it checks while it copies."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from miniqueue.errors import ConfigError, CorruptionError, StorageError
from miniqueue.server.config.config import naming_flag_of_store
from miniqueue.storage.leveldb.copy import refuse_content, write_store
from miniqueue.storage.leveldb.view import viewed
from miniqueue.tools import arguments
from miniqueue.tools.audit.store import Audit
from miniqueue.tools.check import report
from miniqueue.wire.pair_stream import Pair

USAGE = """\
Usage: miniqueue restore [-db directory] backup

Copies a backup to the directory of -db, which must be missing or empty, if the whole backup
is sound. Prints its content, as check does.

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
    audit = Audit()
    with viewed(Path(options.words[0])) as view:
        try:
            _write(options.config.db, audited(view.pairs(), audit))
        finally:
            for line in report(audit, view.set_aside, view.doubt):
                print(line)
    return 0


class _UnreadableBackupError(Exception):
    """Carries an error of the backup through code whose own errors are about the directory of -db."""

    def __init__(self, error: StorageError) -> None:
        super().__init__(error)
        self.error = error


def _write(directory: Path, pairs: Iterator[Pair]) -> None:
    try:
        with naming_flag_of_store():
            write_store(directory, pairs)
    except _UnreadableBackupError as exc:
        raise exc.error from None


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
