"""`miniqueue backup`: makes a new store directory with what a store holds at one moment."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from miniqueue.errors import ConfigError
from miniqueue.server.config import Question
from miniqueue.storage.store_copy import refuse_content, write_store
from miniqueue.tools import arguments
from miniqueue.tools.counted import counted
from miniqueue.tools.source import pairs_of

USAGE = """\
Usage: miniqueue backup [-monitor-port port] directory
       miniqueue backup -db store directory

Makes the directory, which must be missing or empty, a copy of the store. Without -db it is
the store of the running broker, which goes on working; all that was acknowledged before
the backup began is in it. With -db it is a store that no broker has open.

  -db directory
        a store that is not in use
  -monitor-host address
        of the running broker (default 127.0.0.1); over TLS if it is not loopback
  -monitor-port port
        of the running broker (default 8081)
  -ca file
        authorities to trust for TLS, PEM (default: those of the system)
  -token-file file
        of a user with the role admin for '*', when the running broker has users
  -config file
        TOML file with settings

Exit codes: 0 done; 65 the store is damaged; 69 no broker answers, or it broke off; 71 the
directory cannot be written; 73 it is not empty, or a broker has the store of -db open; 78 a
flag is wrong.
"""


def run(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Make a backup; return the exit code. Raises MiniqueueError."""
    given = arguments.read(words, environ, settings=("db", "monitor-host", "monitor-port"), own=("ca", "token-file"))
    if isinstance(given, Question):
        sys.stdout.write(USAGE)
        return 0
    if len(given.words) != 1:
        raise ConfigError(["backup takes one directory; see -h"])
    target = Path(given.words[0])
    refuse_content(target)  # before the broker is asked for anything
    with pairs_of(given) as pairs:
        count = write_store(target, pairs)
    print(f"{target}: {counted(count, 'key')}")
    return 0
