"""Time zones of times without one: the zone of the Spark session, whose name is one of Java's.

Examples: `Europe/Berlin`, `UTC`, `Z`, `+01:00`, `-8:00`, `UTC+01:00` and `GMT+1`.
"""

import re
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from miniqueue.errors import ConfigError

_SHIFTED: Final = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?([0-5]\d))?")


def in_zone(at: datetime, zone: str) -> datetime:
    """Return a time with a time zone: its own, or `zone` if it has none.

    Args:
      at: the time.
      zone: the value of `spark.sql.session.timeZone`; "": the time zone of this machine.

    Raises ConfigError if the zone is unknown on this machine.
    """
    if at.tzinfo is not None:
        return at
    return at.replace(tzinfo=_zone(zone)) if zone else at.astimezone()


def _zone(name: str) -> tzinfo:
    try:
        if (shifted := _SHIFTED.fullmatch(name)) is not None:
            sign, hours, minutes = shifted.groups(default="0")
            shift = timedelta(hours=int(hours), minutes=int(minutes))
            return timezone(-shift if sign == "-" else shift)
        return ZoneInfo("UTC" if name == "Z" else name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        raise ConfigError(
            [f"unknown time zone {name!r} in spark.sql.session.timeZone; add a time zone to the time, such as Z"]
        ) from exc
