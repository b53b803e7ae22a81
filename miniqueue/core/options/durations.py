"""Durations and times, in the syntax of every protocol.

    duration = seconds | part+                  90 · 0.5 · 500ms · 1m30s · 1.5h · 2d
    part     = number unit                      number: 1 · 1.5 · .5 · 1.
    unit     = "ns" | "us" | "µs" | "ms" | "s" | "m" | "h" | "d"
    time     = ms since 1970 | RFC 3339         1796112000000 · 2026-12-01T08:00:00Z · 2026-12-01T09:00:00.5+01:00

Parts are those of Go, and days of 24 hours; fractions of a nanosecond are dropped. Fractions of a millisecond of a time
are rounded up, so that nothing is early.

Sources: https://pkg.go.dev/time#ParseDuration, https://www.rfc-editor.org/rfc/rfc3339#section-5.6.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from miniqueue.errors import InvalidDelayError
from miniqueue.errors.requests import InvalidOptionError

#: What errors and documents say about durations, before the range of the number of seconds.
SECONDS_RULE: Final = "a number of seconds, or a duration such as 1h30m,"
#: What they say about times.
TIME_RULE: Final = "ms since 1970, or a time such as 2026-12-01T08:00:00Z"
#: Maximum time; it fits in the 8 bytes that the store has for a number.
MAX_TIME_MS: Final = 1 << 62

_NANOSECONDS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # U+00B5, the micro sign
    "μs": 1_000,  # U+03BC, the Greek letter
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}
_SECONDS: Final = re.compile(r"[0-9]+(\.[0-9]+)?|\.[0-9]+")
_PART: Final = re.compile(rf"([0-9]*)(?:\.([0-9]*))?({'|'.join(_NANOSECONDS)})(?![a-z])")
_MAX_CHARS: Final = 100  # longer ones are over all limits, and Python is slow at parsing very long numbers
_WHOLE: Final = re.compile(r"[0-9]{1,19}")
_RFC_3339: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,30}))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_seconds(text: str) -> float:
    """Parse a duration, which is never negative, to seconds; raises InvalidDelayError.

    Python's `float` would also accept `1_0`, `nan`, and `infinity`.
    """
    if _SECONDS.fullmatch(text) is not None:
        return float(text)
    try:
        return parse_parts(text) / 1e9
    except ValueError as exc:
        raise InvalidDelayError from exc


def parse_parts(text: str) -> int:
    """Parse numbers with units to nanoseconds; raises ValueError."""
    nanoseconds = position = 0
    while position < len(text) <= _MAX_CHARS:
        part = _PART.match(text, position)
        if part is None or not (part[1] or part[2]):
            break
        nanoseconds += _nanoseconds(part[1], part[2] or "", part[3])
        position = part.end()
    if not text or position < len(text):
        raise ValueError("no duration")
    return nanoseconds


def parse_time_ms(text: str, name: str = "time") -> int:
    """Parse a time to ms since 1970, at most `MAX_TIME_MS`; raises InvalidOptionError with the name of the time."""
    try:
        time_ms = int(text) if _WHOLE.fullmatch(text) else _of_rfc_3339(text)
    except ValueError as exc:
        raise InvalidOptionError(f"{name} is {TIME_RULE}") from exc
    if not 0 <= time_ms <= MAX_TIME_MS:
        raise InvalidOptionError(f"{name} is {TIME_RULE}, not before 1970, and at most 2^62 ms")
    return time_ms


def _nanoseconds(whole: str, fraction: str, unit: str) -> int:
    """Return the nanoseconds of `whole.fraction` units; integer arithmetic makes 0.1s exactly 100000000."""
    denominator: int = 10 ** len(fraction)
    return int(whole + fraction) * _NANOSECONDS[unit] // denominator


def _of_rfc_3339(text: str) -> int:
    """Return the ms since 1970 of a time; raises ValueError, also for a date or an offset that does not exist."""
    match = _RFC_3339.fullmatch(text)
    if match is None:
        raise ValueError("no time")
    *fields, fraction, sign, offset_hours, offset_minutes = match.groups()
    year, month, day, hour, minute, second = map(int, fields)
    moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    hours, minutes = int(offset_hours or 0), int(offset_minutes or 0)
    if hours > 23 or minutes > 59:
        raise ValueError("no offset")
    ahead_ms = (hours * 60 + minutes) * (-60_000 if sign == "-" else 60_000)
    denominator: int = 10 ** len(fraction or "")
    fraction_ms = -(-int(fraction or 0) * 1000 // denominator)
    return (moment - _EPOCH) // timedelta(milliseconds=1) + fraction_ms - ahead_ms
