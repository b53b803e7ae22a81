"""The content of a store, as backup and export read it: from its directory, or from the broker that has it open.

    -db directory   offline: the directory, which no process may have open      storage.leveldb.view
    otherwise       online: the broker on -monitor-host and -monitor-port       GET /backup

Both return every pair in key order, as of one moment. If there are shards, the store of each is read by itself: online
as of a moment of its own, GET /shards/{n}/backup. If all are read, no message is missing that moves between them, or is
there twice: GET /shards/{n}/backup?cut=1 of all shards at the same time. `monitoring` makes the requests.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from functools import partial
from http.client import HTTPConnection
from typing import NamedTuple

from miniqueue.core.settings.placing import Placing
from miniqueue.server.config.config import naming_flag_of_store
from miniqueue.storage.leveldb.shards import shard_count, stores_in
from miniqueue.storage.leveldb.view import StoreView, viewed
from miniqueue.tools.arguments import Arguments, read, read_secret
from miniqueue.tools.monitoring import (
    SeveralStoresError,
    authorization,
    connection_to,
    cut,
    received,
    received_together,
    requested,
)
from miniqueue.wire.pair_stream import Pair

FLAGS_USAGE = """\
  -db directory
        a store that is not in use
  -monitor-host address
        address of the running broker (default 127.0.0.1); TLS is used unless it is loopback
  -monitor-port port
        port of the running broker (default 8081)
  -ca file
        authorities to trust for TLS, PEM (default: those of the system)
  -token-file file
        token of a user with the role admin for '*'; required if the running broker has users,
        unless a password is set as for the broker
  -config file
        TOML, JSON, or YAML file with settings
"""
_SETTINGS = ("db", "monitor-host", "monitor-port")
_OWN_FLAGS = ("ca", "token-file")


def read_arguments(
    argv: Sequence[str], environ: Mapping[str, str], usage: str, own: Sequence[str] = ()
) -> Arguments | None:
    """Parse the command line of a tool that reads a store; see `arguments.read`."""
    return read(argv, environ, usage, settings=_SETTINGS, own=(*_OWN_FLAGS, *own))


class Stores(NamedTuple):
    """The stores of a broker.

    Attributes:
      shard_count: how many shards there are; 0: the store of one process.
      pairs_of: returns the content of the store with a number, from 0 on, while its context is open; one at a time.
      pairs: returns the pairs of all stores, each with the number of its store, while its context is open.
    """

    shard_count: int
    pairs_of: Callable[[int], AbstractContextManager[Iterator[Pair]]]
    pairs: Callable[[], AbstractContextManager[Iterator[tuple[int, Pair]]]]

    @property
    def placings(self) -> list[Placing]:
        """The place of each store among all."""
        count = max(self.shard_count, 1)
        return [Placing(number, count) for number in range(count)]


def stores_of(options: Arguments) -> AbstractContextManager[Stores]:
    """Return the stores that the command line names, while the context is open.

    Raises, also while the content is read:
      StorageError: the store of -db cannot be read.
      ClientError: the broker cannot be reached, or the stream ends early.
      ConfigError: the file of the token or of the authorities cannot be read.
    """
    if "db" in options.flags:
        return _offline(options)
    headers = authorization(read_secret(options))
    host, port = options.config.monitor_host, options.config.monitor_port
    return _online(partial(connection_to, host, port, options.flags.get("ca")), headers)


@contextmanager
def _offline(options: Arguments) -> Iterator[Stores]:
    with ExitStack() as stack:
        with naming_flag_of_store():  # not the block of the caller, whose errors are about other files
            views = [stack.enter_context(viewed(directory)) for directory in stores_in(options.config.db)]
            count = shard_count(options.config.db)
        yield Stores(
            count,
            lambda number: nullcontext(_read(views[number])),
            lambda: nullcontext((number, pair) for number, view in enumerate(views) for pair in _read(view)),
        )


def _read(view: StoreView) -> Iterator[Pair]:
    with naming_flag_of_store():
        yield from view.pairs()


@contextmanager
def _online(connect: Callable[[], HTTPConnection], headers: Mapping[str, str]) -> Iterator[Stores]:
    with closing(connect()) as connection:
        try:
            response = requested(connection, "/backup", headers)
        except SeveralStoresError as refusal:
            count = refusal.shard_count
            yield Stores(count, partial(_of_shard, connection, headers), partial(_cut, connect, headers, count))
        else:
            pairs = received(response)
            yield Stores(0, lambda _number: nullcontext(pairs), lambda: nullcontext((0, pair) for pair in pairs))


@contextmanager
def _of_shard(connection: HTTPConnection, headers: Mapping[str, str], number: int) -> Iterator[Iterator[Pair]]:
    connection.close()  # what it was used for is read to its end
    yield received(requested(connection, f"/shards/{number}/backup", headers))


@contextmanager
def _cut(
    connect: Callable[[], HTTPConnection], headers: Mapping[str, str], count: int
) -> Iterator[Iterator[tuple[int, Pair]]]:
    with cut(connect, headers, count) as responses:
        yield received_together(responses)
