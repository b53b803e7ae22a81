"""`miniqueue import`: creates topics from the JSON lines that `miniqueue export` writes."""

import asyncio
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import BinaryIO

from miniqueue.broker import SystemClock
from miniqueue.errors import ConfigError, InvalidLineError
from miniqueue.server.config.config import naming_flag_of_store
from miniqueue.server.security.private_files import private_umask
from miniqueue.storage.leveldb.store import LevelDBStore
from miniqueue.tools import arguments
from miniqueue.tools.arguments import counted
from miniqueue.tools.importing.importer import Importer

USAGE = """\
Usage: miniqueue import [-db directory] [file]

Adds the messages of a file of JSON lines, or of the standard input, to a store that no
broker has open, with all attributes that export wrote, and the settings and groups of their
topics. The topics must be new. If a line is invalid, nothing is imported.

  -db directory
        the store, which is created if it is missing (default ./data)
  -max-message-size size
        of the broker that the lines come from, if it was raised; longer lines are refused
  -config file
        TOML, JSON, or YAML file with settings

Exit codes: 0 done; 65 a line is invalid or its topic exists already, or the store is
damaged; 71 the store cannot be opened; 73 a broker has it open; 78 a flag is invalid, or the
file cannot be read.
"""

#: Maximum length of one byte of a payload in JSON: `\\u001f`.
ESCAPED_BYTES = 6
#: Maximum size of the rest of a line: names, headers, keys, the groups of a topic.
MAX_OTHER_BYTES = 16 << 20


def run(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Import messages; return the exit code. Raises MiniqueueError."""
    options = arguments.read(words, environ, USAGE, settings=("db", "max-message-size"))
    if options is None:
        return 0
    if len(options.words) > 1:
        raise ConfigError(["import accepts one file; see -h"])
    max_line_bytes = ESCAPED_BYTES * options.config.max_message_bytes + MAX_OTHER_BYTES
    with _lines(options.words) as file, private_umask():
        try:
            message_count, topic_count = asyncio.run(_import(options.config.db, _bounded(file, max_line_bytes)))
        except KeyboardInterrupt:
            print("miniqueue: import interrupted: either all lines were imported, or none", file=sys.stderr)
            raise
    print(f"{options.config.db}: {counted(message_count, 'message')} in {counted(topic_count, 'topic')}")
    return 0


def _lines(words: Sequence[str]) -> AbstractContextManager[BinaryIO]:
    if not words or words[0] == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return Path(words[0]).open("rb")
    except OSError as exc:
        raise ConfigError([f"{words[0]}: {exc.strerror}"]) from exc


def _bounded(file: BinaryIO, max_line_bytes: int) -> Iterator[bytes]:
    """Yield the lines of a file; raise InvalidLineError if a line is longer than any message can make it."""
    number = 0
    while line := file.readline(max_line_bytes + 1):
        number += 1
        if len(line) > max_line_bytes:
            raise InvalidLineError(
                f"line {number}: longer than {max_line_bytes} bytes; nothing was imported; "
                "if the broker has another -max-message-size, pass it to import as well"
            )
        yield line


async def _import(directory: Path, lines: Iterable[bytes]) -> tuple[int, int]:
    with naming_flag_of_store():
        store = await LevelDBStore.open(directory)
    try:
        importer = await Importer.begin(store, SystemClock().now_ms())
        return await importer.take_all(lines)
    finally:
        await store.close()
