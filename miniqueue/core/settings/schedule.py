"""Schedules: a message that is published repeatedly, at the times of a rule.

    cron      minute hour day month weekday, in a time zone     0 9 * * mon-fri
    every     a duration, counted from when the schedule was set

The times of the rule are its ticks; `broker.delays.recurrence` calculates them. After the last tick until the end, if
there is one, the schedule is deleted.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from miniqueue.core.message import attributes as encoded_attributes
from miniqueue.core.message.attributes import Attributes
from miniqueue.core.message.lanes import Priority
from miniqueue.core.message.names import DOT_SEGMENTS, check_name, check_topic, refusal_of_dots
from miniqueue.core.options.durations import SECONDS_RULE, parse_seconds
from miniqueue.core.options.publish import MAX_TTL_SECONDS, NO_OPTIONS, PublishOptions
from miniqueue.errors import InvalidDelayError, InvalidTopicError
from miniqueue.errors.requests import InvalidOptionError

#: Minimum and maximum time between two messages.
MIN_EVERY_SECONDS = 1.0
MAX_EVERY_SECONDS = 10.0**10
#: Maximum length of a cron expression: long enough for a list of all minutes.
MAX_CRON_CHARS = 255
UTC = "UTC"
#: Publish options that the messages of a schedule can have. Each tick publishes one message, at its time: delays, dedup
#: ids and unique keys would change that.
PUBLISH_OPTIONS = ("key", "priority", "ttl")


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
      options: headers, key, priority and time to live of each message; nothing else.
      until_ms: no tick is later, in ms since 1970; None: no end.
    """

    topic: bytes
    payload: bytes
    cron: str = ""
    every_ms: int = 0
    zone: str = UTC
    missed: Missed = Missed.ALL
    options: PublishOptions = NO_OPTIONS
    until_ms: int | None = None

    @property
    def attributes(self) -> bytes:
        """The encoded headers and key of its messages; raises InvalidAttributesError if they are too long."""
        return Attributes(self.options.headers, self.options.key).encode()

    def members(self) -> dict[str, Any]:
        """Return the JSON members of the schedule, without the payload and the attributes."""
        rule = {"cron": self.cron, "zone": self.zone} if self.cron else {"every_ms": self.every_ms}
        more = {} if self.until_ms is None else {"until_ms": self.until_ms}
        return {"topic": self.topic.decode(), **rule, "missed": self.missed.value, **more, **self.option_members()}

    def option_members(self) -> Mapping[str, str | float]:
        """Return priority and time to live of the messages as JSON members, those that are set."""
        priority, ttl_seconds = self.options.priority, self.options.ttl_seconds
        members = {"priority": None if priority is Priority.NORMAL else priority.value, "ttl": ttl_seconds}
        return {name: value for name, value in members.items() if value is not None}


def of_members(members: dict[str, Any], payload: bytes, attributes: bytes = b"") -> Schedule:
    """Return the schedule of a result of `Schedule.members`, its payload, and its attributes.

    Raises KeyError, TypeError, ValueError, AttributeError, or InvalidTopicError for anything else.
    """
    cron, every_ms, zone = members.get("cron", ""), members.get("every_ms", 0), members.get("zone", UTC)
    is_cron = isinstance(cron, str) and isinstance(zone, str) and cron != "" and every_ms == 0
    is_every = cron == "" and zone == UTC and type(every_ms) is int and every_ms > 0
    if not (is_cron or is_every):
        raise ValueError("a schedule has one rule")
    until_ms = members.get("until_ms")
    if until_ms is not None and not (type(until_ms) is int and until_ms >= 0):
        raise ValueError("the end of a schedule is a time")
    topic = check_topic(members["topic"].encode())
    options = _options(members, attributes)
    return Schedule(topic, payload, cron, every_ms, zone, Missed(members["missed"]), options, until_ms)


def _options(members: dict[str, Any], attributes: bytes) -> PublishOptions:
    ttl_seconds, described = members.get("ttl"), encoded_attributes.decode(attributes)
    if ttl_seconds is not None and not (type(ttl_seconds) in (int, float) and 0 < ttl_seconds <= MAX_TTL_SECONDS):
        raise ValueError("a time to live is a number of seconds")
    if described != Attributes(described.headers, described.key):
        raise ValueError("the messages of a schedule have headers and a key, no other attributes")
    priority = Priority(members.get("priority", Priority.NORMAL))
    return PublishOptions(described.headers, described.key, ttl_seconds, priority=priority)


def check_schedule_name(name: bytes) -> bytes:
    """Return `name` if it is valid for a schedule, by the rules for topics; raises InvalidOptionError."""
    try:
        return check_name(name)
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
    seconds = parse_seconds(text)
    if not MIN_EVERY_SECONDS <= seconds <= MAX_EVERY_SECONDS:
        raise InvalidDelayError(f"EVERY is {SECONDS_RULE} from {MIN_EVERY_SECONDS:g} to {MAX_EVERY_SECONDS:.0f}")
    return round(seconds * 1000)


def parse_missed(text: str) -> Missed:
    """Parse what happens to missed ticks; raises InvalidOptionError."""
    try:
        return Missed(text.lower())
    except ValueError as exc:
        raise InvalidOptionError(f"what was missed makes {', '.join(Missed)} of its messages") from exc
