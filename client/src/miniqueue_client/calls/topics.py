"""Calls about topics: create and configure, inspect, clear; see `messages`."""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Literal, TypeAlias

from miniqueue_client.calls import answers
from miniqueue_client.calls.call import Call, Seconds, Word, options, seconds_word, side_words
from miniqueue_client.calls.trace_steps import Step, steps
from miniqueue_client.calls.values import HeldMessage, Message, Redriven

#: The value of a setting, a mapping for a JSON Schema; None resets it to its default.
Setting: TypeAlias = str | int | Seconds | Sequence[Seconds] | Mapping[str, object] | None
Side: TypeAlias = Literal["in", "out", "both"]


def ping() -> Call[str]:
    """Check that the broker replies."""
    return Call(("PING",), answers.text)


def topics() -> Call[list[str]]:
    """List the topics that exist, sorted; if the broker has users, only topics for which this user has a role."""
    return Call(("TOPICS",), answers.texts)


def create_topic(topic: str, **settings: Setting) -> Call[None]:
    """Create a topic with settings; refused with `EXISTS` if it exists."""
    return Call(("TOPIC", "CREATE", topic, *_setting_words(settings)), answers.nothing, is_repeatable=False)


def set_topic(topic: str, **settings: Setting) -> Call[None]:
    """Change settings of a topic, all or none; refused with `NOTOPIC` or `BADSETTING`."""
    return Call(("TOPIC", "SET", topic, *_setting_words(settings)), answers.nothing)


def topic_settings(topic: str) -> Call[dict[str, str]]:
    """Return all settings of a topic, as texts that `set_topic` accepts."""
    return Call(("TOPIC", "GET", topic), answers.texts_by_name)


def delete_topic(topic: str) -> Call[None]:
    """Delete a topic and its messages, if it exists."""
    return Call(("TOPIC", "DELETE", topic), answers.nothing)


def length(topic: str, *, group: str | None = None) -> Call[int]:
    """Count unacknowledged messages, those of a group if it is named; 0 if the topic does not exist."""
    return Call(("LEN", topic, *options(group=group)), answers.number)


def stats(topic: str | None = None) -> Call[dict[str, object]]:
    """Return the statistics of a topic, or the sums over all topics; docs/protocol.md describes them."""
    return Call(("STATS", *side_words(topic)), answers.figures)


def usage() -> Call[list[dict[str, object]]]:
    """Return what the user has of topics, bytes, connections, and so on, and may have; docs/protocol.md describes it.

    A user with the role monitor on `*`, and every client of a broker without users, gets all clients together first,
    with the user None, and then every user.
    """
    return Call(("USAGE",), answers.all_figures)


def peek(
    topic: str,
    *,
    state: str | None = None,
    count: int | None = None,
    after: str | None = None,
    group: str | None = None,
) -> Call[list[Message]]:
    """Return messages without leasing them.

    Args:
      topic: the topic, which must exist.
      state: `ready`, which is the default, `leased`, `delayed`, or `dead`: the dead letters of the topic.
      count: maximum number of messages; at most 1,000, by default 10.
      after: the id of the last message of the previous page.
      group: the group; None: the default group.
    """
    words = options(state=state, count=count, after=after, group=group)
    return Call(("PEEK", topic, *words), partial(answers.seen, topic))


def find(topic: str, message_id: str, *, group: str | None = None) -> Call[Message]:
    """Return a message by its id, with its state in a group; refused with `NOMESSAGE` if it does not exist."""
    return Call(("PEEK", topic, "ID", message_id, *options(group=group)), partial(answers.seen_message, topic))


def leases(
    topic: str,
    *,
    group: str = "default",
    member: str | None = None,
    count: int | None = None,
    after: str | None = None,
) -> Call[list[HeldMessage]]:
    """List the messages of a group that are leased under receipts, which any connection can settle.

    Args:
      topic: the topic, which must exist.
      group: the group.
      member: a member of the group; then all that it holds is listed, its streams included.
      count: maximum number of messages; at most 1,000, which is the default.
      after: the last receipt of the previous page.
    """
    return Call(("LEASES", topic, *options(group=group, member=member, count=count, after=after)), answers.held)


def trace(topic: str, message_id: str) -> Call[list[Step]]:
    """Return what happened to a message, in order, including in topics to which it was moved.

    Requires the topic's setting `trace` at the time. Refused with `NOMESSAGE` if there is no trace of it.
    """
    return Call(("TRACE", topic, message_id), steps)


def redrive(
    topic: str, *, to: str | None = None, limit: int | None = None, per_second: float | None = None
) -> Call[int]:
    """Move dead letters back to the topics that they came from.

    Args:
      topic: the topic of the dead letters, such as `orders.dlq`.
      to: the topic to move all of them to instead.
      limit: maximum number of dead letters to examine; None: all.
      per_second: maximum rate; the call lasts as long as that takes.

    Returns: the number of messages moved.

    Refused with `LIMIT` or `PAUSED` if the move was stopped. Messages that were moved before remain moved; the error
    text contains their number.
    """
    return Call(_redrive_words(topic, to, limit, per_second), answers.number, False, float("inf"))


def redrive_report(
    topic: str, *, to: str | None = None, limit: int | None = None, per_second: float | None = None
) -> Call[Redriven]:
    """Move dead letters back as `redrive` does; return how many were moved, how many remain, and what stopped them."""
    words = *_redrive_words(topic, to, limit, per_second), "REPORT"
    return Call(words, answers.redriven, False, float("inf"))


def _redrive_words(topic: str, to: str | None, limit: int | None, per_second: float | None) -> tuple[Word, ...]:
    return "REDRIVE", topic, *options(to=to, limit=limit, rate=seconds_word(per_second))


def purge(
    topic: str, *, state: str | None = None, older_than_seconds: Seconds | None = None, group: str | None = None
) -> Call[int]:
    """Remove waiting messages: all, those in a state, or those published so long ago; return how many.

    With a group, only that group loses them.
    """
    words = options(state=state, older=seconds_word(older_than_seconds), group=group)
    return Call(("PURGE", topic, *words), answers.number, False, float("inf"))


def pause(
    topic: str, side: Side | None = None, *, seconds: Seconds | None = None, group: str | None = None
) -> Call[None]:
    """Stop publishing to a topic, delivery from it, or both, for a time or until `resume`.

    Args:
      topic: the topic.
      side: `in`, `out`, or `both`, the default; of a group, `out`.
      seconds: the duration; None: until `resume`.
      group: the group to whose consumers nothing is delivered; None: the whole topic.
    """
    until = () if seconds is None else (seconds_word(seconds),)
    return Call(("PAUSE", topic, *_side_words(side, group, until)), answers.nothing)


def resume(topic: str, side: Side | None = None, *, group: str | None = None) -> Call[None]:
    """End the pause of a topic, or of one group."""
    return Call(("RESUME", topic, *_side_words(side, group, ())), answers.nothing)


def events(*types: str) -> Call[None]:
    """Listen to what happens in the broker; see `Client.events`."""
    return Call(("EVENTS", *types), answers.nothing, is_repeatable=False)


def _side_words(side: Side | None, group: str | None, until: tuple[Word, ...]) -> tuple[Word, ...]:
    shown = side or ("both" if group is None else "out")
    return (shown.upper(), *until, *(() if group is None else ("GROUP", group)))


def _setting_words(settings: dict[str, Setting]) -> list[Word]:
    return [word for name, value in settings.items() for word in (name, _setting_word(value))]


def _setting_word(value: Setting) -> Word:
    match value:
        case None:
            return "default"
        case bool():
            return "true" if value else "false"
        case float() | timedelta():
            return seconds_word(value)
        case int() | str():
            return value
        case Mapping():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return ",".join(map(seconds_word, value))
