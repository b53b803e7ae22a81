r"""Notices of the broker as both protocols show them; clients call them events.

RESP   [event, topic-changed, [at_ms, 1700000000000, topic, orders, settings, [max_deliveries], by, user ada]]
       version 3 has a map in place of the inner array
SSE    id: 17\n event: topic-changed\n data: {"atMs":1700000000000,"topic":"orders","by":"user ada"}\n\n
"""

from typing import Final

import orjson

from miniqueue.access.rights import Right
from miniqueue.access.users import User, is_permitted
from miniqueue.broker.runtime.notices import Notice
from miniqueue.core.message.parts import whole_of, without_parts
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.attribute_words import as_json

#: A comment, which keeps a stream of server-sent events alive.
SSE_HEARTBEAT: Final = b":\n\n"


def resp_event(notice: Notice, protocol: int) -> bytes:
    """Encode a notice as an array; in version 3 its details are a map."""
    return replies.encode([b"event", notice.kind.value, _words(notice)], protocol)


def sse_event(notice: Notice) -> bytes:
    """Encode a notice as a server-sent event."""
    number = b"id: %d\n" % notice.number if notice.number else b""
    data = orjson.dumps(as_json(_words(notice)))
    return b"%bevent: %b\ndata: %b\n\n" % (number, notice.kind.value.encode(), data)


def sees_events(user: User | None, topic: bytes | None) -> bool:
    """Whether a user may see the events of a topic, or of the broker for None: with the right to monitor it."""
    return is_permitted(user, Right.MONITOR, topic)


def _words(notice: Notice) -> dict[replies.Value, replies.Value]:
    words: dict[replies.Value, replies.Value] = {"at_ms": notice.at_ms}
    if notice.topic:
        words["topic"] = whole_of(notice.topic)
    for name, value in notice.details.items():
        words[name] = [*value] if isinstance(value, list) else without_parts(value) if isinstance(value, str) else value
    return words
