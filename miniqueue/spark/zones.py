"""Times that were given without a zone: they are those of a session of Spark, whose zones have names of Java's.

Such are `Europe/Berlin`, `UTC`, `Z`, `+01:00`, `-8:00`, `UTC+01:00` and `GMT+1`.
"""

import re
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from miniqueue.errors import ConfigError

_SHIFTED: Final = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?([0-5]\d))?")


def in_zone(at: datetime, zone: str) -> datetime:
    """Return a time with its zone, which is `zone` where it has none of its own.

    Args:
      at: the time.
      zone: as `spark.sql.session.timeZone` has it; "" for that of this machine.

    Raises ConfigError for a zone that is not known here.
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
            [f"a time without a zone is in spark.sql.session.timeZone, and {name!r} is unknown here; add its own, as Z"]
        ) from exc
