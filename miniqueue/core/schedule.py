"""What a schedule is: a message that is published over and over, at the times of a rule.

    cron      minute hour day month weekday, in a time zone     0 9 * * mon-fri
    every     a number of seconds, counted from when the schedule was set

The times of the rule are its ticks. This knows no clock and no calendar; `broker.recurrence` does.
"""

from enum import StrEnum
from typing import Any, NamedTuple

from miniqueue.core.delay import parse_delay
from miniqueue.core.look_errors import InvalidOptionError
from miniqueue.core.names import DOT_SEGMENTS, check_topic, refusal_of_dots
from miniqueue.errors import InvalidDelayError, InvalidTopicError, RequestError

#: The shortest and the longest time between two messages.
MIN_EVERY_SECONDS = 1.0
MAX_EVERY_SECONDS = 10.0**10
MAX_CRON_CHARS = 255
UTC = "UTC"


class UnknownScheduleError(RequestError):
    """There is no such schedule."""

    code = "NOSCHEDULE"


class Missed(StrEnum):
    """What becomes of ticks that passed while the broker was down, or while the topic took no messages."""

    ALL = "all"
    ONE = "one"
    NONE = "none"


class Schedule(NamedTuple):
    """What to publish, and when.

    Attributes:
      topic: where the messages go.
      payload: of each.
      cron: the expression; "" where `every_ms` is the rule.
      every_ms: time between two messages; 0 where `cron` is the rule.
      zone: in which the expression is meant, by its name in the time zone database.
      missed: which of the ticks that were missed make a message; of `all`, the latest 1,000.
    """

    topic: bytes
    payload: bytes
    cron: str = ""
    every_ms: int = 0
    zone: str = UTC
    missed: Missed = Missed.ALL

    def members(self) -> dict[str, Any]:
        """Return all but the payload, as JSON has it."""
        rule = {"cron": self.cron, "zone": self.zone} if self.cron else {"every_ms": self.every_ms}
        return {"topic": self.topic.decode(), **rule, "missed": self.missed.value}


def of_members(members: dict[str, Any], payload: bytes) -> Schedule:
    """Return what `Schedule.members` says.

    Raises KeyError, TypeError, ValueError, AttributeError or InvalidTopicError for anything else.
    """
    cron, every_ms, zone = members.get("cron", ""), members.get("every_ms", 0), members.get("zone", UTC)
    is_cron = isinstance(cron, str) and isinstance(zone, str) and cron != "" and every_ms == 0
    is_every = cron == "" and zone == UTC and type(every_ms) is int and every_ms > 0
    if not (is_cron or is_every):
        raise ValueError("a schedule has one rule")
    topic = check_topic(members["topic"].encode())
    return Schedule(topic, payload, cron, every_ms, zone, Missed(members["missed"]))


def check_schedule_name(name: bytes) -> bytes:
    """Return `name` if a schedule can have it: those that topics can have; raises InvalidOptionError."""
    try:
        return check_topic(name)
    except InvalidTopicError as exc:
        raise InvalidOptionError(
            "the name of a schedule is 1 to 255 bytes of UTF-8 without control characters, white space or '/'"
        ) from exc


def check_new_schedule_name(name: bytes) -> bytes:
    """Return `name` if a schedule can be set under it: what a new topic can have; raises InvalidOptionError."""
    if name in DOT_SEGMENTS:
        raise InvalidOptionError(refusal_of_dots("schedule", name))
    return check_schedule_name(name)


def parse_every_ms(text: str) -> int:
    """Return the time between two messages that a client asks for, in whole milliseconds; raises InvalidDelayError."""
    seconds = parse_delay(text)
    if not MIN_EVERY_SECONDS <= seconds <= MAX_EVERY_SECONDS:
        raise InvalidDelayError(f"EVERY is a number of seconds from {MIN_EVERY_SECONDS:g} to {MAX_EVERY_SECONDS:.0f}")
    return round(seconds * 1000)


def parse_missed(text: str) -> Missed:
    """Return what is to become of missed ticks; raises InvalidOptionError."""
    try:
        return Missed(text.lower())
    except ValueError as exc:
        raise InvalidOptionError(f"what was missed makes {', '.join(Missed)} of its messages") from exc
