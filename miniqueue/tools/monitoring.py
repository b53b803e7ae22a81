"""Requests of tools to the monitoring port of a running broker: over TLS unless its address is loopback."""

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from itertools import chain
from ssl import SSLContext, create_default_context
from types import MappingProxyType
from urllib.parse import SplitResult, urlsplit

import orjson

from miniqueue.access.users import DEFAULT_NAME
from miniqueue.core.settings.placing import MAX_SHARDS
from miniqueue.errors import ConfigError, ConnectError, DisconnectedError, ProtocolError, ServerError
from miniqueue.server.process.escaping import escape, quote
from miniqueue.server.security.exposure import is_loopback
from miniqueue.wire.pair_stream import Pair, PairDecoder

#: Longer than the broker's disk can be busy with other work between two slices of the content.
TIMEOUT_SECONDS = 600.0
DEFAULT_PORT = 8081
#: The address at which this machine reaches a listener on all addresses.
_LOCAL_ADDRESSES = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_READ_BYTES = 1 << 18
#: The headers of a request with a body whose size is not known.
_OPEN = MappingProxyType({"Transfer-Encoding": "chunked"})
#: The remedy, by the status of the response and by whether a token was sent.
_HINTS = MappingProxyType(
    {
        (401, False): "; pass -token-file with the token of a user with the role admin for '*'",
        (401, True): "; no user has the token of -token-file, or the password",
        (403, True): "; the user of -token-file requires the role admin for '*'",
    }
)


class SeveralStoresError(ServerError):
    """The broker has a store for each of its shards.

    Attributes:
      shard_count: how many there are.
    """

    def __init__(self, text: str, status: int, shard_count: int) -> None:
        super().__init__(text, status)
        self.shard_count = shard_count


def authorization(secret: str | None) -> dict[str, str]:
    """Return the headers with a token, or with the password of the default user."""
    if secret is None:
        return {}
    # Unlike a bearer token, a password can contain any character. A token has its own user, whatever the name is.
    credentials = f"{DEFAULT_NAME}:{secret}".encode("utf-8", "surrogateescape")
    return {"Authorization": "Basic " + b64encode(credentials).decode()}


def connection_to(host: str, port: int, ca: str | None, timeout_seconds: float = TIMEOUT_SECONDS) -> HTTPConnection:
    """Return an unopened connection to the broker: plain on loopback unless authorities are named, else TLS."""
    address = _LOCAL_ADDRESSES.get(host, host)
    if is_loopback(host) and ca is None:
        return HTTPConnection(address, port, timeout=timeout_seconds)
    return HTTPSConnection(address, port, timeout=timeout_seconds, context=_client_context(ca))


def connection_to_url(url: str, ca: str | None, timeout_seconds: float) -> HTTPConnection:
    """Return an unopened connection to the broker at `https://host[:port]`, or `http://` on loopback.

    Raises ConfigError for another URL: elsewhere, plain HTTP would show the token and all messages.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or DEFAULT_PORT
    except ValueError:  # the port is no number
        parts, host, port = SplitResult("", "", "", "", ""), "", 0
    is_plain = parts.scheme == "http" and is_loopback(host)
    has_more = parts.path not in ("", "/") or parts.query or parts.username
    if not host or has_more or not (is_plain or parts.scheme == "https"):
        raise ConfigError(["flag -follow: invalid URL; must be https://host[:port], or http://localhost[:port]"])
    if is_plain:
        return HTTPConnection(host, port, timeout=timeout_seconds)
    return HTTPSConnection(host, port, timeout=timeout_seconds, context=_client_context(ca))


def requested(
    connection: HTTPConnection, path: str, headers: Mapping[str, str], *, is_open: bool = False
) -> HTTPResponse:
    """Return the response to a GET; raises ConnectError, or ServerError unless the status is 200.

    If `is_open`, the request gets a body without content, which `_end_request` ends.

    Raises SeveralStoresError if each shard of the broker must be asked.
    """
    with _answering(connection):
        connection.request("GET", path, headers={**headers, **(_OPEN if is_open else {})})
    return response_of(connection, headers)


def response_of(connection: HTTPConnection, headers: Mapping[str, str]) -> HTTPResponse:
    """Return the response to the request that was sent with these headers; raises as `requested`."""
    with _answering(connection):
        response = connection.getresponse()
    if response.status != 200:
        body = response.read(1000)
        hint = _HINTS.get((response.status, "Authorization" in headers), "")
        text = f"the broker refused: {response.status} {body.decode('utf-8', 'replace')}{hint}"
        if (shard_count := _shard_count(body)) is not None:
            raise SeveralStoresError(text, response.status, shard_count)
        raise ServerError(text, response.status)
    return response


@contextmanager
def _answering(connection: HTTPConnection) -> Iterator[None]:
    try:
        yield
    except (OSError, HTTPException) as exc:
        address = f"{escape(connection.host)}:{connection.port}"
        raise ConnectError(f"no broker answers on {address} (-monitor-port): {exc}") from exc


@contextmanager
def cut(
    connect: Callable[[], HTTPConnection], headers: Mapping[str, str], shard_count: int, query: str = ""
) -> Iterator[list[HTTPResponse]]:
    """Yield the responses with the stores of all shards, with no message missing, or twice, that moves between them.

    Args:
      connect: returns an unopened connection to the broker.
      headers: the headers of every request.
      shard_count: how many shards there are.
      query: more parameters of the requests, which begin with `&`.

    Raises as `requested`, and DisconnectedError.
    """
    with ExitStack() as stack:
        connections = [stack.enter_context(closing(connect())) for _ in range(shard_count)]
        responses = [
            requested(connection, f"/shards/{number}/backup?cut=1{query}", headers, is_open=True)
            for number, connection in enumerate(connections)
        ]
        for connection in connections:
            _end_request(connection)
        yield responses


def _end_request(connection: HTTPConnection) -> None:
    """End a request that is open; raises DisconnectedError."""
    try:
        if connection.sock is None:  # the broker closes the connection after the response
            raise ConnectionResetError("the broker has ended the request")
        connection.send(b"0\r\n\r\n")
    except OSError as exc:
        raise DisconnectedError(f"the content of the store is incomplete: {exc}") from exc


def _shard_count(body: bytes) -> int | None:
    """Return the number of shards that a refusal names, or None."""
    try:
        members = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    count = members.get("shards") if isinstance(members, dict) else None
    return count if isinstance(count, int) and 1 < count <= MAX_SHARDS else None


def received(response: HTTPResponse) -> Iterator[Pair]:
    """Yield the pairs of a response, which is `wire.pair_stream`; raises DisconnectedError if it is incomplete."""
    return chain.from_iterable(_pages_of(response))


def received_together(responses: Sequence[HTTPResponse]) -> Iterator[tuple[int, Pair]]:
    """Yield the pairs of several responses, each with the number of its response; some of each in turn.

    So no broker waits long for its response to be read. Raises as `received`.
    """
    unfinished = {number: _pages_of(response) for number, response in enumerate(responses)}
    while unfinished:
        for number, pages in list(unfinished.items()):
            page = next(pages, None)
            if page is None:
                del unfinished[number]
            else:
                yield from ((number, pair) for pair in page)


def _pages_of(response: HTTPResponse) -> Iterator[list[Pair]]:
    decoder = PairDecoder()
    try:
        while chunk := response.read1(_READ_BYTES):
            yield [*decoder.feed(chunk)]
    except (OSError, HTTPException, ProtocolError) as exc:
        raise DisconnectedError(f"the content of the store is incomplete: {exc}") from exc
    if not decoder.is_complete:
        raise DisconnectedError("the content of the store is incomplete: the broker aborted the backup")


def _client_context(ca: str | None) -> SSLContext:
    try:
        return create_default_context(cafile=ca)
    except OSError as exc:
        raise ConfigError([f"flag -ca: no certificate can be read from {quote(str(ca))}"]) from exc
