"""From a stored message to the value that the client has of one."""

from miniqueue.core.message import attributes as stored
from miniqueue.core.message.ids import format_message_id
from miniqueue_client import Counts, Message, Origin


def message_of(  # what a store knows of a message in a log
    topic: str, partition: int, seq: int, payload: bytes, published_at_ms: int, encoded: bytes
) -> Message:
    """Return a message; raises CorruptionError or FormatVersionError if its attributes cannot be read.

    Args:
      topic: the topic.
      partition: number of the lane.
      seq: sequence number.
      payload: the payload.
      published_at_ms: when it was committed, in ms since 1970.
      encoded: the attributes, as `core.message.attributes` encodes them.
    """
    message_id = format_message_id(partition, seq).decode()
    if not encoded:
        return Message(topic, message_id, payload, published_at_ms=published_at_ms)
    decoded = stored.decode(encoded)
    return Message(
        topic,
        message_id,
        payload,
        published_at_ms=published_at_ms,
        key=decoded.key,
        headers=tuple((_text(name), value) for name, value in decoded.headers),
        expires_at_ms=decoded.expires_at_ms,
        origin=None if decoded.origin is None else _origin(decoded.origin),
        reply_to=_text(decoded.reply_to),
        only_for=_text(decoded.only_for),
        failure=_text(decoded.failure),
    )


def _origin(origin: stored.Origin) -> Origin:
    return Origin(
        _text(origin.topic),
        format_message_id(origin.partition, origin.seq).decode(),
        origin.published_at_ms,
        origin.died_at_ms,
        _text(origin.reason),
        Counts(*origin.counts),
        _text(origin.group),
    )


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")
