"""Where a tool reads a store from: its directory, or the broker that has it open.

    -db directory   offline: the directory, which nobody may have open      storage.store_view
    otherwise       online: the broker behind -monitor-port on loopback     GET /backup

Both give every pair in key order, as of one moment.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path

from miniqueue.errors import ConfigError, ConnectError, DisconnectedError, ProtocolError, ServerError
from miniqueue.server.escaping import quote
from miniqueue.storage.store_view import viewed
from miniqueue.tools.arguments import Arguments
from miniqueue.wire.pair_stream import Pair, PairDecoder

LOOPBACK = "127.0.0.1"
#: Longer than the broker's disk may be busy with something else between two slices.
TIMEOUT_SECONDS = 600.0
_READ_BYTES = 1 << 18


def pairs_of(given: Arguments) -> AbstractContextManager[Iterator[Pair]]:
    """Return the content of the store that the command line means, for as long as the context is open.

    Raises StorageError, or ClientError when the broker cannot be reached or the stream breaks off, or ConfigError when
    the file of the token cannot be read.
    """
    if "db" in given.flags:
        return _offline(given)
    return _online(given.config.monitor_port, _authorization(given.flags.get("token-file")))


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


@contextmanager
def _online(port: int, headers: Mapping[str, str]) -> Iterator[Iterator[Pair]]:
    connection = HTTPConnection(LOOPBACK, port, timeout=TIMEOUT_SECONDS)
    try:
        yield _received(_requested(connection, port, headers))
    finally:
        connection.close()


def _requested(connection: HTTPConnection, port: int, headers: Mapping[str, str]) -> HTTPResponse:
    try:
        connection.request("GET", "/backup", headers=dict(headers))
        response = connection.getresponse()
    except (OSError, HTTPException) as exc:
        raise ConnectError(f"no broker answers on {LOOPBACK}:{port} (-monitor-port): {exc}") from exc
    if response.status != 200:
        text = response.read(1000).decode("utf-8", "replace")
        raise ServerError(f"the broker refused: {response.status} {text}", response.status)
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
