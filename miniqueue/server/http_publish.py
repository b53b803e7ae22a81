"""`POST /publish/{topic}`: the body is one message, answered with 201 when it is durable."""

from functools import partial

from starlette.types import Receive, Scope, Send

from miniqueue.broker import Broker
from miniqueue.errors import MiniqueueError, PayloadTooLargeError, UnsupportedEncodingError
from miniqueue.server.http_publish_lines import PublishedLines
from miniqueue.server.http_streams import OpenStreams
from miniqueue.server.paths import topic_of
from miniqueue.server.replies import CREATED, JSON_LINES, error_reply

#: How much more of a body that is too large is read before the refusal: a client that is still
#: sending when the connection closes may never see the reply.
MAX_DISCARDED_BYTES = 1 << 20


class PublishEndpoint:
    """Publishes the body, as one message or line by line."""

    def __init__(self, broker: Broker, streams: OpenStreams) -> None:
        self._broker = broker
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        reply = CREATED
        try:
            if is_json_lines(scope):
                self._streams.check()
                lines = PublishedLines(self._broker, topic_of(scope))
                with self._streams.holding(lines, scope.get("user")):
                    await lines.run(receive, send)
                return
            payload = await read_body(receive, self._broker.max_message_bytes)
            if payload is None:
                return
            published = await self._broker.crowd.admit(partial(self._broker.publish, topic_of(scope), [payload]))
            await published.commit.wait()
        except MiniqueueError as error:
            self._broker.limit_counts.note(error)
            reply = error_reply(error)
        await reply(scope, receive, send)


def is_json_lines(scope: Scope) -> bool:
    """Tell whether the request's body is JSON lines; parameters of the content type do not matter.

    Raises UnsupportedEncodingError when the body is compressed: it could unfold to anything.
    """
    is_lines = False
    for name, value in scope["headers"]:
        if name == b"content-type":
            media_type: bytes = value.partition(b";")[0]
            is_lines = media_type.strip().lower() == JSON_LINES
        elif name == b"content-encoding" and value.strip().lower() != b"identity":
            raise UnsupportedEncodingError
    return is_lines


async def read_body(receive: Receive, max_bytes: int) -> bytes | None:
    """Return the whole body, or None when the client has gone before its end.

    Raises PayloadTooLargeError when there is more; the size is that of what was read.
    """
    parts: list[bytes] = []
    size_bytes = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
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
