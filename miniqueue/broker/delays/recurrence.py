"""Computes the ticks of schedules: the times at which the rule of a schedule says that a message is due.

    every    due, due + every, due + 2·every …     counted from when the schedule was set, whatever the zone
    cron     as Debian's cron, in the zone of the schedule: a tick in the hour that is skipped in spring comes at the
             end of that hour, a tick in the hour that is repeated in autumn comes once; but a rule with a star for
             the minute or the hour follows the elapsed time. This applies to five fields and to six: all ticks in
             skipped seconds together are one tick

Cron expressions are those of `cronsim`: five fields, or six with the seconds first; names of days and months, lists,
ranges, steps, L, LW and #.
"""

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from cronsim.cronsim import is_imaginary

from miniqueue.core.settings import schedule as schedules
from miniqueue.core.settings.schedule import Schedule
from miniqueue.errors.requests import InvalidOptionError

#: The next tick of a rule that has no further tick.
NEVER_MS = 1 << 62
#: Longer than any change of a zone's offset, such as daylight saving time.
MARGIN_MS = 4 * 3_600_000


def first_tick_ms(schedule: Schedule, now_ms: int) -> int:
    """Return the first tick of a schedule that is set now.

    Raises InvalidOptionError if its rule is invalid, or has no tick until its end.
    """
    tick_ms = _first_tick_ms(schedule, now_ms)
    if schedule.until_ms is not None and tick_ms > schedule.until_ms:
        raise InvalidOptionError(f"the first message would be due at {tick_ms}, after UNTIL")
    return tick_ms


def _first_tick_ms(schedule: Schedule, now_ms: int) -> int:
    if schedule.every_ms:
        return now_ms + schedule.every_ms
    if len(schedule.cron) > schedules.MAX_CRON_CHARS:  # Each tick parses the expression.
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
    """Return the latest `max_count` ticks from `due_at_ms`, itself a tick, to now, in order; and the next tick.

    The next tick is NEVER_MS if there is none until the end of the schedule.
    """
    until_ms = NEVER_MS if schedule.until_ms is None else schedule.until_ms
    if due_at_ms > until_ms:
        return [], NEVER_MS
    ticks_ms, next_at_ms = _due_ticks_ms(schedule, due_at_ms, min(now_ms, until_ms), max_count)
    return ticks_ms, next_at_ms if next_at_ms <= until_ms else NEVER_MS


def _due_ticks_ms(schedule: Schedule, due_at_ms: int, now_ms: int, max_count: int) -> tuple[list[int], int]:
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
        return UTC  # UTC needs no database.
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as exc:
        raise InvalidOptionError("there is no such time zone on this machine; a valid name is Europe/Berlin") from exc


def _cron_behind(schedule: Schedule, after_ms: int) -> Iterator[int]:
    """Yield the ticks after a time, in order; `cronsim` yields a tick in a repeated hour twice, this yields it once."""
    after = datetime.fromtimestamp(after_ms // 1000, zone_of(schedule.zone))
    for tick in _simulated(schedule, after):
        tick_ms = _ms(tick)
        if tick_ms > after_ms:
            yield tick_ms
            after_ms = tick_ms


class _Ticks(CronSim):
    """Moves ticks in a skipped hour exactly to its end; `cronsim` keeps their seconds."""

    def advance(self) -> None:
        """Move to the next tick."""
        super().advance()
        self._leave_gap()

    def reverse(self) -> None:
        """Move to the previous tick."""
        super().reverse()
        self._leave_gap()

    def _leave_gap(self) -> None:
        if self.fixup_tz is None or not is_imaginary(self.dt.replace(tzinfo=self.fixup_tz, fold=0)):
            return
        self.dt = self.dt.replace(second=0)
        while is_imaginary(self.dt.replace(tzinfo=self.fixup_tz, fold=0)):
            self.dt += timedelta(minutes=1)


def _simulated(schedule: Schedule, start: datetime, *, is_reverse: bool = False) -> CronSim:
    """Return the ticks from `start` on, by Debian's rules, which `cronsim` applies to five fields only."""
    simulated = _Ticks(schedule.cron, start, reverse=is_reverse)
    _seconds, minutes, hours, *_ = simulated.parts
    if simulated.dt.tzinfo not in (None, UTC) and not minutes.startswith("*") and not hours.startswith("*"):
        simulated.fixup_tz = simulated.dt.tzinfo
        simulated.dt = simulated.dt.replace(tzinfo=None)
    return simulated


def _start_ms(schedule: Schedule, due_at_ms: int, now_ms: int, max_count: int) -> int:
    """Return a time after which the latest `max_count` ticks come, and not many more.

    In reverse, `cronsim` does not always yield the same ticks as forward: near a clock change it can be hours off.
    """
    now = datetime.fromtimestamp(now_ms // 1000, zone_of(schedule.zone))
    back = map(_ms, _simulated(schedule, now, is_reverse=True))
    at_ms = next(islice(takewhile(due_at_ms.__lt__, back), max_count, None), due_at_ms)
    return max(due_at_ms, at_ms - MARGIN_MS)


def _ms(tick: datetime) -> int:
    return int(tick.timestamp()) * 1000
