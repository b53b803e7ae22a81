"""Where a tool reads a store from: its directory, or the broker that has it open.

    -db directory   offline: the directory, which nobody may have open      storage.store_view
    otherwise       online: the broker behind -monitor-port on loopback     GET /backup

Both give every pair in key order, as of one moment.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse

from miniqueue.errors import ConnectError, DisconnectedError, ProtocolError, ServerError
from miniqueue.storage.store_view import viewed
from miniqueue.tools.arguments import Arguments
from miniqueue.wire.pair_stream import Pair, PairDecoder

LOOPBACK = "127.0.0.1"
#: Longer than the broker's disk may be busy with something else between two slices.
TIMEOUT_SECONDS = 600.0
_READ_BYTES = 1 << 18


def pairs_of(given: Arguments) -> AbstractContextManager[Iterator[Pair]]:
    """Return the content of the store that the command line means, for as long as the context is open.

    Raises StorageError, or ClientError when the broker cannot be reached or the stream breaks off.
    """
    return _offline(given) if "db" in given.flags else _online(given.config.monitor_port)


@contextmanager
def _offline(given: Arguments) -> Iterator[Iterator[Pair]]:
    with viewed(given.config.db) as view:
        yield view.pairs()


@contextmanager
def _online(port: int) -> Iterator[Iterator[Pair]]:
    connection = HTTPConnection(LOOPBACK, port, timeout=TIMEOUT_SECONDS)
    try:
        yield _received(_requested(connection, port))
    finally:
        connection.close()


def _requested(connection: HTTPConnection, port: int) -> HTTPResponse:
    try:
        connection.request("GET", "/backup")
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
