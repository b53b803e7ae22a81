"""Checks that each schedule has its settings and its next tick, and that both can be read."""

from miniqueue.core.settings.schedule import check_schedule_name
from miniqueue.errors import CorruptionError, FormatVersionError
from miniqueue.errors.requests import InvalidOptionError
from miniqueue.storage.format import schedules, values
from miniqueue.tools.audit.problems import Problems


class ScheduleAudit:
    """Check of all schedules: pass the ticks, then the schedules, then call `finish`."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._ticks: set[bytes] = set()

    def take_tick(self, key: bytes, value: bytes) -> None:
        """Check the next tick."""
        name = schedules.name_of(key)
        self._ticks.add(name)
        try:
            check_schedule_name(name)
            values.decode_number(value)
        except InvalidOptionError:
            self._problems.add("no schedule can have this name", key)
        except (CorruptionError, FormatVersionError) as exc:
            self._problems.add(str(exc), key)

    def take_schedule(self, key: bytes, value: bytes) -> None:
        """Check the next schedule."""
        name = schedules.name_of(key)
        if name not in self._ticks:
            self._problems.add("the schedule has no next tick", key)
        self._ticks.discard(name)
        try:
            schedules.decode_schedule(value)
        except (CorruptionError, FormatVersionError) as exc:
            self._problems.add(str(exc), key)

    def finish(self) -> None:
        """Report the ticks without a schedule."""
        for name in sorted(self._ticks):
            self._problems.add("there is no such schedule", schedules.tick(name))
