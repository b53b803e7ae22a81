"""Where a tool reads a store from: its directory, or the broker that has it open.

    -db directory   offline: the directory, which nobody may have open      storage.store_view
    otherwise       online: the broker on -monitor-host and -monitor-port   GET /backup

Both give every pair in key order, as of one moment. The broker is asked over TLS if it is not on loopback.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from ssl import SSLContext, create_default_context
from types import MappingProxyType

from miniqueue.errors import ConfigError, ConnectError, DisconnectedError, ProtocolError, ServerError
from miniqueue.server.escaping import escape, quote
from miniqueue.server.exposure import is_loopback
from miniqueue.storage.store_view import viewed
from miniqueue.tools.arguments import Arguments
from miniqueue.wire.pair_stream import Pair, PairDecoder

#: Where this machine reaches a listener on all its addresses.
_OF_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}
#: Longer than the broker's disk may be busy with something else between two slices.
TIMEOUT_SECONDS = 600.0
_READ_BYTES = 1 << 18
#: What helps, by the status of the refusal and whether a token was passed.
_HINTS = MappingProxyType(
    {
        (401, False): "; pass -token-file with the token of a user with the role admin for '*'",
        (401, True): "; no user has the token of -token-file",
        (403, True): "; the user of -token-file requires the role admin for '*'",
    }
)


def pairs_of(given: Arguments) -> AbstractContextManager[Iterator[Pair]]:
    """Return the content of the store that the command line means, for as long as the context is open.

    Raises StorageError, or ClientError when the broker cannot be reached or the stream breaks off, or ConfigError when
    the file of the token cannot be read.
    """
    if "db" in given.flags:
        return _offline(given)
    headers = _authorization(given.flags.get("token-file"))
    return _online(_connection(given.config.monitor_host, given.config.monitor_port, given.flags.get("ca")), headers)


@contextmanager
def _offline(given: Arguments) -> Iterator[Iterator[Pair]]:
    with viewed(given.config.db) as view:
        yield view.pairs()


def _authorization(token_file: str | None) -> dict[str, str]:
    """Return the header that shows a token, as a file of `miniqueue user` holds it; nothing without one."""
    if token_file is None:
        return {}
    try:
        return {"Authorization": "Bearer " + Path(token_file).read_text("ascii").strip()}
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError([f"flag -token-file: {quote(token_file)}: no token can be read there"]) from exc


def _connection(host: str, port: int, ca: str | None) -> HTTPConnection:
    """Return a connection to the broker that is still to be opened: plain on loopback, unless authorities are named."""
    address = _OF_ANY.get(host, host)
    if is_loopback(host) and ca is None:
        return HTTPConnection(address, port, timeout=TIMEOUT_SECONDS)
    return HTTPSConnection(address, port, timeout=TIMEOUT_SECONDS, context=_client_context(ca))


def _client_context(ca: str | None) -> SSLContext:
    try:
        return create_default_context(cafile=ca)
    except OSError as exc:
        raise ConfigError([f"flag -ca: {quote(str(ca))}: no certificate can be read from this file"]) from exc


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
        place = f"{escape(connection.host)}:{connection.port}"
        raise ConnectError(f"no broker answers on {place} (-monitor-port): {exc}") from exc
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
        raise DisconnectedError(f"the content of the store has not come whole: {exc}") from exc
    if not decoder.is_complete:
        raise DisconnectedError("the content of the store has not come whole: the broker broke it off")
