"""The content of a store, as backup and export read it: from its directory, or from the broker that has it open.

    -db directory   offline: the directory, which no process may have open      storage.leveldb.view
    otherwise       online: the broker on -monitor-host and -monitor-port       GET /backup

Both return every pair in key order, as of one moment. The broker is asked over TLS unless its address is loopback.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from ssl import SSLContext, create_default_context
from types import MappingProxyType

from miniqueue.access.users import DEFAULT_NAME
from miniqueue.errors import ConfigError, ConnectError, DisconnectedError, ProtocolError, ServerError
from miniqueue.server.config.config import naming_flag_of_store
from miniqueue.server.process.escaping import escape, quote
from miniqueue.server.security.exposure import is_loopback
from miniqueue.storage.leveldb.view import StoreView, viewed
from miniqueue.tools.arguments import Arguments, read, read_secret
from miniqueue.wire.pair_stream import Pair, PairDecoder

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
        TOML file with settings
"""
_SETTINGS = ("db", "monitor-host", "monitor-port")
_OWN_FLAGS = ("ca", "token-file")
#: The address at which this machine reaches a listener on all addresses.
_LOCAL_ADDRESSES = {"0.0.0.0": "127.0.0.1", "::": "::1"}
#: Longer than the broker's disk can be busy with other work between two slices of the content.
TIMEOUT_SECONDS = 600.0
_READ_BYTES = 1 << 18
#: The remedy, by the status of the response and by whether a token was sent.
_HINTS = MappingProxyType(
    {
        (401, False): "; pass -token-file with the token of a user with the role admin for '*'",
        (401, True): "; no user has the token of -token-file, or the password",
        (403, True): "; the user of -token-file requires the role admin for '*'",
    }
)


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
    headers = _authorization(read_secret(options))
    return _online(
        _connection(options.config.monitor_host, options.config.monitor_port, options.flags.get("ca")), headers
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


def _authorization(secret: str | None) -> dict[str, str]:
    if secret is None:
        return {}
    # Unlike a bearer token, a password can contain any character. A token has its own user, whatever the name is.
    credentials = f"{DEFAULT_NAME}:{secret}".encode("utf-8", "surrogateescape")
    return {"Authorization": "Basic " + b64encode(credentials).decode()}


def _connection(host: str, port: int, ca: str | None) -> HTTPConnection:
    """Return an unopened connection to the broker: plain on loopback unless authorities are named, else TLS."""
    address = _LOCAL_ADDRESSES.get(host, host)
    if is_loopback(host) and ca is None:
        return HTTPConnection(address, port, timeout=TIMEOUT_SECONDS)
    return HTTPSConnection(address, port, timeout=TIMEOUT_SECONDS, context=_client_context(ca))


def _client_context(ca: str | None) -> SSLContext:
    try:
        return create_default_context(cafile=ca)
    except OSError as exc:
        raise ConfigError([f"flag -ca: no certificate can be read from {quote(str(ca))}"]) from exc


@contextmanager
def _online(connection: HTTPConnection, headers: Mapping[str, str]) -> Iterator[Iterator[Pair]]:
    try:
        yield _received(_requested(connection, headers))
    finally:
        connection.close()


def _requested(connection: HTTPConnection, headers: Mapping[str, str]) -> HTTPResponse:
    try:
        connection.request("GET", "/backup", headers=dict(headers))
        response = connection.getresponse()
    except (OSError, HTTPException) as exc:
        address = f"{escape(connection.host)}:{connection.port}"
        raise ConnectError(f"no broker answers on {address} (-monitor-port): {exc}") from exc
    if response.status != 200:
        text = response.read(1000).decode("utf-8", "replace")
        hint = _HINTS.get((response.status, "Authorization" in headers), "")
        raise ServerError(f"the broker refused: {response.status} {text}{hint}", response.status)
    return response


def _received(response: HTTPResponse) -> Iterator[Pair]:
    decoder = PairDecoder()
    try:
        while chunk := response.read1(_READ_BYTES):
            yield from decoder.feed(chunk)
    except (OSError, HTTPException, ProtocolError) as exc:
        raise DisconnectedError(f"the content of the store is incomplete: {exc}") from exc
    if not decoder.is_complete:
        raise DisconnectedError("the content of the store is incomplete: the broker aborted the backup")
