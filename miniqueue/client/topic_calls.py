"""What a client asks about topics: make and set them, look into them, clear them; as `message_calls`."""

from collections.abc import Sequence
from functools import partial
from typing import Literal, TypeAlias

from miniqueue.client import answers
from miniqueue.client.call import Call, Word, options, seconds_word, side_words
from miniqueue.client.message import Message
from miniqueue.client.redriven import Redriven
from miniqueue.client.step import Step, steps

#: None puts a setting back to its default.
Setting: TypeAlias = str | int | float | Sequence[float] | None
Side: TypeAlias = Literal["in", "out", "both"]


def ping() -> Call[str]:
    """Ask the broker whether it answers."""
    return Call(("PING",), answers.text)


def topics() -> Call[list[str]]:
    """List the topics that exist, sorted; with users those for which the user has a role."""
    return Call(("TOPICS",), answers.texts)


def create_topic(topic: str, **settings: Setting) -> Call[None]:
    """Make a topic with settings; refused with `EXISTS` if there is one."""
    return Call(("TOPIC", "CREATE", topic, *_setting_words(settings)), answers.nothing, is_repeatable=False)


def set_topic(topic: str, **settings: Setting) -> Call[None]:
    """Change settings of a topic, all or none; refused with `NOTOPIC` or `BADSETTING`."""
    return Call(("TOPIC", "SET", topic, *_setting_words(settings)), answers.nothing)


def topic_settings(topic: str) -> Call[dict[str, str]]:
    """Return every setting of a topic, in words that `set_topic` takes."""
    return Call(("TOPIC", "GET", topic), answers.texts_by_name)


def delete_topic(topic: str) -> Call[None]:
    """Remove a topic and its messages, if there is one."""
    return Call(("TOPIC", "DELETE", topic), answers.nothing)


def length(topic: str, *, group: str | None = None) -> Call[int]:
    """Count the messages that are not acknowledged, by a group if one is named; 0 when there is no such topic."""
    return Call(("LEN", topic, *options(group=group)), answers.number)


def stats(topic: str | None = None) -> Call[dict[str, object]]:
    """Return the figures of a topic, or the sums over all; docs/protocol.md says what they mean."""
    return Call(("STATS", *side_words(topic)), answers.figures)


def peek(
    topic: str,
    *,
    state: str | None = None,
    count: int | None = None,
    after: str | None = None,
    group: str | None = None,
) -> Call[list[Message]]:
    """Show messages and take none.

    Args:
      topic: which must exist.
      state: `ready`, which is the default, `leased`, `delayed`, or `dead`: the dead letters of the topic.
      count: up to 1,000; 10 by default.
      after: the id of the last message of the page before.
      group: who reads; without it the default group.
    """
    words = options(state=state, count=count, after=after, group=group)
    return Call(("PEEK", topic, *words), partial(answers.seen, topic))


def find(topic: str, message_id: str, *, group: str | None = None) -> Call[Message]:
    """Show the message with an id, as it is in a group; refused with `NOMESSAGE` when it is gone."""
    return Call(("PEEK", topic, "ID", message_id, *options(group=group)), partial(answers.seen_message, topic))


def trace(topic: str, message_id: str) -> Call[list[Step]]:
    """Tell what happened to a message, in order, also in topics that it was moved to.

    The topic's setting `trace` must have been on. Refused with `NOMESSAGE` when nothing is known.
    """
    return Call(("TRACE", topic, message_id), steps)


def redrive(
    topic: str, *, to: str | None = None, limit: int | None = None, per_second: float | None = None
) -> Call[int]:
    """Move dead letters back to where they came from.

    Args:
      topic: that of the dead letters, such as `orders.dlq`.
      to: where all of them are moved instead.
      limit: how many are looked at; all if it is not given.
      per_second: how many at most; the call takes as long as that needs.

    Returns: how many were moved.

    Refused with `LIMIT` or `PAUSED` if something stopped it; what was moved before stays moved, and the text says how
    many that were.
    """
    return Call(_redrive_words(topic, to, limit, per_second), answers.number, False, float("inf"))


def redrive_report(
    topic: str, *, to: str | None = None, limit: int | None = None, per_second: float | None = None
) -> Call[Redriven]:
    """Move dead letters back as `redrive` does; return how many were moved, how many remain, and what stopped it."""
    words = *_redrive_words(topic, to, limit, per_second), "REPORT"
    return Call(words, answers.redriven, False, float("inf"))


def _redrive_words(topic: str, to: str | None, limit: int | None, per_second: float | None) -> tuple[Word, ...]:
    rate = None if per_second is None else seconds_word(per_second)
    return "REDRIVE", topic, *options(to=to, limit=limit, rate=rate)


def purge(
    topic: str, *, state: str | None = None, older_than_seconds: float | None = None, group: str | None = None
) -> Call[int]:
    """Remove messages that wait: those of a state, or that were published so long ago, or all; return how many.

    With a group only that one loses them.
    """
    older = None if older_than_seconds is None else seconds_word(older_than_seconds)
    words = options(state=state, older=older, group=group)
    return Call(("PURGE", topic, *words), answers.number, False, float("inf"))


def pause(topic: str, side: Side = "both", *, seconds: float | None = None) -> Call[None]:
    """Have a topic take no messages, or hand none out, for a time or until `resume`."""
    until = () if seconds is None else (seconds_word(seconds),)
    return Call(("PAUSE", topic, side.upper(), *until), answers.nothing)


def resume(topic: str, side: Side = "both") -> Call[None]:
    """End a pause."""
    return Call(("RESUME", topic, side.upper()), answers.nothing)


def _setting_words(settings: dict[str, Setting]) -> list[Word]:
    return [word for name, value in settings.items() for word in (name, _setting_word(value))]


def _setting_word(value: Setting) -> Word:
    match value:
        case None:
            return "default"
        case bool():
            return "true" if value else "false"
        case float():
            return seconds_word(value)
        case int() | str():
            return value
        case _:
            return ",".join(map(seconds_word, value))
