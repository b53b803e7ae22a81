"""`miniqueue import`: creates topics from the JSON lines that `miniqueue export` writes."""

import asyncio
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext
from pathlib import Path
from typing import BinaryIO

from miniqueue.broker import SystemClock
from miniqueue.errors import ConfigError, InvalidLineError
from miniqueue.server.config.config import naming_flag_of_store
from miniqueue.server.security.private_files import private_umask
from miniqueue.storage.leveldb.shards import check_has_no_shards, prepare_shards, shard_count, store_of_shard
from miniqueue.storage.leveldb.store import LevelDBStore
from miniqueue.tools import arguments
from miniqueue.tools.arguments import Arguments, counted
from miniqueue.tools.importing.importer import Importer, import_all

USAGE = """\
Usage: miniqueue import [-db directory] [file]

Adds the messages of a file of JSON lines, or of the standard input, to a store that no
broker has open, with all attributes that export wrote, and the settings and groups of their
topics. The topics must be new. If a line is invalid, nothing is imported. Of a store with
shards, each line goes to the shard of its topic.

  -db directory
        the store, which is created if it is missing (default ./data)
  -shards number
        number of shards of a store that is created (default 1)
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
    options = arguments.read(words, environ, USAGE, settings=("db", "shards", "max-message-size"))
    if options is None:
        return 0
    if len(options.words) > 1:
        raise ConfigError(["import accepts one file; see -h"])
    max_line_bytes = ESCAPED_BYTES * options.config.max_message_bytes + MAX_OTHER_BYTES
    with _lines(options.words) as file, private_umask():
        directories = _stores_in(options)
        try:
            message_count, topic_count = asyncio.run(_import(directories, _bounded(file, max_line_bytes)))
        except KeyboardInterrupt:
            of_each = " of each shard" if len(directories) > 1 else ""
            print(f"miniqueue: import interrupted: either all lines{of_each} were imported, or none", file=sys.stderr)
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


def _stores_in(options: Arguments) -> list[Path]:
    """Return the directories of all stores of the broker; make those of shards, if they are missing."""
    db = options.config.db
    count = options.config.shards if "shards" in options.flags else shard_count(db) or options.config.shards
    if count == 1:
        check_has_no_shards(db)
        return [db]
    prepare_shards(db, count)
    return [store_of_shard(db, number) for number in range(count)]


async def _import(directories: Sequence[Path], lines: Iterable[bytes]) -> tuple[int, int]:
    now_ms = SystemClock().now_ms()
    importers = []
    async with AsyncExitStack() as opened:
        for directory in directories:
            with naming_flag_of_store():
                store = await LevelDBStore.open(directory)
            opened.push_async_callback(store.close)
            importers.append(await Importer.begin(store, now_ms))
        return await import_all(importers, lines)
