"""`POST /publish/{topic}`: the body is one message, answered with 201 when it is durable.

Options stand in the query, and headers of the message in headers of the request, `Miniqueue-Header-<Name>`.
"""

from functools import partial
from http import HTTPStatus
from urllib.parse import parse_qsl

from starlette.types import Message, Receive, Scope, Send

from miniqueue.broker import Broker
from miniqueue.core.publish_options import PublishOptions, parse_texts
from miniqueue.errors import MiniqueueError, PayloadTooLargeError, UnsupportedEncodingError
from miniqueue.server.http_publish_batch import MAX_BODY_BYTES as MAX_BATCH_BODY_BYTES
from miniqueue.server.http_publish_batch import check_batch_options, publish_batch
from miniqueue.server.http_publish_lines import PublishedLines
from miniqueue.server.http_streams import OpenStreams
from miniqueue.server.paths import topic_of
from miniqueue.server.replies import CREATED, JSON_LINES, Reply, error_reply

#: How much more of a body that is too large is read before the refusal: a client that is still
#: sending when the connection closes may never see the reply.
MAX_DISCARDED_BYTES = 1 << 20
#: Of the request's headers that are the message's; ASGI has all names in lower case.
HEADER_PREFIX = b"miniqueue-header-"


class PublishEndpoint:
    """Publishes the body, as one message or line by line."""

    def __init__(self, broker: Broker, streams: OpenStreams) -> None:
        self._broker = broker
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        reply = CREATED
        try:
            options = options_of(scope)
            if is_json_lines(scope):
                if options is not None:
                    check_batch_options(options)
                    body = await read_body(receive, MAX_BATCH_BODY_BYTES)
                    if body is not None:
                        await (await publish_batch(self._broker, topic_of(scope), body, options))(scope, receive, send)
                    return
                self._streams.check()
                lines = PublishedLines(self._broker, topic_of(scope))
                with self._streams.holding(lines, scope.get("user")):
                    await lines.run(receive, send)
                return
            payload = await read_body(receive, self._broker.max_message_bytes)
            if payload is None:
                return
            if options is None:
                crowd, topic = self._broker.crowd, topic_of(scope)
                if crowd.is_there:
                    published = await crowd.admit(partial(self._broker.publish, topic, [payload]))
                else:
                    published = self._broker.publish(topic, [payload])
                await published.commit.wait()
            else:
                reply = await self._publish_with(topic_of(scope), payload, options)
        except MiniqueueError as error:
            self._broker.limit_counts.note(error)
            reply = error_reply(error)
        await reply(scope, receive, send)

    async def _publish_with(self, topic: bytes, payload: bytes, options: PublishOptions) -> Reply:
        if options.unique_key:
            accepted = await self._broker.publish_unique(topic, payload, options)
        else:
            accepted = await self._broker.crowd.admit(partial(self._broker.publish_with, topic, payload, options))
        await accepted.commit.wait()
        headers = [(b"message-id", accepted.message_id)]
        if accepted.is_duplicate:
            return Reply(HTTPStatus.OK, headers=[*headers, (b"duplicate", b"true")])
        return Reply(HTTPStatus.CREATED, headers=headers)


def options_of(scope: Scope, besides: str | None = None) -> PublishOptions | None:
    """Return what query and headers of a request say of its message; None when they say nothing.

    `besides` is a parameter of the query that is about something else.
    """
    query: bytes = scope["query_string"]
    if not query and HEADER_PREFIX not in b"\n".join(dict(scope["headers"])):  # the usual request, told in few steps
        return None
    headers = [(n.removeprefix(HEADER_PREFIX), value) for n, value in scope["headers"] if n.startswith(HEADER_PREFIX)]
    if not query and not headers:
        return None
    # Latin-1 has a character for each byte: so keys may be any bytes.
    given = parse_qsl(query.decode("latin-1"), keep_blank_values=True, encoding="latin-1")
    return parse_texts([(name, value.encode("latin-1")) for name, value in given if name != besides], headers)


def is_json_lines(scope: Scope) -> bool:
    """Tell whether the request's body is JSON lines; parameters of the content type do not matter.

    Raises UnsupportedEncodingError when the body is compressed: it could unfold to anything.
    """
    fields: dict[bytes, bytes] = dict(scope["headers"])
    if b"content-encoding" in fields:
        _check_encodings(scope)
    content_type = fields.get(b"content-type")
    return content_type is not None and content_type.partition(b";")[0].strip().lower() == JSON_LINES


def _check_encodings(scope: Scope) -> None:
    for name, value in scope["headers"]:
        if name == b"content-encoding" and value.strip().lower() != b"identity":
            raise UnsupportedEncodingError


async def read_body(receive: Receive, max_bytes: int) -> bytes | None:
    """Return the whole body, or None when the client has gone before its end.

    Raises PayloadTooLargeError when there is more; the size is that of what was read.
    """
    message = await receive()
    body: bytes = message.get("body", b"")
    if message["type"] == "http.request" and not message.get("more_body", False) and len(body) <= max_bytes:
        return body  # in one piece, as most are
    return await _joined(message, receive, max_bytes)


async def _joined(message: Message, receive: Receive, max_bytes: int) -> bytes | None:
    """Return a body that begins with `message`, or None when the client has gone before its end."""
    parts: list[bytes] = []
    size_bytes = 0
    while message["type"] != "http.disconnect":
        part: bytes = message.get("body", b"")
        size_bytes += len(part)
        if size_bytes <= max_bytes:
            parts.append(part)
        else:
            parts.clear()
        is_whole = not message.get("more_body", False)
        if size_bytes > max_bytes and (is_whole or size_bytes > max_bytes + MAX_DISCARDED_BYTES):
            raise PayloadTooLargeError(size_bytes, max_bytes)
        if is_whole:
            return b"".join(parts)
        message = await receive()
    return None
