"""What a publisher gave a message, and where a dead letter died, as words that both protocols show.

    key            k
    expires_at_ms  1700000000000
    headers        [[name, value], …]
    reply_to       of a request: that it is one
    only_for       the one group that gets it
    origin         {topic, id, published_at_ms, died_at_ms, reason, group, nacks, …}; no group where it is the default

What a message does not have is left out. Attributes that cannot be read are shown as an error and nothing else: the
message itself can be used.
"""

from collections.abc import Mapping

from miniqueue.core.attributes import Origin, decode
from miniqueue.core.group_start import DEFAULT_GROUP_NAME
from miniqueue.core.message_id import format_message_id
from miniqueue.errors import CorruptionError, FormatVersionError
from miniqueue.wire.resp_replies import Value

#: How JSON spells what has another name there.
_JSON_NAMES: Mapping[str, str] = {
    "at_ms": "atMs",
    "published_at_ms": "publishedAtMs",
    "died_at_ms": "diedAtMs",
    "due_at_ms": "dueAtMs",
    "expires_at_ms": "expiresAtMs",
    "reply_to": "replyTo",
    "only_for": "onlyFor",
    "attributes_error": "attributesError",
}


def given_words(encoded: bytes) -> dict[Value, Value]:
    """Return the words of a message's attributes, which are encoded as in the store."""
    try:
        given = decode(encoded)
    except (CorruptionError, FormatVersionError) as exc:
        return {"attributes_error": str(exc)}
    words: dict[Value, Value] = {
        "key": given.key,
        "expires_at_ms": given.expires_at_ms,
        "headers": [list(header) for header in given.headers],
        "origin": None if given.origin is None else _origin(given.origin),
        "reply_to": given.reply_to,
        "only_for": given.only_for,
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
    """Return words as JSON has them; bytes that are no UTF-8 lose something."""
    match value:
        case bytes():
            return value.decode("utf-8", "replace")
        case Mapping():
            return {_JSON_NAMES.get(name, name): as_json(item) for name, item in value.items()}
        case list():
            return [as_json(item) for item in value]
        case _:
            return value
