"""The client over HTTP/2: requests to a miniqueue server, subscriptions, and transactions."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from miniqueue_client.calls import messages, tracing
from miniqueue_client.calls.call import Call, Seconds, seconds_word
from miniqueue_client.calls.json_text import encoded
from miniqueue_client.calls.methods import awaitable
from miniqueue_client.calls.transaction import AsyncTransaction
from miniqueue_client.errors import ConnectError, DisconnectedError, ServerError
from miniqueue_client.http2 import requests
from miniqueue_client.http2.connection import Connection, Headers
from miniqueue_client.http2.stream import Stream
from miniqueue_client.http2.subscription import Subscription, refusal_of

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")

#: Number of lines that are encoded before the writer lets other tasks run.
LINES_PER_WRITE = 1024


async def connect(
    host: str,
    port: int,
    *,
    cafile: str | None = None,
    ssl_context: ssl.SSLContext | None = None,
    token: str | None = None,
) -> "Http2Client":
    """Connect to a server.

    Args:
      host: name or address of the server; its certificate must be valid for it.
      port: the port of the HTTP listener.
      cafile: PEM file of the certificate authorities to trust; None: the system's.
      ssl_context: a context to use as it is, instead of `cafile`; it must offer h2 by ALPN. A client certificate
        belongs here.
      token: the token of a user, if the broker has users.

    Raises ConnectError.
    """
    try:
        context = ssl_context or _make_context(cafile)
        transport, connection = await asyncio.get_running_loop().create_connection(Connection, host, port, ssl=context)
        await _make_ready(transport, connection)
    except (OSError, DisconnectedError) as exc:  # ssl.SSLError is an OSError
        raise ConnectError(f"cannot connect to {host}:{port}: {exc}") from exc
    headers = [] if token is None else [(b"authorization", b"Bearer " + token.encode())]
    return Http2Client(connection, f"{host}:{port}".encode(), headers)


async def _make_ready(transport: asyncio.Transport, connection: Connection) -> None:
    try:
        if transport.get_extra_info("ssl_object").selected_alpn_protocol() != "h2":
            raise DisconnectedError("the server does not offer HTTP/2")
        await connection.ready()
    except BaseException:  # a cancellation too: a server may never send its settings
        transport.abort()
        raise


def _make_context(cafile: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=cafile)
    context.set_alpn_protocols(["h2"])
    return context


class Http2Client:
    """One connection to a server; any number of tasks may use it at the same time."""

    def __init__(self, connection: Connection, authority: bytes, headers: Headers) -> None:
        self._connection = connection
        self._authority = authority
        self._headers = headers

    async def __aenter__(self) -> "Self":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
        await self._connection.wait_closed()

    def close(self) -> None:
        """Close the connection; requests in progress fail. Safe to call twice."""
        self._connection.close()

    async def publish(self, topic: str | bytes, payload: bytes) -> None:
        """Publish one message; it is durable on return.

        Raises:
          ServerError: it was refused; with status 503 it may have been stored.
          DisconnectedError: it may have been stored.
        """
        await self._publish("publish", topic, payload)

    async def publish_json(self, topic: str | bytes, value: object) -> None:
        """Publish a value as JSON, see `publish`; raises RequestError, too, for a value that JSON does not have."""
        await self._publish("publish_json", topic, encoded(value))

    async def delete_topic(self, topic: str | bytes) -> None:
        """Delete a topic, if it exists; raises ServerError, DisconnectedError."""
        await self._exchange(b"DELETE", _path("/", topic), b"")

    async def publish_lines(self, topic: str | bytes, payloads: Iterable[bytes]) -> AsyncIterator[str | ServerError]:
        """Publish many messages on one stream; yield for each, in order, its id or its refusal.

        Raises:
          ServerError: all messages were refused.
          DisconnectedError: messages without a reply may have been stored.
          Exception: raised by `payloads`; the messages before it were sent, and may have been stored.
        """
        with tracing.streaming("publish_lines", _text(topic), self.span_attributes()) as headers:
            stream = await self._begin(b"POST", _path("/publish/", topic), (b"content-type", b"application/x-ndjson"))
            sending = asyncio.create_task(_send_lines(stream, payloads, headers))
            try:
                await _check(stream)
                rest = b""
                while chunk := await stream.read():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for answer in map(json.loads, lines):
                        yield answer["id"] if "id" in answer else refusal_of(answer)
            finally:
                sending.cancel()
                stream.close()
                await asyncio.wait([sending])
                _raise_what_payloads_raised(sending)

    def subscribe(self, topic: str | bytes, *, lease_seconds: Seconds | None = None) -> Subscription:
        """Return a consumer of a topic, to be used with `async with`.

        A message that is not settled for `lease_seconds` goes to another consumer, and settling it later raises
        ServerError; None: the message is held until it is settled or the subscription ends.
        """
        query = b"" if lease_seconds is None else b"?lease=" + seconds_word(lease_seconds).encode()
        return Subscription(lambda: self._begin_subscription(_path("/subscribe/", topic) + query))

    async def execute(self, call: Call[T]) -> T:
        """Carry out a call that receives or settles; raises ServerError, DisconnectedError. It is never repeated."""
        path, body = requests.encode(call)
        return requests.decode(call, await self._exchange(b"POST", path.encode(), body))

    receive = awaitable(messages.receive, tracing.receiving)
    ack = awaitable(messages.ack)
    nack = awaitable(messages.nack)
    back = awaitable(messages.back)
    dack = awaitable(messages.dack)
    reject = awaitable(messages.reject)
    extend = awaitable(messages.extend)

    def span_attributes(self) -> Mapping[str, object]:
        """Return the attributes of the broker in traces."""
        host, _, port = self._authority.decode().rpartition(":")
        return {"server.address": host, "server.port": int(port)}

    def transaction(self) -> AsyncTransaction:
        """Return a transaction, as that of `AsyncClient`: what its block publishes and settles is one commit.

        Raises, at the end of the block: ServerError with the number of the act that is impossible, if nothing was done;
        DisconnectedError, or ServerError with the code UNKNOWN, if all or nothing was done. It is never repeated.
        """
        return AsyncTransaction(self._carry_out, deduplicates=False)

    async def _carry_out(self, calls: Sequence[Call[Any]]) -> list[Any]:
        path, body = requests.encode_transaction(calls)
        return requests.decode_transaction(calls, await self._exchange(b"POST", path.encode(), body))

    async def _begin_subscription(self, path: bytes) -> Stream:
        stream = await self._begin(b"POST", path)
        await _check(stream)
        return stream

    async def _publish(self, name: str, topic: str | bytes, payload: bytes) -> None:
        """Publish one message, and trace it as the method with this name."""
        if not tracing.is_active():
            await self._exchange(b"POST", _path("/publish/", topic), payload)
            return
        arguments: dict[str, Any] = {"topic": _text(topic), "payload": payload}
        with tracing.sending(name, self.span_attributes(), arguments):
            headers = [(f"miniqueue-header-{n}".lower().encode(), v.encode()) for n, v in arguments["headers"]]
            await self._exchange(b"POST", _path("/publish/", topic), payload, *headers)

    async def _exchange(self, method: bytes, path: bytes, body: bytes, *headers: tuple[bytes, bytes]) -> bytes:
        """Make a request, and return the body of the reply; raises ServerError, DisconnectedError."""
        stream = await self._begin(method, path, *headers)
        try:
            stream.write(body, is_last=True)
            await _check(stream)
            return await stream.read_all()
        finally:
            stream.close()

    async def _begin(self, method: bytes, path: bytes, *headers: tuple[bytes, bytes]) -> Stream:
        return await self._connection.begin(
            [
                (b":method", method),
                (b":scheme", b"https"),
                (b":authority", self._authority),
                (b":path", path),
                *self._headers,
                *headers,
            ]
        )


async def _check(stream: Stream) -> None:
    """Raise ServerError unless the response has a status below 300."""
    status = await stream.response()
    if status >= 300:
        body = await stream.read_all()
        stream.close()
        raise _error_of(body, status)


def _error_of(body: bytes, status: int) -> ServerError:
    try:
        return refusal_of(json.loads(body), status)
    except (ValueError, TypeError, KeyError):
        return ServerError(body.decode("utf-8", "replace").strip(), status)


async def _send_lines(stream: Stream, payloads: Iterable[bytes], headers: Sequence[tuple[str, str]]) -> None:
    """Send a line for each payload; each message gets the headers."""
    others = b',"headers":' + encoded(headers) if headers else b""
    try:
        remaining = iter(payloads)
        while batch := list(islice(remaining, LINES_PER_WRITE)):
            stream.write(b"".join(_line(payload, others) for payload in batch))
            await stream.drain()
        stream.write(b"", is_last=True)
    except BaseException:
        stream.close()  # otherwise the server would wait for the rest, and the reader for the server
        raise


def _raise_what_payloads_raised(sending: "asyncio.Task[None]") -> None:
    error = None if sending.cancelled() else sending.exception()
    if error is not None and not isinstance(error, DisconnectedError):
        raise error


def _line(payload: bytes, others: bytes) -> bytes:
    """Return the line of a message; `others` are its members after the payload, each after a comma."""
    if not others:
        try:
            return encoded(payload.decode()) + b"\n"
        except UnicodeDecodeError:
            pass
    return b'{"msg":"%b"%b}\n' % (base64.b64encode(payload), others)


def _text(topic: str | bytes) -> str:
    return topic if isinstance(topic, str) else topic.decode("utf-8", "replace")


def _path(prefix: str, topic: str | bytes) -> bytes:
    return (prefix + quote(topic, safe="")).encode()
