"""Durations of the flags: those of every protocol, but with a unit, and with a sign, as in Go.

    duration = ["+" | "-"] ( "0" | part+ )          1s · 1m30s · 1.5h · 500ms · 2d; parts: `core.options.durations`

A number without a unit is rejected, as in the Go program: its author may have meant any. As in Go, a duration is a
63-bit number of nanoseconds.
"""

from miniqueue.core.options.durations import parse_parts
from miniqueue.errors import ConfigError

_INVALID = "invalid duration; must be numbers with units, such as 500ms, 1s, 1m30s, 1.5h, or 2d"
_MAX_NANOSECONDS = 2**63 - 1


def parse_duration(text: str) -> float:
    """Return the duration in seconds.

    Raises:
      ConfigError: `text` is not a duration, or is longer than about 292 years.
    """
    sign, unsigned = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if unsigned == "0":
        return 0.0
    try:
        nanoseconds = parse_parts(unsigned)
    except ValueError as exc:
        raise ConfigError([_INVALID]) from exc
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
