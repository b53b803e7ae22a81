"""The ticks of schedules: when the rule of each says that a message is due.

    every    due, due + every, due + 2·every …     counted on from when the schedule was set, whatever the zone
    cron     as Debian's cron does, in the zone of the schedule: what falls into the hour that is left out in spring
             comes at its end, what falls into the hour that comes twice comes once; but a rule with a star for the
             minute or the hour goes by the time that passes; so it is with five fields, and with six: of the seconds
             that are left out, all together come once

Cron expressions are `cronsim`'s: five fields, or six with seconds in front; names of days and months, lists, ranges,
steps, L, LW and #.
"""

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from cronsim.cronsim import is_imaginary

from miniqueue.core import schedule as schedules
from miniqueue.core.look_errors import InvalidOptionError
from miniqueue.core.schedule import Schedule

#: When a rule has no tick any more.
NEVER_MS = 1 << 62
#: More than any clock is ever set by a change of its zone's time.
MARGIN_MS = 4 * 3_600_000


def first_tick_ms(schedule: Schedule, now_ms: int) -> int:
    """Return the first tick of a schedule that is set now.

    Raises InvalidOptionError when its rule makes no sense, or never has a tick.
    """
    if schedule.every_ms:
        return now_ms + schedule.every_ms
    if len(schedule.cron) > schedules.MAX_CRON_CHARS:  # each tick parses it
        raise InvalidOptionError(f"CRON has at most {schedules.MAX_CRON_CHARS} characters")
    try:
        tick_ms = next(_cron_behind(schedule, now_ms), NEVER_MS)
    except (CronSimError, ValueError, OverflowError) as exc:
        raise InvalidOptionError(
            f"CRON is minute, hour, day, month and weekday, as in '0 9 * * MON-FRI': {exc}"
        ) from exc
    if tick_ms == NEVER_MS:
        raise InvalidOptionError("there is no such time in the next 50 years")
    return tick_ms


def due_ticks_ms(schedule: Schedule, due_at_ms: int, now_ms: int, max_count: int) -> tuple[list[int], int]:
    """Return the ticks from `due_at_ms`, which is one, to now: the latest of them, in order; and the next one."""
    if schedule.every_ms:
        count = (now_ms - due_at_ms) // schedule.every_ms + 1
        numbers = range(max(0, count - max_count), count)
        return [due_at_ms + number * schedule.every_ms for number in numbers], due_at_ms + count * schedule.every_ms
    latest: deque[int] = deque(maxlen=max_count)
    for tick_ms in _cron_behind(schedule, _start_ms(schedule, due_at_ms, now_ms, max_count) - 1):
        if tick_ms > now_ms:
            return list(latest), tick_ms
        latest.append(tick_ms)
    return list(latest), NEVER_MS


def zone_of(name: str) -> tzinfo:
    """Return a time zone by its name in the time zone database; raises InvalidOptionError."""
    if name == schedules.UTC:
        return UTC  # needs no database
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as exc:
        raise InvalidOptionError("there is no such time zone here; they are called as Europe/Berlin") from exc


def _cron_behind(schedule: Schedule, after_ms: int) -> Iterator[int]:
    """Yield the ticks behind a time, in order: in an hour that comes twice the expression names both."""
    after = datetime.fromtimestamp(after_ms // 1000, zone_of(schedule.zone))
    for tick in _simulated(schedule, after):
        tick_ms = _ms(tick)
        if tick_ms > after_ms:
            yield tick_ms
            after_ms = tick_ms


class _Ticks(CronSim):
    """Ticks that come exactly at the end of an hour that is left out: `cronsim` leaves them their seconds."""

    def advance(self) -> None:
        """Go to the next tick."""
        super().advance()
        self._leave_gap()

    def reverse(self) -> None:
        """Go to the tick before."""
        super().reverse()
        self._leave_gap()

    def _leave_gap(self) -> None:
        if self.fixup_tz is None or not is_imaginary(self.dt.replace(tzinfo=self.fixup_tz, fold=0)):
            return
        self.dt = self.dt.replace(second=0)
        while is_imaginary(self.dt.replace(tzinfo=self.fixup_tz, fold=0)):
            self.dt += timedelta(minutes=1)


def _simulated(schedule: Schedule, start: datetime, *, is_reverse: bool = False) -> CronSim:
    """Return the ticks from a time on, with Debian's rules, which `cronsim` has for five fields only."""
    simulated = _Ticks(schedule.cron, start, reverse=is_reverse)
    _seconds, minutes, hours, *_ = simulated.parts
    if simulated.dt.tzinfo not in (None, UTC) and not minutes.startswith("*") and not hours.startswith("*"):
        simulated.fixup_tz = simulated.dt.tzinfo
        simulated.dt = simulated.dt.replace(tzinfo=None)
    return simulated


def _start_ms(schedule: Schedule, due_at_ms: int, now_ms: int, max_count: int) -> int:
    """Return a time from which on there are the latest ticks, and not very many more.

    Going back, `cronsim` does not always find the same ticks as going on: where clocks change it may be hours beside.
    """
    now = datetime.fromtimestamp(now_ms // 1000, zone_of(schedule.zone))
    back = map(_ms, _simulated(schedule, now, is_reverse=True))
    at_ms = next(islice(takewhile(due_at_ms.__lt__, back), max_count, None), due_at_ms)
    return max(due_at_ms, at_ms - MARGIN_MS)


def _ms(tick: datetime) -> int:
    return int(tick.timestamp()) * 1000
