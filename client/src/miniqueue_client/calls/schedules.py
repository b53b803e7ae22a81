"""Calls about schedules, which publish a message repeatedly; see `messages`."""

from datetime import datetime
from typing import Literal, TypeAlias

from miniqueue_client.calls import answers
from miniqueue_client.calls.call import Call, Reply, Seconds, options, seconds_word, time_word
from miniqueue_client.calls.messages import Headers, Payload, Priority, header_words
from miniqueue_client.calls.values import Schedule
from miniqueue_client.errors import RequestError

Missed: TypeAlias = Literal["all", "one", "none"]


def set_schedule(  # noqa: PLR0913 - one keyword for each option of a schedule
    name: str,
    topic: str,
    payload: Payload,
    *,
    cron: str | None = None,
    zone: str | None = None,
    every_seconds: Seconds | None = None,
    missed: Missed | None = None,
    until: datetime | None = None,
    headers: Headers = (),
    key: Payload | None = None,
    ttl_seconds: Seconds | None = None,
    priority: Priority | None = None,
) -> Call[None]:
    """Publish a message repeatedly, starting at the next due time; replaces a schedule of the same name.

    Args:
      name: the name of the schedule.
      topic: the topic; the first message creates it if necessary.
      payload: the payload of each message; a str is sent as UTF-8.
      cron: the times, as in `0 9 * * MON-FRI`.
      zone: the time zone of `cron`, as in `Europe/Berlin`; None: UTC.
      every_seconds: the interval, instead of `cron`.
      missed: which messages to publish of those that were due while the broker was down: `all`, which is the default,
        `one`, the last of them, or `none`.
      until: the end: the broker deletes the schedule after the last message that is due until then; None: no end.
      headers: names and values of each message, as in `publish`.
      key: the key of each message.
      ttl_seconds: the time to live of each message, from when it is published.
      priority: the priority of each message.
    """
    if (cron is None) == (every_seconds is None):
        raise RequestError("invalid schedule; set either cron or every_seconds")
    words = options(
        cron=cron,
        tz=zone,
        every=seconds_word(every_seconds),
        missed=missed,
        until=time_word(until),
        key=key,
        ttl=seconds_word(ttl_seconds),
        priority=priority,
    )
    return Call(("SCHEDULE", "SET", name, *words, *header_words(headers), topic, payload), answers.nothing)


def find_schedule(name: str) -> Call[Schedule]:
    """Return a schedule; refused with `NOSCHEDULE` if it does not exist."""
    return Call(("SCHEDULE", "GET", name), _schedule)


def schedules(*, after: str | None = None, count: int | None = None) -> Call[list[Schedule]]:
    """List schedules in the order of their names, without payloads.

    Args:
      after: the name of the last schedule of the previous page.
      count: maximum number of schedules; at most 1,000, which is the default.
    """
    return Call(("SCHEDULE", "LIST", *options(after=after, count=count)), _schedules)


def fire_schedule(name: str) -> Call[str]:
    """Publish the message of a schedule now, in addition to its ticks; return the id of the message."""
    return Call(("SCHEDULE", "FIRE", name), answers.text, is_repeatable=False)


def delete_schedule(name: str) -> Call[None]:
    """Delete a schedule; refused with `NOSCHEDULE` if it does not exist."""
    return Call(("SCHEDULE", "DELETE", name), answers.nothing, is_repeatable=False)


def _schedules(reply: Reply) -> list[Schedule]:
    return [_schedule(item) for item in reply]


def _schedule(reply: Reply) -> Schedule:
    return Schedule(
        name=answers.text(reply[b"name"]),
        topic=answers.text(reply[b"topic"]),
        next_at_ms=int(reply.get(b"next_at_ms") or 0),
        cron=answers.text(reply.get(b"cron", b"")),
        zone=answers.text(reply.get(b"tz", b"")),
        every_seconds=float(reply.get(b"every", 0)),
        missed=answers.text(reply[b"missed"]),
        payload=reply.get(b"payload"),
        until_ms=reply.get(b"until_ms"),
        headers=tuple((answers.text(name), value) for name, value in reply.get(b"headers", ())),
        key=reply.get(b"key", b""),
        ttl_seconds=None if (ttl := reply.get(b"ttl")) is None else float(ttl),
        priority=answers.text(reply.get(b"priority", b"normal")),
    )
