"""What a client asks about schedules, which publish a message over and over; as `message_calls`."""

from typing import Literal, TypeAlias

from miniqueue.client import answers
from miniqueue.client.call import Call, Reply, options, seconds_word
from miniqueue.client.message_calls import Payload
from miniqueue.client.schedule import Schedule
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
    """Have a message published over and over, from the next time on; in place of what the name meant before.

    Args:
      name: of the schedule.
      topic: made by the first message, if there is none.
      payload: a str is sent as UTF-8.
      cron: when, as in `0 9 * * MON-FRI`.
      zone: whose time that is, as in `Europe/Berlin`; UTC if it is not given.
      every_seconds: instead of `cron`.
      missed: what becomes of messages that were due while the broker was down: each is published, which is the
        default, or the last `one`, or `none`.
    """
    if (cron is None) == (every_seconds is None):
        raise RequestError("a schedule has cron or every_seconds")
    every = None if every_seconds is None else seconds_word(every_seconds)
    words = options(cron=cron, tz=zone, every=every, missed=missed)
    return Call(("SCHEDULE", "SET", name, *words, topic, payload), answers.nothing)


def find_schedule(name: str) -> Call[Schedule]:
    """Return a schedule; refused with `NOSCHEDULE` when there is none."""
    return Call(("SCHEDULE", "GET", name), _schedule)


def schedules(*, after: str | None = None, count: int | None = None) -> Call[list[Schedule]]:
    """List schedules by their names, without payloads.

    Args:
      after: the name of the last one of the page before.
      count: up to 1,000, which is the default.
    """
    return Call(("SCHEDULE", "LIST", *options(after=after, count=count)), _schedules)


def delete_schedule(name: str) -> Call[None]:
    """End a schedule; refused with `NOSCHEDULE` when there is none."""
    return Call(("SCHEDULE", "DELETE", name), answers.nothing, is_repeatable=False)


def _schedules(reply: Reply) -> list[Schedule]:
    return [_schedule(one) for one in reply]


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
