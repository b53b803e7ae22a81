"""Messages of PEEK as both protocols show them.

    RESP   [0-17, payload, [state, ready, published_at_ms, 1700000000000, deliveries, 2, nacks, 2]]
    JSON   {"id":"0-17","msg":"<base64>","state":"ready","publishedAtMs":1700000000000,"deliveries":2,"nacks":2}

Counts of 0 are omitted, and so are attributes that a message does not have. `deliveries` counts the deliveries so far:
a message that waits has been returned after each.
"""

import binascii
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from miniqueue.broker import Broker
from miniqueue.broker.inspect.peeked import PeekedMessage, State
from miniqueue.broker.runtime.share import Work
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.attribute_words import BYTES_IN_TURN, MESSAGE_BYTES, as_json, attribute_words

T = TypeVar("T")


def resp_message(peeked: PeekedMessage, protocol: int) -> bytes:
    """Encode one message; in RESP3 its attributes are a map."""
    return replies.encode([peeked.message_id, peeked.stored.payload, _attributes(peeked)], protocol)


async def resp_messages(broker: Broker, messages: Sequence[PeekedMessage], protocol: int) -> bytes:
    """Encode an array of messages; many in turns of the event loop. Raises MemoryLimitError."""
    return replies.array(await _in_turns(broker, partial(resp_message, protocol=protocol), messages))


async def json_messages(broker: Broker, messages: Sequence[PeekedMessage]) -> list[Mapping[str, object]]:
    """Return messages as JSON; many in turns of the event loop. Raises MemoryLimitError."""
    return await _in_turns(broker, json_message, messages)


async def _in_turns(broker: Broker, encode: Callable[[PeekedMessage], T], messages: Sequence[PeekedMessage]) -> list[T]:
    with broker.memory.reserve(sum([message.stored.content_bytes for message in messages])):
        return await broker.share.finish(_encoded(encode, messages))


def _encoded(encode: Callable[[PeekedMessage], T], messages: Iterable[PeekedMessage]) -> Work[list[T]]:
    """Encode messages; yield each time that enough has been encoded for one iteration of the event loop."""
    encoded: list[T] = []
    room = BYTES_IN_TURN
    for message in messages:
        if room <= 0:
            yield
            room = BYTES_IN_TURN
        room -= MESSAGE_BYTES + len(message.stored.attributes)
        encoded.append(encode(message))
    return encoded


def json_message(peeked: PeekedMessage) -> Mapping[str, object]:
    """Return a message as JSON; bytes that are not UTF-8 are replaced, except in the payload."""
    payload = binascii.b2a_base64(peeked.stored.payload, newline=False).decode()
    return {"id": peeked.message_id.decode(), "msg": payload, **_json_words(peeked)}


def json_attributes(peeked: PeekedMessage) -> Mapping[str, object]:
    """Return a message as JSON, without its payload."""
    return {"id": peeked.message_id.decode(), **_json_words(peeked)}


def _json_words(peeked: PeekedMessage) -> dict[str, object]:
    words = as_json(_attributes(peeked))
    assert isinstance(words, dict)
    return words


def _attributes(peeked: PeekedMessage) -> dict[replies.Value, replies.Value]:
    stored = peeked.stored
    words: list[tuple[replies.Value, replies.Value]] = [
        ("state", peeked.state.value),
        ("published_at_ms", stored.published_at_ms),
        ("due_at_ms", peeked.due_at_ms),
        ("deliveries", sum(stored.counts) + (peeked.state is State.LEASED)),
        *stored.counts._asdict().items(),
        *attribute_words(stored.shown_attributes).items(),
    ]
    return {name: value for name, value in words if value or name == "deliveries"}
