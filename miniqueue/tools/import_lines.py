"""`miniqueue import`: makes topics of the JSON lines that `miniqueue export` writes."""

import asyncio
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import BinaryIO

from miniqueue.broker import SystemClock
from miniqueue.errors import ConfigError, InvalidLineError
from miniqueue.server.config import Question
from miniqueue.server.private_files import private_umask
from miniqueue.storage.leveldb import LevelDBStore
from miniqueue.tools import arguments
from miniqueue.tools.counted import counted
from miniqueue.tools.importer import Importer

USAGE = """\
Usage: miniqueue import [-db directory] [file]

Adds the messages of a file of JSON lines, or of the standard input, to a store that no
broker has open, with all that export has written of them, and of the settings and groups
of their topics. The topics must be new. All are imported or, when a line is wrong, none.

  -db directory
        the store, which is made if it is missing (default ./data)
  -max-message-size size
        of the broker that the lines come from, if it was raised: a longer line is refused
  -config file
        TOML file with settings

Exit codes: 0 done; 65 a line is wrong or its topic is there already, or the store is
damaged; 71 the store cannot be opened; 73 a broker has it open; 78 a flag is wrong, or the
file cannot be read.
"""

#: What a byte of a payload becomes in JSON at most: `\\u001f`.
ESCAPED_BYTES = 6
#: What a line has beside the payload: names, headers, keys, the groups of a topic.
MAX_OTHER_BYTES = 16 << 20


def run(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Import messages; return the exit code. Raises MiniqueueError."""
    given = arguments.read(words, environ, settings=("db", "max-message-size"))
    if isinstance(given, Question):
        sys.stdout.write(USAGE)
        return 0
    if len(given.words) > 1:
        raise ConfigError(["import takes one file; see -h"])
    max_line_bytes = ESCAPED_BYTES * given.config.max_message_bytes + MAX_OTHER_BYTES
    with _lines(given.words) as file, private_umask():
        try:
            message_count, topic_count = asyncio.run(_import(given.config.db, _bounded(file, max_line_bytes)))
        except KeyboardInterrupt:
            print("miniqueue: import interrupted: all lines were imported, or none", file=sys.stderr)
            raise
    print(f"{given.config.db}: {counted(message_count, 'message')} in {counted(topic_count, 'topic')}")
    return 0


def _lines(words: Sequence[str]) -> AbstractContextManager[BinaryIO]:
    if not words or words[0] == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return Path(words[0]).open("rb")
    except OSError as exc:
        raise ConfigError([f"{words[0]}: {exc.strerror}"]) from exc


def _bounded(file: BinaryIO, max_line_bytes: int) -> Iterator[bytes]:
    """Yield the lines of a file; raises InvalidLineError for one that is longer than any message can make it."""
    number = 0
    while line := file.readline(max_line_bytes + 1):
        number += 1
        if len(line) > max_line_bytes:
            raise InvalidLineError(
                f"line {number}: longer than {max_line_bytes} bytes; nothing was imported; "
                "a broker with larger messages has another -max-message-size, which import needs as well"
            )
        yield line


async def _import(directory: Path, lines: Iterable[bytes]) -> tuple[int, int]:
    store = await LevelDBStore.open(directory)
    try:
        importer = await Importer.begin(store, SystemClock().now_ms())
        return await importer.take_all(lines)
    finally:
        await store.close()
