"""`miniqueue restore`: puts a backup where a broker will look for its store, after checking it."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from miniqueue.errors import ConfigError, CorruptionError
from miniqueue.server.config import Question
from miniqueue.storage.store_copy import refuse_content, write_store
from miniqueue.storage.store_view import viewed
from miniqueue.tools import arguments
from miniqueue.tools.audit import Audit
from miniqueue.tools.check import report
from miniqueue.wire.pair_stream import Pair

USAGE = """\
Usage: miniqueue restore [-db directory] backup

Makes the directory of -db, which must be missing or empty, a copy of the backup, if all of
that is sound. Prints what it holds, as check does.

  -db directory
        the store to be made (default ./data)
  -config file
        TOML file with settings

Exit codes: 0 done; 65 the backup is damaged, nothing was made; 71 the directory cannot be
written; 73 it is not empty, or a broker has the backup open; 78 a flag is wrong.
"""


def run(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Restore a backup; return the exit code. Raises MiniqueueError."""
    given = arguments.read(words, environ, settings=("db",))
    if isinstance(given, Question):
        sys.stdout.write(USAGE)
        return 0
    if len(given.words) != 1:
        raise ConfigError(["restore takes one directory, that of the backup; see -h"])
    refuse_content(given.config.db)
    audit = Audit()
    with viewed(Path(given.words[0])) as view:
        try:
            write_store(given.config.db, _audited(view.pairs(), audit))
        finally:
            for line in report(audit, view.set_aside, view.doubt):
                print(line)
    return 0


def _audited(pairs: Iterator[Pair], audit: Audit) -> Iterator[Pair]:
    """Pass the pairs on; raise CorruptionError behind the last one if anything was wrong with them."""
    for pair in pairs:
        audit.take(*pair)
        yield pair
    audit.finish()
    if audit.problems.count:
        raise CorruptionError("the backup has problems; nothing was restored")
