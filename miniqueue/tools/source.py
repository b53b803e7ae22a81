"""The content of a store, as backup and export read it: from its directory, or from the broker that has it open.

    -db directory   offline: the directory, which no process may have open      storage.leveldb.view
    otherwise       online: the broker on -monitor-host and -monitor-port       GET /backup

Both return every pair in key order, as of one moment. `monitoring` makes the requests.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from http.client import HTTPConnection

from miniqueue.server.config.config import naming_flag_of_store
from miniqueue.storage.leveldb.view import StoreView, viewed
from miniqueue.tools.arguments import Arguments, read, read_secret
from miniqueue.tools.monitoring import authorization, connection_to, received, requested
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


def pairs_of(options: Arguments) -> AbstractContextManager[Iterator[Pair]]:
    """Return the content of the store that the command line names, while the context is open.

    Raises:
      StorageError: the store of -db cannot be read.
      ClientError: the broker cannot be reached, or the stream ends early.
      ConfigError: the file of the token or of the authorities cannot be read.
    """
    if "db" in options.flags:
        return _offline(options)
    headers = authorization(read_secret(options))
    return _online(
        connection_to(options.config.monitor_host, options.config.monitor_port, options.flags.get("ca")), headers
    )


@contextmanager
def _offline(options: Arguments) -> Iterator[Iterator[Pair]]:
    with ExitStack() as stack:
        with naming_flag_of_store():  # not the block of the caller, whose errors are about other files
            view = stack.enter_context(viewed(options.config.db))
        yield _read(view)


def _read(view: StoreView) -> Iterator[Pair]:
    with naming_flag_of_store():
        yield from view.pairs()


@contextmanager
def _online(connection: HTTPConnection, headers: Mapping[str, str]) -> Iterator[Iterator[Pair]]:
    try:
        yield received(requested(connection, "/backup", headers))
    finally:
        connection.close()
