"""The attributes of a message as clients of both protocols see them.

    key            k
    expires_at_ms  1700000000000
    headers        [[name, value], …]
    reply_to       of a request: the broker's name of it
    only_for       the only group that receives the message
    failure        the reason of the last NACK that gave one
    origin         of a dead letter: {topic, id, published_at_ms, died_at_ms, reason, group, nacks, …}; the group is
                   omitted if it is the default group

Attributes that a message does not have are omitted. Attributes that cannot be decoded appear as an error, alone: the
message itself can be used.
"""

from collections.abc import Mapping
from functools import cache
from typing import Final

from miniqueue.core.message.attributes import Origin, decode
from miniqueue.core.message.ids import format_message_id
from miniqueue.core.message.names import DEFAULT_GROUP_NAME
from miniqueue.errors import CorruptionError, FormatVersionError
from miniqueue.wire.resp_replies import Value

#: In one iteration of the event loop, messages with so many bytes of attributes are described; each message counts as
#: some bytes more, as much as the rest of its description costs.
BYTES_IN_TURN: Final = 2_800
MESSAGE_BYTES: Final = 60


@cache
def json_name(name: str) -> str:
    """Return a name as JSON has it: `publishedAtMs` for `published_at_ms`."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def attribute_words(encoded: bytes) -> dict[Value, Value]:
    """Return the names and values of the attributes of a message, which are encoded as in the store."""
    try:
        attributes = decode(encoded)
    except (CorruptionError, FormatVersionError) as exc:
        return {"attributes_error": str(exc)}
    words: dict[Value, Value] = {
        "key": attributes.key,
        "expires_at_ms": attributes.expires_at_ms,
        "headers": [list(header) for header in attributes.headers],
        "origin": None if attributes.origin is None else _origin(attributes.origin),
        "reply_to": attributes.reply_to,
        "only_for": attributes.only_for,
        "failure": attributes.failure,
    }
    return {name: value for name, value in words.items() if value}


def _origin(origin: Origin) -> dict[Value, Value]:
    return {
        "topic": origin.topic,
        "id": format_message_id(origin.partition, origin.seq),
        "published_at_ms": origin.published_at_ms,
        "died_at_ms": origin.died_at_ms,
        "reason": origin.reason,
        **({} if origin.group == DEFAULT_GROUP_NAME else {"group": origin.group}),
        **{name: count for name, count in origin.counts._asdict().items() if count},
    }


def as_json(value: object) -> object:
    """Return a value for JSON; in bytes that are not UTF-8, invalid parts are replaced."""
    match value:
        case bytes():
            return value.decode("utf-8", "replace")
        case Mapping():
            return {json_name(name): as_json(item) for name, item in value.items()}
        case list():
            return [as_json(item) for item in value]
        case _:
            return value
