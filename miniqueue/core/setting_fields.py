"""How each setting of a topic is written, and what it may be.

    name ─▶ Field: parse, a text as RESP has it ─▶ what JSON has ─▶ check ─▶ the value that is kept

Knows nothing of what settings are for; what they may be together `topic_settings` says.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from miniqueue.core.limit_policy import LimitPolicy
from miniqueue.core.members import MAX_SESSION_SECONDS, MIN_SESSION_SECONDS
from miniqueue.core.names import check_topic
from miniqueue.core.partitioning import MAX_PARTITIONS
from miniqueue.core.pause import FOREVER_MS
from miniqueue.core.publish_options import MAX_TTL_SECONDS
from miniqueue.core.receiving import MAX_LEASE_SECONDS

MAX_RETRY_SECONDS: Final = 366 * 86_400.0
MAX_RETRY_DELAYS: Final = 100
MAX_DELIVERIES: Final = 1_000_000
DROP: Final = "drop"
DEAD_LETTER: Final = "dead-letter"
MAX_FACTOR: Final = 100.0
MAX_HELD: Final = 10**15
MAX_RETENTION_SECONDS: Final = 1e9
CONSUMED: Final = "consumed"
FOREVER: Final = "forever"
MAX_DEDUP_SECONDS: Final = 7 * 86_400.0
MIN_GROUP_IDLE_SECONDS: Final = 60.0
MAX_GROUP_IDLE_SECONDS: Final = 1e9
MAX_TRACE_SECONDS: Final = 366 * 86_400.0

MIN_RATE: Final = 0.001
MAX_RATE: Final = 1e6
MAX_CONCURRENCY: Final = 1_000_000

_RATE: Final = "0, no limit, or a number each second from 0.001 to 1000000"
_CONCURRENCY: Final = "a whole number from 0, no limit, to 1000000"
_TIME: Final = f"a time in ms since 1970, from 0, not paused, to {FOREVER_MS}, for ever"
_NUMBER: Final = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?")


def _parse_number(text: str) -> float:
    if _NUMBER.fullmatch(text) is None:
        raise ValueError
    return float(text)


def _parse_count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise ValueError
    return int(text)


def _parse_numbers(text: str) -> list[float]:
    return [_parse_number(part.strip()) for part in text.split(",")]


def _number(minimum: float, maximum: float) -> Callable[[Any], float]:
    def check(value: object) -> float:
        if type(value) not in (int, float) or not minimum <= value <= maximum:  # type: ignore[operator]  # a number here
            raise ValueError
        return float(value)  # type: ignore[arg-type]  # likewise

    return check


def _whole(maximum: int, minimum: int = 0) -> Callable[[Any], int]:
    def check(value: object) -> int:
        if type(value) is not int or not minimum <= value <= maximum:  # True is an int too
            raise ValueError
        return value

    return check


def _zero_or(minimum: float, maximum: float) -> Callable[[Any], float]:
    def check(value: object) -> float:
        number = _number(0, maximum)(value)
        if 0 < number < minimum:
            raise ValueError
        return number

    return check


_rate: Final = _zero_or(MIN_RATE, MAX_RATE)


def _delays(value: object) -> tuple[float, ...]:
    if not isinstance(value, list | tuple) or len(value) > MAX_RETRY_DELAYS:
        raise ValueError
    return tuple(map(_number(0, MAX_RETRY_SECONDS), value))


def _one_of(*words: str) -> Callable[[Any], str]:
    def check(value: object) -> str:
        if value not in words:
            raise ValueError
        return str(value)

    return check


def _parse_flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _topic_name(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return check_topic(value.encode()).decode()


class Field(NamedTuple):
    """How a setting is written, and what it may be."""

    allowed: str
    parse: Callable[[str], object]
    check: Callable[[Any], object]


def _seconds(minimum: float, maximum: float, words: str) -> Field:
    return Field(f"a number of seconds, {words}", _parse_number, _number(minimum, maximum))


FIELDS: Final[Mapping[str, Field]] = MappingProxyType(
    {
        "lease_seconds": _seconds(0.001, MAX_LEASE_SECONDS, "from 0.001 to 43200"),
        "max_deliveries": Field("a whole number from 0, no limit, to 1000000", _parse_count, _whole(MAX_DELIVERIES)),
        "dead_letter_topic": Field("the name of a topic", str, _topic_name),
        "ttl_seconds": _seconds(0, MAX_TTL_SECONDS, "from 0, for ever, to 10^10"),
        "expired": Field(f"{DROP} or {DEAD_LETTER}", str.lower, _one_of(DROP, DEAD_LETTER)),
        "retry_delays": Field("at most 100 numbers of seconds from 0 to 31622400", _parse_numbers, _delays),
        "retry_min_seconds": _seconds(0, MAX_RETRY_SECONDS, "from 0, at once, to 31622400"),
        "retry_max_seconds": _seconds(0, MAX_RETRY_SECONDS, "from 0 to 31622400"),
        "retry_factor": Field("a number from 1 to 100", _parse_number, _number(1, MAX_FACTOR)),
        "retry_jitter": Field("a number from 0 to 1", _parse_number, _number(0, 1)),
        "ordered": Field("true or false", _parse_flag, _flag),
        "fair": Field("true or false", _parse_flag, _flag),
        "max_rate": Field(_RATE, _parse_number, _rate),
        "max_concurrency": Field(_CONCURRENCY, _parse_count, _whole(MAX_CONCURRENCY)),
        "key_max_rate": Field(_RATE, _parse_number, _rate),
        "key_max_concurrency": Field(_CONCURRENCY, _parse_count, _whole(MAX_CONCURRENCY)),
        "partitions": Field(f"a whole number from 1 to {MAX_PARTITIONS}", _parse_count, _whole(MAX_PARTITIONS, 1)),
        "session_seconds": _seconds(MIN_SESSION_SECONDS, MAX_SESSION_SECONDS, "from 0.1 to 86400"),
        "handover_seconds": _seconds(0, MAX_SESSION_SECONDS, "from 0 to 86400"),
        "auto_create_groups": Field("true or false", _parse_flag, _flag),
        "group_idle_seconds": Field(
            "0, never, or a number of seconds from 60 to 10^9",
            _parse_number,
            _zero_or(MIN_GROUP_IDLE_SECONDS, MAX_GROUP_IDLE_SECONDS),
        ),
        "default_group": Field("true or false", _parse_flag, _flag),
        "paused_in_until_ms": Field(_TIME, _parse_count, _whole(FOREVER_MS)),
        "paused_out_until_ms": Field(_TIME, _parse_count, _whole(FOREVER_MS)),
        "dedup_window_seconds": _seconds(0, MAX_DEDUP_SECONDS, "from 0, no ids are taken, to 604800"),
        "limit_policy": Field(", ".join(LimitPolicy), str.lower, _one_of(*LimitPolicy)),
        "max_messages": Field("a whole number from 0, as the broker says, to 10^15", _parse_count, _whole(MAX_HELD)),
        "retention": Field(f"{CONSUMED} or {FOREVER}", str.lower, _one_of(CONSUMED, FOREVER)),
        "retention_seconds": _seconds(0.001, MAX_RETENTION_SECONDS, "from 0.001 to 10^9"),
        "retention_bytes": Field("a whole number from 1 to 10^15", _parse_count, _whole(MAX_HELD, 1)),
        "retention_drops_unread": Field("true or false", _parse_flag, _flag),
        "trace": Field("true or false", _parse_flag, _flag),
        "trace_seconds": _seconds(1, MAX_TRACE_SECONDS, "from 1 to 31622400"),
        "max_bytes": Field("a whole number from 0, as the broker says, to 10^15", _parse_count, _whole(MAX_HELD)),
    }
)
