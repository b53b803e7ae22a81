"""Schedules: a message that is published repeatedly, at the times of a rule.

    cron      minute hour day month weekday, in a time zone     0 9 * * mon-fri
    every     a number of seconds, counted from when the schedule was set

The times of the rule are its ticks; `broker.delays.recurrence` calculates them.
"""

from enum import StrEnum
from typing import Any, NamedTuple

from miniqueue.core.message.names import DOT_SEGMENTS, check_topic, refusal_of_dots
from miniqueue.core.options.amounts import parse_delay
from miniqueue.errors import InvalidDelayError, InvalidTopicError
from miniqueue.errors.requests import InvalidOptionError

#: Minimum and maximum time between two messages.
MIN_EVERY_SECONDS = 1.0
MAX_EVERY_SECONDS = 10.0**10
#: Maximum length of a cron expression: long enough for a list of all minutes.
MAX_CRON_CHARS = 255
UTC = "UTC"


class Missed(StrEnum):
    """What happens to ticks that passed while the broker was down, or while the topic accepted no messages."""

    ALL = "all"
    ONE = "one"
    NONE = "none"


class Schedule(NamedTuple):
    """A message, and the rule that says when to publish it.

    Attributes:
      topic: the topic to publish to.
      payload: the payload of each message.
      cron: the cron expression; "" if `every_ms` is the rule.
      every_ms: the time between two messages; 0 if `cron` is the rule.
      zone: the time zone of the expression, by its name in the time zone database.
      missed: the missed ticks that are published later; of `all`, the latest 1,000.
    """

    topic: bytes
    payload: bytes
    cron: str = ""
    every_ms: int = 0
    zone: str = UTC
    missed: Missed = Missed.ALL

    def members(self) -> dict[str, Any]:
        """Return the JSON members of the schedule, without the payload."""
        rule = {"cron": self.cron, "zone": self.zone} if self.cron else {"every_ms": self.every_ms}
        return {"topic": self.topic.decode(), **rule, "missed": self.missed.value}


def of_members(members: dict[str, Any], payload: bytes) -> Schedule:
    """Return the schedule of a result of `Schedule.members`.

    Raises KeyError, TypeError, ValueError, AttributeError, or InvalidTopicError for anything else.
    """
    cron, every_ms, zone = members.get("cron", ""), members.get("every_ms", 0), members.get("zone", UTC)
    is_cron = isinstance(cron, str) and isinstance(zone, str) and cron != "" and every_ms == 0
    is_every = cron == "" and zone == UTC and type(every_ms) is int and every_ms > 0
    if not (is_cron or is_every):
        raise ValueError("a schedule has one rule")
    topic = check_topic(members["topic"].encode())
    return Schedule(topic, payload, cron, every_ms, zone, Missed(members["missed"]))


def check_schedule_name(name: bytes) -> bytes:
    """Return `name` if it is valid for a schedule, by the rules for topics; raises InvalidOptionError."""
    try:
        return check_topic(name)
    except InvalidTopicError as exc:
        raise InvalidOptionError(
            "the name of a schedule is 1 to 255 bytes of UTF-8 without control characters, white space or '/'"
        ) from exc


def check_new_schedule_name(name: bytes) -> bytes:
    """Return `name` if a schedule can be created with it, by the rules for new topics; raises InvalidOptionError."""
    if name in DOT_SEGMENTS:
        raise InvalidOptionError(refusal_of_dots("schedule", name))
    return check_schedule_name(name)


def parse_every_ms(text: str) -> int:
    """Parse the time between two messages, and round it to milliseconds; raises InvalidDelayError."""
    seconds = parse_delay(text)
    if not MIN_EVERY_SECONDS <= seconds <= MAX_EVERY_SECONDS:
        raise InvalidDelayError(f"EVERY is a number of seconds from {MIN_EVERY_SECONDS:g} to {MAX_EVERY_SECONDS:.0f}")
    return round(seconds * 1000)


def parse_missed(text: str) -> Missed:
    """Parse what happens to missed ticks; raises InvalidOptionError."""
    try:
        return Missed(text.lower())
    except ValueError as exc:
        raise InvalidOptionError(f"what was missed makes {', '.join(Missed)} of its messages") from exc
