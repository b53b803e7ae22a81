"""Durations in Go's notation, which the flags of miniqueue have always used.

    duration = ["+" | "-"] ( "0" | part+ )          1s · 1m30s · 1.5h · 500ms · 100ns
    part     = number unit                          number: 1 · 1.5 · .5 · 1.
    unit     = "ns" | "us" | "µs" | "ms" | "s" | "m" | "h"

Source: https://pkg.go.dev/time#ParseDuration. As in Go, a duration is a 63-bit number of nanoseconds, and fractions
of a nanosecond are dropped.
"""

import re

from miniqueue.errors import ConfigError

_INVALID = "invalid duration; must be numbers with units, such as 500ms, 1s, 1m30s, or 1.5h"
_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # U+00B5, the micro sign
    "μs": 1_000,  # U+03BC, the Greek letter
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART = re.compile(rf"([0-9]*)(?:\.([0-9]*))?({'|'.join(_NANOSECONDS)})(?![a-z])")
_MAX_NANOSECONDS = 2**63 - 1
_MAX_CHARS = 100  # longer numbers exceed 63 bits anyway, and Python is slow at parsing very long ones


def parse_duration(text: str) -> float:
    """Return the duration in seconds.

    Raises:
      ConfigError: `text` is not a duration, or is longer than about 292 years.
    """
    sign, unsigned = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if unsigned == "0":
        return 0.0
    nanoseconds = sum(_parts(unsigned))
    if nanoseconds > _MAX_NANOSECONDS:
        raise ConfigError([_INVALID])
    return sign * nanoseconds / 1e9


def parse_positive_duration(text: str) -> float:
    """Return the duration in seconds, if it is more than 0.

    Raises:
      ConfigError: `text` is not a duration, or the duration is zero or negative.
    """
    seconds = parse_duration(text)
    if seconds <= 0:
        raise ConfigError(["invalid duration; must be more than zero, such as 500ms or 1s"])
    return seconds


def parse_optional_duration(text: str) -> float:
    """Return the duration in seconds; 0 means that the limit or the delay is off.

    Raises:
      ConfigError: `text` is not a duration, or the duration is negative.
    """
    seconds = parse_duration(text)
    if seconds < 0:
        raise ConfigError(["invalid duration; must be 0 or more, such as 0, 10m, or 1h"])
    return seconds


def _parts(text: str) -> list[int]:
    """Return the nanoseconds of each part of an unsigned duration."""
    nanoseconds: list[int] = []
    position = 0
    while position < len(text) <= _MAX_CHARS:
        part = _PART.match(text, position)
        if part is None or not (part[1] or part[2]):
            break
        nanoseconds.append(_nanoseconds(part[1], part[2] or "", part[3]))
        position = part.end()
    if not nanoseconds or position < len(text):
        raise ConfigError([_INVALID])
    return nanoseconds


def _nanoseconds(whole: str, fraction: str, unit: str) -> int:
    """Return the nanoseconds of `whole.fraction` units; integer arithmetic makes 0.1s exactly 100000000."""
    denominator: int = 10 ** len(fraction)
    return int(whole + fraction) * _NANOSECONDS[unit] // denominator
