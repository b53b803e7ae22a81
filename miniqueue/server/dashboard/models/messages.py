"""The read model `messages`: a page of messages of a topic, by state, each as one line.

    ?topic=&state=&group=&count=&after=      pages as PEEK has them
    ?key=&contains=&reason=                  with one of these, pages as SEARCH has them

Payloads are cut here: a list of large messages is as small as one of small messages. The API has them as a whole.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from miniqueue.access.rights import Right
from miniqueue.access.users import User, check_permitted
from miniqueue.broker.inspect.peek import MAX_BYTES
from miniqueue.broker.inspect.peeked import PeekedMessage, State, parse_state
from miniqueue.broker.inspect.positions import parse_scan_position
from miniqueue.core.message.ids import DelayedId, parse_any_id
from miniqueue.core.options.filter import parse_filter
from miniqueue.server.dashboard.models.model import Context, Make, Model, number_of, topic_of
from miniqueue.server.views.messages import json_attributes

DEFAULT_COUNT: Final = 50
MAX_COUNT: Final = 100
#: What is shown of a payload: characters of text, or bytes of anything else.
SHOWN_CHARACTERS: Final = 200
SHOWN_BYTES: Final = 64
_FILTERS: Final = ("key", "contains", "reason")


def open_messages(context: Context, options: Mapping[str, bytes], user: User | None) -> Make:
    """Open a page of messages; raises NotPermittedError, InvalidOptionError, or UnknownMessageError."""
    topic = topic_of(options)
    check_permitted(user, Right.MONITOR, topic, "GET /ui/data/messages")
    state = parse_state(options["state"]) if options.get("state") else State.READY
    count = number_of(options, "count", DEFAULT_COUNT, MAX_COUNT)
    group, after = options.get("group") or None, options.get("after") or None
    filters = {name: options[name] for name in _FILTERS if options.get(name)}
    if not filters:
        return partial(_peek, context, topic, state, count, None if after is None else parse_any_id(after), group)
    search = partial(
        context.broker.inspect.search,
        topic,
        parse_filter(filters),
        state=state,
        count=count,
        after=None if after is None else parse_scan_position(after),
        group=group,
    )

    async def make() -> dict[str, object]:
        await context.broker.waking.wake_named([topic])
        page = await search()
        return _shown(page.messages, page.next and bytes(page.next).decode()) | {"scanned": page.scanned_count}

    return make


MESSAGES: Final = Model(open_messages, ("topic", "state", "group", "after", "count", *_FILTERS))


async def _peek(
    context: Context,
    topic: bytes,
    state: State,
    count: int,
    after: tuple[int, int] | DelayedId | None,
    group: bytes | None,
) -> dict[str, object]:
    await context.broker.waking.wake_named([topic])
    messages = await context.broker.inspect.peek(topic, state, count, after, group)
    size_bytes = sum(len(each.stored.payload) + len(each.stored.shown_attributes) for each in messages)
    is_last = len(messages) < count and size_bytes < MAX_BYTES
    return _shown(messages, None if is_last or not messages else messages[-1].message_id.decode())


def _shown(messages: Sequence[PeekedMessage], after: str | None) -> dict[str, object]:
    return {"messages": [shown_message(message) for message in messages], "next": after}


def shown_message(message: PeekedMessage) -> dict[str, object]:
    """Return a message as JSON: what the API returns, with the beginning of its payload as one line instead of it."""
    return {**json_attributes(message), "bytes": len(message.stored.payload), **beginning_of(message.stored.payload)}


def beginning_of(payload: bytes) -> dict[str, str]:
    """Return the beginning of a payload: `text` without control characters, or `hex` if it is not UTF-8."""
    start = payload[: 4 * SHOWN_CHARACTERS]
    try:
        text = start.decode()
    except UnicodeDecodeError as exc:
        if len(start) == len(payload) or exc.start < len(start) - 3:  # otherwise only the last character is cut
            return {"hex": start[:SHOWN_BYTES].hex(" ")}
        text = start[: exc.start].decode()
    return {"text": "".join(char if char.isprintable() else " " for char in text[:SHOWN_CHARACTERS])}
