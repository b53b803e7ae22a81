"""Calls about schedules, which publish a message repeatedly; see `messages`."""

from typing import Literal, TypeAlias

from miniqueue.client.calls import answers
from miniqueue.client.calls.call import Call, Reply, options, seconds_word
from miniqueue.client.calls.messages import Payload
from miniqueue.client.calls.values import Schedule
from miniqueue.errors import RequestError

Missed: TypeAlias = Literal["all", "one", "none"]


def set_schedule(
    name: str,
    topic: str,
    payload: Payload,
    *,
    cron: str | None = None,
    zone: str | None = None,
    every_seconds: float | None = None,
    missed: Missed | None = None,
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
    """
    if (cron is None) == (every_seconds is None):
        raise RequestError("invalid schedule; set either cron or every_seconds")
    every = None if every_seconds is None else seconds_word(every_seconds)
    words = options(cron=cron, tz=zone, every=every, missed=missed)
    return Call(("SCHEDULE", "SET", name, *words, topic, payload), answers.nothing)


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
    )
