"""`miniqueue export`: writes every unconsumed message as a JSON line with all its attributes."""

import os
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

from miniqueue.errors import StorageError
from miniqueue.tools import arguments
from miniqueue.tools.exporting.exporter import Exporter
from miniqueue.tools.source import FLAGS_USAGE, read_arguments, stores_of

USAGE = f"""\
Usage: miniqueue export [-monitor-port port] [-o file] [topic ...]
       miniqueue export -db store [-o file] [topic ...]

Writes a JSON line for each unconsumed message of the named topics, or of all topics: first
the logs, in order, then returned messages, then delayed messages. If a topic has settings or
groups, a line for them comes before its messages. Without -db, exports the store of the
running broker, as of one moment, or with shards, of each as of a moment of its own. With -db,
exports a store that no broker has open.

  -o file
        file for the lines; it gets its name when it is complete (default: standard output)
{FLAGS_USAGE}
Exit codes: 0 done; 1 part of the store could not be read and was skipped; 65 the store is
damaged; 69 no broker answers, or the transfer was aborted; 71 the file cannot be written; 73
a broker has the store of -db open; 78 a flag is invalid, or a topic does not exist.
"""

DONE, INCOMPLETE = 0, 1


def run(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Export messages; return the exit code. Raises MiniqueueError."""
    options = read_arguments(words, environ, USAGE, own=("o",))
    if options is None:
        return 0
    names = {word.encode("utf-8", "surrogateescape") for word in options.words}
    is_complete = True
    with stores_of(options) as stores, _output(options.flags.get("o")) as output:
        written, has_spread = set[bytes](), False
        placings = sorted(stores.placings, key=lambda placing: not any(map(placing.has, names)))  # these first
        for placing in placings if names else stores.placings:
            names_here = {name for name in names if placing.has(name)}
            if names and not names_here and not has_spread:
                continue
            exporter = Exporter(names, names_here, written)
            with stores.pairs_of(placing.number) as pairs:
                output.writelines(exporter.lines(pairs))
            for problem in exporter.problems.kept:
                print(f"miniqueue: {problem}", file=sys.stderr)
            is_complete = is_complete and not exporter.problems.count
            has_spread = has_spread or exporter.has_spread
        output.flush()
    return DONE if is_complete else INCOMPLETE


def _output(target: str | None) -> AbstractContextManager[BinaryIO]:
    return nullcontext(sys.stdout.buffer) if target is None else _whole_file(arguments.file_to_make("o", target))


@contextmanager
def _whole_file(target: Path) -> Iterator[BinaryIO]:
    """Write a file that only its owner can read, and give it its name when it is complete.

    Until then it has a random name, so that no other user can have created it before, for example as a link to
    another file in a shared directory. `tempfile` makes such names, but neither syncs nor renames its files.
    """
    unfinished = target.with_name(f".{target.name}.unfinished-{secrets.token_hex(8)}")
    try:
        try:  # before the file exists, since a signal can arrive at any moment
            descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "wb") as output:
                yield output
                output.flush()
                os.fsync(descriptor)
            unfinished.rename(target)
        except FileExistsError:
            raise  # this process did not create the file of that name
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
    except OSError as exc:
        raise StorageError(f"{target}: {exc.strerror or exc}") from exc
