"""`miniqueue backup`: creates a store directory with the content of a store as of one moment, or one that follows."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import structlog

from miniqueue.errors import ConfigError
from miniqueue.server.config.durations import parse_positive_duration
from miniqueue.server.process import logs
from miniqueue.storage.leveldb.copy import refuse_content, write_shards, write_store
from miniqueue.tools.arguments import Arguments, counted, read_secret
from miniqueue.tools.follow import Follower
from miniqueue.tools.follow_status import served
from miniqueue.tools.following import ANSWER_SECONDS, Status
from miniqueue.tools.monitoring import authorization, connection_to_url
from miniqueue.tools.source import FLAGS_USAGE, read_arguments, stores_of

log = structlog.get_logger()

USAGE = f"""\
Usage: miniqueue backup [-monitor-port port] directory
       miniqueue backup -follow url directory
       miniqueue backup -db store directory

Copies a store to the directory, which must be missing or empty. Without -db, copies the
store of the running broker, which continues to work; the copy contains everything that was
acknowledged before the backup began. With -db, copies a store that no broker has open. If the
broker has shards, the copy has all of them.
With -follow, copies the store of the broker at a URL, and then keeps the copy up to date
until a signal ends that; the directory can also be such a copy, which is continued. When a
broker is started on it, it follows no longer.

{FLAGS_USAGE}  -follow url
        follow the broker at https://host[:port], or http://localhost[:port] (port 8081)
  -interval duration
        with -follow: how often to log how far the copy is behind (default 10s)
  -status-port port
        with -follow: serve /readyz and /metrics of the copy on loopback (default: no)

Exit codes: 0 done; 65 the store is damaged; 69 no broker answers, or the transfer was
aborted; 71 the directory cannot be written; 73 it is not empty, or a broker has the store
of -db open, or has used the copy; 78 a flag is invalid.
"""
_FOLLOW_FLAGS = ("follow", "interval", "status-port")
#: Flags that name another source.
_OTHER_SOURCES = ("db", "monitor-host", "monitor-port")
_MAX_PORT = 65_535


def run(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Make a backup; return the exit code. Raises MiniqueueError."""
    options = read_arguments(words, environ, USAGE, own=_FOLLOW_FLAGS)
    if options is None:
        return 0
    if len(options.words) != 1:
        raise ConfigError(["backup requires one directory; see -h"])
    target = Path(options.words[0])
    if "follow" in options.flags:
        _follow(target, options)
        return 0
    if problems := [f"flag -{name}: requires -follow" for name in _FOLLOW_FLAGS if name in options.flags]:
        raise ConfigError(problems)
    refuse_content(target)  # before the broker begins to send the content
    with stores_of(options) as stores, stores.pairs() as pairs:
        if stores.shard_count:
            count = sum(write_shards(target, stores.shard_count, pairs))
        else:
            count = write_store(target, (pair for _, pair in pairs))
    shards = f" in {stores.shard_count} shards" if stores.shard_count else ""
    print(f"{target}: {counted(count, 'key')}{shards}")
    return 0


def _follow(target: Path, options: Arguments) -> None:
    flags = options.flags
    if problems := [f"flag -{name}: not with -follow" for name in _OTHER_SOURCES if name in flags]:
        raise ConfigError(problems)
    interval_seconds = _interval(flags.get("interval", "10s"))
    status_port = _port(flags["status-port"]) if "status-port" in flags else None
    connect = partial(connection_to_url, flags["follow"], flags.get("ca"), ANSWER_SECONDS)
    connect()  # raises for an invalid URL before anything else happens
    headers = authorization(read_secret(options))
    logs.configure("info", None)
    status = Status()
    with ExitStack() as stack:
        if status_port is not None:
            log.info("status", port=stack.enter_context(served(status, status_port)))
        asyncio.run(Follower(target, connect, headers, status, interval_seconds).run())


def _interval(text: str) -> float:
    try:
        return parse_positive_duration(text)
    except ConfigError as exc:
        raise ConfigError([f"flag -interval: {problem}" for problem in exc.problems]) from exc


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > _MAX_PORT:
        raise ConfigError([f"flag -status-port: must be a number from 0 to {_MAX_PORT}"])
    return int(text)
