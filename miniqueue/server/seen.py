"""Messages that were looked at, as both protocols tell of them.

    RESP   [0-17, payload, [state, ready, published_at_ms, 1700000000000, deliveries, 2, nacks, 2]]
    JSON   {"id":"0-17","msg":"<base64>","state":"ready","publishedAtMs":1700000000000,"deliveries":2,"nacks":2}

Counts of 0 are left out, and so is what a message does not have. Here `deliveries` are those so far: a message that
waits has come back from each.
"""

import binascii
from collections.abc import Iterable, Mapping

from miniqueue.broker.peeking import Seen, State
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.given import as_json, given_words


def resp_message(seen: Seen, protocol: int) -> bytes:
    """Encode one message; in version 3 of RESP its attributes are a map."""
    return replies.encode([seen.message_id, seen.found.payload, _attributes(seen)], protocol)


def resp_messages(messages: Iterable[Seen], protocol: int) -> bytes:
    """Encode an array of messages."""
    return replies.array([resp_message(seen, protocol) for seen in messages])


def json_message(seen: Seen) -> Mapping[str, object]:
    """Return a message as JSON has it; bytes that are no UTF-8 lose something but in the payload."""
    told = as_json(_attributes(seen))
    assert isinstance(told, dict)
    return {
        "id": seen.message_id.decode(),
        "msg": binascii.b2a_base64(seen.found.payload, newline=False).decode(),
        **told,
    }


def _attributes(seen: Seen) -> dict[replies.Value, replies.Value]:
    found = seen.found
    words: list[tuple[replies.Value, replies.Value]] = [
        ("state", seen.state.value),
        ("published_at_ms", found.published_at_ms),
        ("due_at_ms", seen.due_at_ms),
        ("deliveries", sum(found.counts) + (seen.state is State.LEASED)),
        *found.counts._asdict().items(),
        *given_words(found.attributes).items(),
    ]
    return {name: value for name, value in words if value or name == "deliveries"}
