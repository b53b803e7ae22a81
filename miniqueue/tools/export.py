"""`miniqueue export`: every message that is not consumed, as JSON lines with all that is known of it."""

import os
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

from miniqueue.errors import StorageError
from miniqueue.server.config import Question
from miniqueue.tools import arguments
from miniqueue.tools.exporter import Exporter
from miniqueue.tools.source import pairs_of

USAGE = """\
Usage: miniqueue export [-monitor-port port] [-o file] [topic ...]
       miniqueue export -db store [-o file] [topic ...]

Writes a JSON line for each message that is not consumed, of the topics named or of all:
first the logs, in order, then what came back, then what is not due. A topic with settings or
groups has a line for them, in front of all. Without -db it is the store of the running
broker, as of one moment. With -db it is a store that no broker has open.

  -o file
        where the lines go, when all are there (default: the standard output)
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

Exit codes: 0 done; 1 something could not be read and was left out; 65 the store is damaged;
69 no broker answers, or it broke off; 71 the file cannot be written; 73 a broker has the
store of -db open; 78 a flag is wrong, or there is no such topic.
"""

DONE, INCOMPLETE = 0, 1


def run(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Export messages; return the exit code. Raises MiniqueueError."""
    given = arguments.read(
        words, environ, settings=("db", "monitor-host", "monitor-port"), own=("ca", "o", "token-file")
    )
    if isinstance(given, Question):
        sys.stdout.write(USAGE)
        return 0
    exporter = Exporter({word.encode("utf-8", "surrogateescape") for word in given.words})
    target = given.flags.get("o")
    with pairs_of(given) as pairs, _output(target) as output:
        for line in exporter.lines(pairs):
            output.write(line)
        output.flush()
    for problem in exporter.problems.kept:
        print(f"miniqueue: {problem}", file=sys.stderr)
    return INCOMPLETE if exporter.problems.count else DONE


def _output(target: str | None) -> AbstractContextManager[BinaryIO]:
    return nullcontext(sys.stdout.buffer) if target is None else _whole_file(arguments.file_to_make("o", target))


@contextmanager
def _whole_file(target: Path) -> Iterator[BinaryIO]:
    """Write a file that only its owner may read, and give it its name when it is whole.

    Until then it has one that nobody can have made before, such as a link to elsewhere in a directory of many.
    """
    unfinished = target.with_name(f".{target.name}.unfinished-{secrets.token_hex(8)}")
    try:
        try:  # from before the file is there: a signal may come at any moment
            descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "wb") as output:
                yield output
                output.flush()
                os.fsync(descriptor)
            unfinished.rename(target)
        except FileExistsError:
            raise  # the file of that name is not ours
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
    except OSError as exc:
        raise StorageError(f"{target}: {exc.strerror or exc}") from exc
