"""`miniqueue backup`: creates a store directory with the content of a store as of one moment."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from miniqueue.errors import ConfigError
from miniqueue.storage.leveldb.copy import refuse_content, write_store
from miniqueue.tools.arguments import counted
from miniqueue.tools.source import FLAGS_USAGE, pairs_of, read_arguments

USAGE = f"""\
Usage: miniqueue backup [-monitor-port port] directory
       miniqueue backup -db store directory

Copies a store to the directory, which must be missing or empty. Without -db, copies the
store of the running broker, which continues to work; the copy contains everything that was
acknowledged before the backup began. With -db, copies a store that no broker has open.

{FLAGS_USAGE}
Exit codes: 0 done; 65 the store is damaged; 69 no broker answers, or the transfer was
aborted; 71 the directory cannot be written; 73 it is not empty, or a broker has the store
of -db open; 78 a flag is invalid.
"""


def run(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Make a backup; return the exit code. Raises MiniqueueError."""
    options = read_arguments(words, environ, USAGE)
    if options is None:
        return 0
    if len(options.words) != 1:
        raise ConfigError(["backup requires one directory; see -h"])
    target = Path(options.words[0])
    refuse_content(target)  # before the broker begins to send the content
    with pairs_of(options) as pairs:
        count = write_store(target, pairs)
    print(f"{target}: {counted(count, 'key')}")
    return 0
