"""The kinds of topic settings: the text and the valid values of each.

    name ─▶ Field: parse, a text of RESP ─▶ the JSON value ─▶ check ─▶ the stored value

`settings` declares each setting once, in a row that calls one of the functions below; rules that concern several
settings are there, too. `Side` and `LimitPolicy` name values that the broker needs as well: the sides that a pause
stops, and what happens when a topic is full.
"""

import math
import re
from collections.abc import Callable, Sequence
from enum import Enum, StrEnum
from typing import Any, Final, NamedTuple

from miniqueue.core.message.names import USER_NAME_RULE, check_name, is_user_name
from miniqueue.core.options.durations import SECONDS_RULE, TIME_RULE, parse_seconds, parse_time_ms
from miniqueue.core.settings.schema import SCHEMA_RULE, check_schema
from miniqueue.errors import InvalidDelayError
from miniqueue.errors.requests import InvalidOptionError

#: The end of the year 9999: a pause without an end.
FOREVER_MS = 253_402_300_799_999


class Side(Enum):
    """The side of a topic that a pause stops; the values are the words of clients."""

    IN = "in"
    OUT = "out"
    BOTH = "both"

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings of a topic with the ends of the pauses of this side."""
        sides = (Side.IN, Side.OUT) if self is Side.BOTH else (self,)
        return tuple(f"paused_{side.value}_until_ms" for side in sides)


def parse_side(word: str) -> Side:
    """Parse a side; raises InvalidOptionError."""
    try:
        return Side(word.lower())
    except ValueError as exc:
        raise InvalidOptionError("a side is one of in, out, both") from exc


def parse_side_of(word: str | None, group: bytes | None) -> Side:
    """Parse the side of a topic, or of a group, which has only deliveries; raises InvalidOptionError."""
    side = (Side.BOTH if group is None else Side.OUT) if word is None else parse_side(word)
    if group is not None and side is not Side.OUT:
        raise InvalidOptionError("a group has only the side out: all groups read what is published")
    return side


def ends_at_ms(now_ms: int, seconds: float | None) -> int:
    """Return the end of a pause that begins now, in ms since 1970; raises InvalidDelayError.

    Args:
      now_ms: the current time in ms since 1970.
      seconds: the duration; None: without an end.
    """
    if seconds is None:
        return FOREVER_MS
    if not 0 <= seconds <= (FOREVER_MS - now_ms) / 1000:
        raise InvalidDelayError
    return now_ms + math.ceil(seconds * 1000)


class LimitPolicy(StrEnum):
    """What happens to a publish into a full topic, or to its oldest messages; the values are those of settings."""

    REFUSE = "refuse"
    DROP_OLDEST = "drop-oldest"
    DEAD_LETTER = "dead-letter"


ALL_POLICIES: Final = frozenset(LimitPolicy)

#: The words of `expired`.
DROP: Final = "drop"
DEAD_LETTER: Final = "dead-letter"
#: The words of `retention`.
CONSUMED: Final = "consumed"
FOREVER: Final = "forever"

# Most maxima only reject mistakes, such as milliseconds for seconds, and keep sums of times and counts within 8 bytes.
MAX_RETRY_SECONDS: Final = 366 * 86_400.0
MAX_RETRY_DELAYS: Final = 100
MAX_DELIVERIES: Final = 1_000_000
MAX_FACTOR: Final = 100.0
MAX_HELD: Final = 10**15
MAX_RETENTION_SECONDS: Final = 1e9
#: Maximum dedup window: all dedup ids of the window are in memory.
MAX_DEDUP_SECONDS: Final = 7 * 86_400.0
#: Minimum time after which an idle group is deleted; a group must survive the restart of its consumers.
MIN_GROUP_IDLE_SECONDS: Final = 60.0
MAX_GROUP_IDLE_SECONDS: Final = 1e9
#: Maximum number of groups of a topic that have a setting of their own: each change writes all of them.
MAX_OWN_GROUPS: Final = 1000
MAX_TRACE_SECONDS: Final = 366 * 86_400.0
#: Minimum rate other than 0: one message in 1,000 seconds.
MIN_RATE: Final = 0.001
MAX_RATE: Final = 1e6
MAX_CONCURRENCY: Final = 1_000_000

_NUMBER: Final = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?")


class Field(NamedTuple):
    """The row of a setting: its text, its valid values, and its effect.

    Attributes:
      allowed: the valid values, for errors and documents.
      parse: converts a RESP word to the JSON value; raises ValueError or RequestError.
      check: converts a JSON value to the stored one; raises ValueError, TypeError, or RequestError.
      text: the effect, in Markdown; links lead to sections of docs/protocol.md.
      unset: what applies while the setting is not set, if the default does not say it.
    """

    allowed: str
    parse: Callable[[str], object]
    check: Callable[[Any], object]
    text: str
    unset: str = ""


def seconds(minimum: float, maximum: float, text: str, *, zero: str = "", unset: str = "") -> Field:
    """Return the row of a duration; `zero` is the meaning of 0."""
    check = _checked_seconds(_checked_number(minimum, maximum))
    return Field(f"{SECONDS_RULE} {_range(minimum, maximum, zero)}", parse_seconds, check, text, unset)


def number(minimum: float, maximum: float, text: str) -> Field:
    """Return the row of a number without a unit."""
    return Field(
        f"a number {_range(minimum, maximum)}",
        _parse_number,
        _checked_number(minimum, maximum),
        text,
    )


def rate(minimum: float, maximum: float, text: str) -> Field:
    """Return the row of a number of messages a second."""
    allowed = f"0, no limit, or a number each second {_range(minimum, maximum)}"
    return Field(allowed, _parse_number, _zero_or(minimum, maximum), text)


def optional_seconds(zero: str, minimum: float, maximum: float, text: str) -> Field:
    """Return the row of a duration that is 0, which means `zero`, or at least `minimum`."""
    allowed = f"0, {zero}, or {SECONDS_RULE} {_range(minimum, maximum)}"
    return Field(allowed, parse_seconds, _checked_seconds(_zero_or(minimum, maximum)), text)


def whole(minimum: int, maximum: int, text: str, *, zero: str = "", unset: str = "") -> Field:
    """Return the row of a whole number; `zero` is the meaning of 0."""
    allowed = f"a whole number {_range(minimum, maximum, zero)}"
    return Field(allowed, _parse_count, _checked_count(minimum, maximum), text, unset)


def pause(text: str) -> Field:
    """Return the row of the end of a pause."""
    allowed = f"{TIME_RULE}, {_range(0, FOREVER_MS, 'not paused')}, forever"
    return Field(allowed, parse_time_ms, _check_end, text)


def flag(text: str) -> Field:
    """Return the row of a setting that is true or false."""
    return Field("true or false", _parse_flag, _check_flag, text)


def choice(words: Sequence[str], text: str, *, unset: str = "") -> Field:
    """Return the row of a choice among words, over RESP in any case."""

    def check(value: object) -> str:
        if value not in words:
            raise ValueError
        return str(value)

    return Field((" or " if len(words) == 2 else ", ").join(words), str.lower, check, text, unset)


def topic_name(text: str, *, unset: str) -> Field:
    """Return the row of the name of a topic."""
    return Field("the name of a topic", str, _check_topic_name, text, unset)


def user_name(text: str, *, unset: str) -> Field:
    """Return the row of the name of a user, who need not exist."""
    return Field(f"the name of a user, {USER_NAME_RULE}", str, _check_user_name, text, unset)


def json_schema(text: str, *, unset: str) -> Field:
    """Return the row of a JSON Schema, over RESP as its text."""
    return Field(SCHEMA_RULE, str, check_schema, text, unset)


def delays(text: str) -> Field:
    """Return the row of a list of durations."""
    allowed = (
        f"at most {MAX_RETRY_DELAYS} numbers of seconds, or durations such as 1h30m, {_range(0, MAX_RETRY_SECONDS)}"
    )
    return Field(allowed, _parse_delays, _check_delays, text, "none")


def by_group(unit: str, parse_number: Callable[[str], float], check_number: Callable[[Any], float], text: str) -> Field:
    """Return the row of a number for each of some groups: pairs of a name and a number, in RESP separated by blanks."""

    def parse(text: str) -> list[tuple[str, float]]:
        words = text.split()
        return [(name, parse_number(number)) for name, number in zip(words[::2], words[1::2], strict=True)]

    def check(value: object) -> tuple[tuple[str, float], ...]:
        pairs = [*value.items()] if isinstance(value, dict) else value
        if not isinstance(pairs, list | tuple) or len(pairs) > MAX_OWN_GROUPS:
            raise ValueError
        checked = {_check_group_name(name): check_number(number) for name, number in pairs}
        if len(checked) < len(pairs):
            raise ValueError
        return tuple(sorted(checked.items()))

    return Field(f"at most {MAX_OWN_GROUPS} names of groups, each with {unit}", parse, check, text, "none")


def _check_group_name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError
    return check_name(name.encode()).decode()


def seconds_by_group(minimum: float, text: str) -> Field:
    """Return the row of a duration for each of some groups."""
    unit = f"{SECONDS_RULE} {_range(minimum, MAX_GROUP_IDLE_SECONDS)}"
    check = _checked_seconds(_checked_number(minimum, MAX_GROUP_IDLE_SECONDS))
    return by_group(unit, parse_seconds, check, text)


def pauses_by_group(text: str) -> Field:
    """Return the row of the end of a pause for each of some groups."""
    return by_group(f"an end: {TIME_RULE}", parse_time_ms, _check_end, text)


def growths(text: str) -> Field:
    """Return the row of what a whole number was before it grew: pairs of a number and a time, in ms since 1970."""

    def parse(text: str) -> list[tuple[int, int]]:
        words = text.split()
        return [(_parse_count(word), _parse_count(at_ms)) for word, at_ms in zip(words[::2], words[1::2], strict=True)]

    def check(value: object) -> tuple[tuple[int, int], ...]:
        if not isinstance(value, list | tuple):
            raise TypeError
        return tuple((_check_end_ms(each), _check_end_ms(at_ms)) for each, at_ms in value)

    return Field("set by the broker", parse, check, text, "none")


def _range(minimum: float, maximum: float, zero: str = "") -> str:
    return f"from {_shown(minimum)}{f', {zero},' if zero else ''} to {_shown(maximum)}"


def _shown(bound: float) -> str:
    exponent = round(math.log10(bound)) if bound else 0
    return f"10^{exponent}" if exponent >= 9 and bound == 10**exponent else f"{bound:.15g}"


def _parse_number(text: str) -> float:
    if _NUMBER.fullmatch(text) is None:
        raise ValueError
    return float(text)


def _parse_count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise ValueError
    return int(text)


def _parse_delays(text: str) -> list[float]:
    return [parse_seconds(part.strip()) for part in text.split(",")]


def _parse_flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


def _checked_number(minimum: float, maximum: float) -> Callable[[Any], float]:
    def check(value: object) -> float:
        if type(value) not in (int, float) or not minimum <= value <= maximum:  # type: ignore[operator]  # a number here
            raise ValueError
        return float(value)  # type: ignore[arg-type]  # a number here, too

    return check


def _checked_count(minimum: int, maximum: int) -> Callable[[Any], int]:
    def check(value: object) -> int:
        if type(value) is not int or not minimum <= value <= maximum:  # True is an int too
            raise ValueError
        return value

    return check


def _zero_or(minimum: float, maximum: float) -> Callable[[Any], float]:
    check_number = _checked_number(0, maximum)

    def check(value: object) -> float:
        checked = check_number(value)
        if 0 < checked < minimum:
            raise ValueError
        return checked

    return check


def _checked_seconds(check_number: Callable[[Any], float]) -> Callable[[Any], float]:
    def check(value: object) -> float:
        return check_number(parse_seconds(value) if isinstance(value, str) else value)

    return check


_check_end_ms: Final = _checked_count(0, FOREVER_MS)


def _check_end(value: object) -> int:
    return _check_end_ms(parse_time_ms(value) if isinstance(value, str) else value)


_check_delay: Final = _checked_seconds(_checked_number(0, MAX_RETRY_SECONDS))


def _check_delays(value: object) -> tuple[float, ...]:
    if not isinstance(value, list | tuple) or len(value) > MAX_RETRY_DELAYS:
        raise ValueError
    return tuple(map(_check_delay, value))


def _check_flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _check_topic_name(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return check_name(value.encode()).decode()


def _check_user_name(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    if not is_user_name(value):
        raise ValueError
    return value
