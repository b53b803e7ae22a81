"""Results of replies: from what redis-py returns for version 3 of RESP to the values that callers use.

    [receipt, payload, {id: …, published_at_ms: …, deliveries: …}] ─▶ Message
    [OK, NOLEASE …]                                                ─▶ [True, False]

Does not know commands. Attributes of a message that this version does not know are kept in `extra`.
"""

from collections.abc import Mapping
from typing import Final

from miniqueue_client.calls.call import Reply
from miniqueue_client.calls.values import (
    Counts,
    Event,
    HeldMessage,
    Message,
    Origin,
    PublishedId,
    PublishedIds,
    Redriven,
)

_PLAIN: Final = frozenset({b"id", b"published_at_ms", b"deliveries"})
_COUNTS: Final = frozenset(Counts._fields)
_NUMBERS: Final = frozenset({"published_at_ms", "deliveries", "expires_at_ms", "due_at_ms"})


def text(reply: Reply) -> str:
    """Return a reply as text."""
    return reply.decode("utf-8", "replace") if isinstance(reply, bytes) else str(reply)


def published_id(reply: Reply) -> PublishedId:
    """Return the id of a message, and whether it is a duplicate, if the reply says so."""
    message_id, is_duplicate = reply if isinstance(reply, list) else (reply, 0)
    return PublishedId(text(message_id), is_duplicate=bool(is_duplicate))


def nothing(_reply: Reply) -> None:
    """Ignore a reply such as `OK`."""


def number(reply: Reply) -> int:
    """Return a reply as an integer."""
    return int(reply)


def texts(reply: Reply) -> list[str]:
    """Return a list of texts: names or ids."""
    return [text(item) for item in reply]


def batch_ids(reply: Reply) -> PublishedIds:
    """Return the ids of messages that were published together, and whether they are duplicates."""
    ids, is_duplicate = reply
    return PublishedIds(texts(ids), is_duplicate=bool(is_duplicate))


def new_ids(reply: Reply) -> PublishedIds:
    """Return the ids of messages that were published together without a dedup id."""
    return PublishedIds(texts(reply))


def plain(value: Reply) -> object:
    """Return any reply with bytes converted to text, at all levels."""
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
    """Return a map of texts."""
    return {text(name): text(value) for name, value in reply.items()}


def figures(reply: Reply) -> dict[str, object]:
    """Return a map of statistics: numbers, texts, booleans, and None if there is nothing to measure."""
    return {text(name): plain(value) for name, value in reply.items()}


def all_figures(reply: Reply) -> list[dict[str, object]]:
    """Return a list of maps of statistics."""
    return [figures(item) for item in reply]


def redriven(reply: Reply) -> Redriven:
    """Return the result of a redrive."""
    remaining, error = reply[b"remaining"], reply[b"error"]
    return Redriven(reply[b"moved"], remaining, "" if error is None else text(error))


def held(reply: Reply) -> list[HeldMessage]:
    """Return messages that are leased."""
    return [
        HeldMessage(
            topic=text(item[b"topic"]),
            partition=text(item[b"partition"]),
            group=text(item[b"group"]),
            id=text(item[b"id"]),
            receipt=text(item[b"receipt"]),
            remaining_ms=item[b"remaining_ms"],
        )
        for item in reply
    ]


def settled(reply: Reply) -> list[bool]:
    """Return for each receipt whether it settled a message."""
    return [item == b"OK" for item in (reply if isinstance(reply, list) else [reply])]


def received(topic: str, reply: Reply) -> list[Message]:
    """Return messages that were delivered."""
    return [_message(topic, payload, attributes, receipt=text(receipt)) for receipt, payload, attributes in reply]


def received_any(reply: Reply) -> list[Message]:
    """Return messages that were delivered from several topics."""
    return [message for topic, messages in reply for message in received(text(topic), messages)]


def seen(topic: str, reply: Reply) -> list[Message]:
    """Return messages of PEEK or READ, which are not leased."""
    return [seen_message(topic, item) for item in reply]


def seen_message(topic: str, reply: Reply) -> Message:
    """Return one message of PEEK or READ."""
    message_id, payload, attributes = reply
    return _message(topic, payload, {**attributes, b"id": message_id})


def event(reply: Reply) -> Event:
    """Return what has happened in the broker."""
    _, kind, details = reply
    known = {text(name): plain(value) for name, value in details.items()}
    at_ms, topic = known.pop("at_ms"), known.pop("topic", "")
    return Event(text(kind), str(topic), int(str(at_ms)), known)


def _message(topic: str, payload: bytes, attributes: Mapping[bytes, Reply], receipt: str = "") -> Message:
    if attributes.keys() <= _PLAIN:  # the fast path for most messages, in a third of the time
        message_id = attributes[b"id"].decode()
        times = attributes.get(b"published_at_ms", 0), attributes.get(b"deliveries", 0)
        return Message(topic, message_id, payload, receipt, *times)
    values = {name.decode(): value for name, value in attributes.items()}
    return Message(
        topic=topic,
        id=text(values.pop("id", b"")),
        payload=payload,
        receipt=receipt,
        counts=Counts(**{name: values.pop(name) for name in _COUNTS & values.keys()}),
        key=values.pop("key", b""),
        headers=tuple((text(name), value) for name, value in values.pop("headers", ())),
        origin=_origin(values.pop("origin", None)),
        reply_to=text(values.pop("reply_to", b"")),
        only_for=text(values.pop("only_for", b"")),
        failure=text(values.pop("failure", b"")),
        state=text(values.pop("state", b"")),
        **{name: int(values.pop(name)) for name in _NUMBERS & values.keys()},
        extra={name: plain(value) for name, value in values.items()},
    )


def _origin(reply: Mapping[bytes, Reply] | None) -> Origin | None:
    if reply is None:
        return None
    values = {name.decode(): value for name, value in reply.items()}
    counts = Counts(**{name: values[name] for name in _COUNTS & values.keys()})
    times = values.get("published_at_ms", 0), values.get("died_at_ms", 0)
    reason, group = text(values.get("reason", b"")), text(values.get("group", b"default"))
    return Origin(text(values["topic"]), text(values["id"]), *times, reason, counts, group)
