"""What replies mean: from what redis-py reads in version 3 of RESP to what callers use.

    [receipt, payload, {id: …, published_at_ms: …, deliveries: …}] ─▶ Message
    [OK, NOLEASE …]                                                ─▶ [True, False]

Knows nothing of commands. What it does not know of a message it passes on as `extra`.
"""

from collections.abc import Mapping
from typing import Final

from miniqueue.client.call import Reply
from miniqueue.client.message import Message, Origin
from miniqueue.client.published import PublishedId, PublishedIds
from miniqueue.client.redriven import Redriven
from miniqueue.core.message import Counts

_PLAIN: Final = frozenset({b"id", b"published_at_ms", b"deliveries"})
_COUNTS: Final = frozenset(Counts._fields)
_NUMBERS: Final = frozenset({"published_at_ms", "deliveries", "expires_at_ms", "due_at_ms"})


def text(reply: Reply) -> str:
    """Return a word of the broker's."""
    return reply.decode("utf-8", "replace") if isinstance(reply, bytes) else str(reply)


def published_id(reply: Reply) -> PublishedId:
    """Return the id of a message; where it might have been a duplicate, whether it was one stands beside it."""
    message_id, is_duplicate = reply if isinstance(reply, list) else (reply, 0)
    return PublishedId(text(message_id), is_duplicate=bool(is_duplicate))


def nothing(_reply: Reply) -> None:
    """Take `OK`, or what the caller has no use for."""


def number(reply: Reply) -> int:
    """Return a whole number."""
    return int(reply)


def texts(reply: Reply) -> list[str]:
    """Return words of the broker's: names, or ids."""
    return [text(item) for item in reply]


def batch_ids(reply: Reply) -> PublishedIds:
    """Return the ids of messages that were published together, or had been."""
    ids, is_duplicate = reply
    return PublishedIds(texts(ids), is_duplicate=bool(is_duplicate))


def new_ids(reply: Reply) -> PublishedIds:
    """Return the ids of messages that were published together without an id of all."""
    return PublishedIds(texts(reply))


def plain(value: Reply) -> object:
    """Return any reply with its bytes as text, all the way down."""
    match value:
        case bytes():
            return text(value)
        case Mapping():
            return {text(name): plain(item) for name, item in value.items()}
        case list():
            return [plain(item) for item in value]
        case _:
            return value


def texts_by_name(reply: Reply) -> dict[str, str]:
    """Return a map of words."""
    return {text(name): text(value) for name, value in reply.items()}


def figures(reply: Reply) -> dict[str, object]:
    """Return a map of figures: numbers, texts, booleans, None where there is nothing to measure."""
    return {text(name): plain(value) for name, value in reply.items()}


def redriven(reply: Reply) -> Redriven:
    """Return what a redrive has done."""
    remaining, error = reply[b"remaining"], reply[b"error"]
    return Redriven(reply[b"moved"], remaining, "" if error is None else text(error))


def settled(reply: Reply) -> list[bool]:
    """Return for each receipt whether it settled a message."""
    return [item == b"OK" for item in (reply if isinstance(reply, list) else [reply])]


def received(topic: str, reply: Reply) -> list[Message]:
    """Return messages that were handed out."""
    return [_message(topic, payload, attributes, receipt=text(receipt)) for receipt, payload, attributes in reply]


def seen(topic: str, reply: Reply) -> list[Message]:
    """Return messages that were looked at."""
    return [seen_message(topic, one) for one in reply]


def seen_message(topic: str, reply: Reply) -> Message:
    """Return one message that was looked at."""
    message_id, payload, attributes = reply
    return _message(topic, payload, {**attributes, b"id": message_id})


def _message(topic: str, payload: bytes, attributes: Mapping[bytes, Reply], receipt: str = "") -> Message:
    if attributes.keys() <= _PLAIN:  # as most are, and this takes a third of the time
        message_id = attributes[b"id"].decode()
        times = attributes.get(b"published_at_ms", 0), attributes.get(b"deliveries", 0)
        return Message(topic, message_id, payload, receipt, *times)
    told = {name.decode(): value for name, value in attributes.items()}
    return Message(
        topic=topic,
        id=text(told.pop("id", b"")),
        payload=payload,
        receipt=receipt,
        counts=Counts(**{name: told.pop(name) for name in _COUNTS & told.keys()}),
        key=told.pop("key", b""),
        headers=tuple((text(name), value) for name, value in told.pop("headers", ())),
        origin=_origin(told.pop("origin", None)),
        reply_to=text(told.pop("reply_to", b"")),
        only_for=text(told.pop("only_for", b"")),
        state=text(told.pop("state", b"")),
        **{name: int(told.pop(name)) for name in _NUMBERS & told.keys()},
        extra={name: plain(value) for name, value in told.items()},
    )


def _origin(reply: Mapping[bytes, Reply] | None) -> Origin | None:
    if reply is None:
        return None
    told = {name.decode(): value for name, value in reply.items()}
    counts = Counts(**{name: told[name] for name in _COUNTS & told.keys()})
    times = told.get("published_at_ms", 0), told.get("died_at_ms", 0)
    reason, group = text(told.get("reason", b"")), text(told.get("group", b"default"))
    return Origin(text(told["topic"]), text(told["id"]), *times, reason, counts, group)
